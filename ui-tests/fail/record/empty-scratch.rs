//! Scratch of no chunks.
use mscclpp::prelude::*;

#[collective(AllReduce, ranks = 2)]
fn no_scratch(p: &Program) {
    for rank in p.ranks() {
        let scratch = rank.scratch(rank.id());
        rank.copy(scratch.chunk(..), rank.input().chunk(0), 0);
    }
}

fn main() {}
