//! Every operand of a reduction is as long as the accumulator.
use mscclpp::prelude::*;

#[collective(AllReduce, ranks = 4)]
fn operands(p: &Program) {
    for rank in p.ranks() {
        let input = rank.input();
        rank.reduce(input.chunk(0), &[input.chunk(1), input.chunk(2..4)], 0);
        rank.reduce(input.chunk(0), &[input.chunk(1)], 0).to(rank.output().chunk(0..2));
    }
}

fn main() {}
