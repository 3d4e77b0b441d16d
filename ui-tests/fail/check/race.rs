//! One thread block reads what another one writes, and nothing orders them.
use mscclpp::prelude::*;

#[collective(AllReduce, ranks = 2)]
fn blocks(p: &Program) {
    for rank in p.ranks() {
        let scratch = rank.scratch(1);
        rank.copy(scratch.chunk(0), rank.input().chunk(0), 0);
        rank.copy(rank.output().chunk(0), scratch.chunk(0), 1);
    }
}

fn main() {}
