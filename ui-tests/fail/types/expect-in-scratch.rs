//! A program says what its outputs hold, in terms of its inputs.
use mscclpp::prelude::*;

#[collective(Custom(input = 1, output = 1), ranks = 2)]
fn scratch(p: &Program) {
    let scratch = p.rank(0).scratch(1);
    p.expect(scratch.chunk(0), p.rank(1).input().chunk(0));
    p.expect(p.rank(0).output().chunk(0), p.rank(1).output().chunk(0));
}

fn main() {}
