//! Nothing is left of rank 0's chunks in front of its own.
use mscclpp::prelude::*;

#[collective(AllReduce, ranks = 3)]
fn those_before(p: &Program) {
    for rank in p.ranks() {
        let before = 0..rank.id();
        rank.copy(rank.output().chunk(before.clone()), rank.input().chunk(before), 0);
    }
}

fn main() {}
