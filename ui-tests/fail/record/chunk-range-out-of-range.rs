//! The same for a range, and for scratch.
use mscclpp::prelude::*;

#[collective(AllReduce, ranks = 4)]
fn too_long(p: &Program) {
    let rank = p.rank(0);
    let scratch = rank.scratch(2);
    rank.copy(scratch.chunk(1..3), rank.input().chunk(2..4), 0);
    rank.copy(rank.output().chunk(2..6), rank.input().chunk(..), 0);
}

fn main() {}
