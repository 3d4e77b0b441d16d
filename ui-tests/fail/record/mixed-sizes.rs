//! With 2 instances, a group writes two chunks at once and a block reads one of them.
use mscclpp::prelude::*;

#[collective(AllReduce, ranks = 2, instances = 2)]
fn one_of_two(p: &Program) {
    let group = p.thread_block_group(0..2);
    for rank in p.ranks() {
        let scratch = rank.scratch(2);
        rank.copy(scratch.chunk(0..2), rank.input().chunk(..), &group);
        rank.barrier(0..2);
        rank.copy(rank.output().chunk(0), scratch.chunk(1), 0);
    }
}

fn main() {}
