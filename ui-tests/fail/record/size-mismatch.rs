//! Two chunks do not fit into one.
use mscclpp::prelude::*;

#[collective(AllReduce, ranks = 2)]
fn two_into_one(p: &Program) {
    for rank in p.ranks() {
        rank.copy(rank.output().chunk(0), rank.input().chunk(0..2), 0);
    }
}

fn main() {}
