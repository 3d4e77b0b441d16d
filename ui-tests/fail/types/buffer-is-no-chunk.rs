//! Operations work on chunks of a buffer.
use mscclpp::prelude::*;

pub fn f(p: &Program) {
    let rank = p.rank(0);
    rank.copy(rank.output(), rank.input(), 0);
}

fn main() {}
