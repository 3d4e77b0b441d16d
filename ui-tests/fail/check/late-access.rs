//! Every rank puts into its peer's output and ends, and so does the peer.
use mscclpp::prelude::*;

#[collective(AllGather, ranks = 2, in_place)]
fn unsaid(p: &Program) {
    for rank in p.ranks() {
        let peer = p.rank(1 - rank.id());
        let channel = rank.memory_channel(peer);
        channel.handshake(0).relaxed();
        channel.put(peer.output().chunk(rank.id()), rank.output().chunk(rank.id()), 0);
    }
}

fn main() {}
