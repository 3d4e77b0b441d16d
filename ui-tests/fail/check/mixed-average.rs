//! One output is an average, which executors divide when the launch ends, and so they would divide the sum.
use mscclpp::prelude::*;

#[collective(Custom(input = 2, output = 2), ranks = 2)]
fn average_and_sum(p: &Program) {
    for rank in p.ranks() {
        let (first, second) = (rank.input().chunk(0), rank.input().chunk(1));
        rank.reduce(first, second, 0).to(rank.output().chunk(0)).op(ReduceOp::Avg);
        rank.reduce(first, second, 0).to(rank.output().chunk(1));
        p.expect(rank.output().chunk(0), [first, second]);
        p.expect(rank.output().chunk(1), [first, second]);
    }
}

fn main() {}
