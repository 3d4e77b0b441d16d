//! The last rank of a ring has no next one without the modulo.
use mscclpp::prelude::*;

#[collective(SendRecv, ranks = 4)]
fn ring(p: &Program) {
    for rank in p.ranks() {
        let next = p.rank(rank.id() + 1);
        let channel = rank.memory_channel(next);
        channel.put(next.output().chunk(0), rank.input().chunk(0), 0);
    }
}

fn main() {}
