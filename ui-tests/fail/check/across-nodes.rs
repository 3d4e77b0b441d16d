//! A memory channel between ranks of different nodes.
use mscclpp::prelude::*;

#[collective(SendRecv, ranks = 4, ranks_per_node = 2)]
fn ring(p: &Program) {
    for rank in p.ranks() {
        let (next, previous) = (p.rank((rank.id() + 1) % 4), p.rank((rank.id() + 3) % 4));
        let (to, from) = (rank.memory_channel(next), rank.memory_channel(previous));
        from.signal(0).relaxed();
        to.wait(0).relaxed();
        to.put(next.output().chunk(0), rank.input().chunk(0), 0);
        to.signal(0);
        from.wait(0);
    }
}

fn main() {}
