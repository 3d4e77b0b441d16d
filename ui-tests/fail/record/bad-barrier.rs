//! A block that waits for itself.
use mscclpp::prelude::*;

#[collective(AllReduce, ranks = 2)]
fn twice(p: &Program) {
    for rank in p.ranks() {
        rank.barrier([0, rank.id()]);
    }
}

fn main() {}
