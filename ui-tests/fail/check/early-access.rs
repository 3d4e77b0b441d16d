//! Every rank puts into its peer's output before that one has begun.
use mscclpp::prelude::*;

#[collective(AllGather, ranks = 2, in_place)]
fn unasked(p: &Program) {
    for rank in p.ranks() {
        let peer = p.rank(1 - rank.id());
        let channel = rank.memory_channel(peer);
        channel.put(peer.output().chunk(rank.id()), rank.output().chunk(rank.id()), 0);
        channel.handshake(0);
    }
}

fn main() {}
