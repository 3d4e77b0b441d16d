//! Every rank puts into its peer's output, and the peer does not wait for it before it reads.
use mscclpp::prelude::*;

#[collective(AllGather, ranks = 2, in_place)]
fn early(p: &Program) {
    for rank in p.ranks() {
        let peer = p.rank(1 - rank.id());
        let channel = rank.memory_channel(peer);
        channel.put(peer.output().chunk(rank.id()), rank.output().chunk(rank.id()), 0);
        rank.copy(rank.scratch(1).chunk(0), rank.output().chunk(peer.id()), 0);
        channel.signal(0).sync(BlockSync::Before);
        channel.wait(0).sync(BlockSync::After);
    }
}

fn main() {}
