//! The source of a port's put, overwritten while the port may still read it.
use mscclpp::prelude::*;

#[collective(AllGather, ranks = 2)]
fn reused(p: &Program) {
    let slots: Vec<_> = p.ranks().map(|rank| rank.scratch(2)).collect();
    for rank in p.ranks() {
        let (id, peer) = (rank.id(), 1 - rank.id());
        let (own, arrived) = (slots[id].chunk(0), slots[id].chunk(1));
        let channel = rank.port_channel(peer);
        rank.copy(own, rank.input().chunk(0), 0);
        channel.signal(0);
        channel.wait(0);
        channel.put(slots[peer].chunk(1), own, 0);
        channel.signal(0);
        channel.wait(0);
        rank.copy(own, arrived, 0);
        rank.copy(rank.output().chunk(peer), own, 0);
        rank.copy(rank.output().chunk(id), rank.input().chunk(0), 0);
        channel.flush(0);
    }
}

fn main() {}
