//! A range from the end to the start.
use mscclpp::prelude::*;

#[collective(AllReduce, ranks = 4)]
fn backwards(p: &Program) {
    for rank in p.ranks().skip(1) {
        let (first, last) = (0, rank.id());
        rank.copy(rank.output().chunk(last..first), rank.input().chunk(first..last), 0);
    }
}

fn main() {}
