//! An all-gather of 4 ranks has 4 output chunks, and an input of one.
use mscclpp::prelude::*;

#[collective(AllGather, ranks = 4)]
fn off_by_one(p: &Program) {
    for rank in p.ranks() {
        rank.copy(rank.output().chunk(rank.id() + 1), rank.input().chunk(0), 0);
    }
}

fn main() {}
