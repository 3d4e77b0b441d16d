//! The next launch puts into scratch before this one has read it.
use mscclpp::prelude::*;

#[collective(AllGather, ranks = 2)]
fn still_reading(p: &Program) {
    let slots: Vec<_> = p.ranks().map(|rank| rank.scratch(1)).collect();
    for rank in p.ranks() {
        let (id, peer) = (rank.id(), 1 - rank.id());
        let channel = rank.memory_channel(peer);
        channel.put(slots[peer].chunk(0), rank.input().chunk(0), 0);
        channel.signal(0);
        channel.wait(0);
        rank.copy(rank.output().chunk(peer), slots[id].chunk(0), 0);
        rank.copy(rank.output().chunk(id), rank.input().chunk(0), 0);
    }
}

fn main() {}
