//! A relaxed signal orders execution and publishes nothing.
use mscclpp::prelude::*;

#[collective(AllGather, ranks = 2, in_place)]
fn unpublished(p: &Program) {
    for rank in p.ranks() {
        let peer = p.rank(1 - rank.id());
        let channel = rank.memory_channel(peer);
        channel.put(peer.output().chunk(rank.id()), rank.output().chunk(rank.id()), 0);
        channel.signal(0).relaxed().sync(BlockSync::Before);
        channel.wait(0).relaxed().sync(BlockSync::After);
        rank.copy(rank.scratch(1).chunk(0), rank.output().chunk(peer.id()), 0);
    }
}

fn main() {}
