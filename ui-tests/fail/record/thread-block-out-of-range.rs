//! A block number computed below zero.
use mscclpp::prelude::*;

#[collective(AllReduce, ranks = 2)]
fn below_zero(p: &Program) {
    for rank in p.ranks() {
        let block = rank.id() as i32 - 1;
        rank.copy(rank.output().chunk(0), rank.input().chunk(0), block);
    }
}

fn main() {}
