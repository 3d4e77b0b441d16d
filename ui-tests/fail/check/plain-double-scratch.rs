//! Plain data in the peer's scratch, of which launches take turns with two halves.
use mscclpp::prelude::*;

#[collective(AllGather, ranks = 2, double_scratch)]
fn which_half(p: &Program) {
    for rank in p.ranks() {
        let peer = p.rank(1 - rank.id());
        let slot = peer.scratch(1);
        let channel = rank.memory_channel(peer);
        rank.copy(rank.output().chunk(rank.id()), rank.input().chunk(0), 0);
        channel.put(slot.chunk(0), rank.input().chunk(0), 0);
        channel.signal(0).sync(BlockSync::Before);
        channel.wait(0).sync(BlockSync::After);
        peer.copy(peer.output().chunk(rank.id()), slot.chunk(0), 1);
    }
}

fn main() {}
