//! Scratch counted in bytes instead of chunks.
use mscclpp::prelude::*;

#[collective(AllReduce, ranks = 2)]
fn bytes(p: &Program) {
    for rank in p.ranks() {
        let scratch = rank.scratch(1 << 40);
        rank.copy(scratch.chunk(0), rank.input().chunk(0), 0);
    }
}

fn main() {}
