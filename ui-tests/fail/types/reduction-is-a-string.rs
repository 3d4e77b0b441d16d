//! Early programs wrote `op="sum"`.
use mscclpp::prelude::*;

pub fn f(p: &Program) {
    let rank = p.rank(0);
    rank.reduce(rank.output().chunk(0), rank.input().chunk(0), 0).op("sum");
}

fn main() {}
