//! A rank is not a thread block.
use mscclpp::prelude::*;

pub fn f(p: &Program) {
    let rank = p.rank(0);
    rank.copy(rank.output().chunk(0), rank.input().chunk(0), rank);
}

fn main() {}
