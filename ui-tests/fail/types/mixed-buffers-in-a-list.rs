//! Chunks of different buffers go into one list with `any`.
use mscclpp::prelude::*;

pub fn f(p: &Program) {
    let rank = p.rank(0);
    let scratch = rank.scratch(1);
    rank.reduce(rank.output().chunk(0), &[rank.input().chunk(0), scratch.chunk(0)], 0);
}

fn main() {}
