//! A group is lent to each operation.
use mscclpp::prelude::*;

pub fn f(p: &Program) {
    let rank = p.rank(0);
    let group = p.thread_block_group(0..4);
    rank.copy(rank.output().chunk(0), rank.input().chunk(0), group);
}

fn main() {}
