//! A ring that uses one slot for all steps, and puts into it again before the peer has read it.
use mscclpp::prelude::*;

#[collective(AllGather, ranks = 4)]
fn one_slot(p: &Program) {
    let n = p.num_ranks();
    let slots: Vec<_> = p.ranks().map(|rank| rank.scratch(1)).collect();
    for rank in p.ranks() {
        let (id, next) = (rank.id(), (rank.id() + 1) % n);
        let (to_next, to_previous) = (rank.memory_channel(next), rank.memory_channel((id + n - 1) % n));
        rank.copy(rank.output().chunk(id), rank.input().chunk(0), 0);
        to_previous.signal(0).relaxed();
        to_next.wait(0).relaxed().sync(BlockSync::After);
        for step in 0..n - 1 {
            to_next.put(slots[next].chunk(0), rank.output().chunk((id + n - step) % n), 0);
            to_next.signal(0);
            to_previous.wait(0);
            rank.copy(rank.output().chunk((id + n - step - 1) % n), slots[id].chunk(0), 0);
        }
    }
}

fn main() {}
