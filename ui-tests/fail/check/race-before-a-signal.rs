//! A signal that does not wait for the other threads of its block, which still put.
use mscclpp::prelude::*;

#[collective(AllGather, ranks = 2)]
fn too_soon(p: &Program) {
    let slots: Vec<_> = p.ranks().map(|rank| rank.scratch(1)).collect();
    for rank in p.ranks() {
        let (id, peer) = (rank.id(), 1 - rank.id());
        let channel = rank.memory_channel(peer);
        channel.signal(0).relaxed();
        channel.wait(0).relaxed().sync(BlockSync::After);
        channel.put(slots[peer].chunk(0), rank.input().chunk(0), 0);
        channel.signal(0).sync(BlockSync::None);
        channel.wait(0).sync(BlockSync::After);
        rank.copy(rank.output().chunk(peer), slots[id].chunk(0), 0);
        rank.copy(rank.output().chunk(id), rank.input().chunk(0), 0);
    }
}

fn main() {}
