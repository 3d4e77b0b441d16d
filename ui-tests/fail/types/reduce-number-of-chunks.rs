//! A reduction names the chunks that it reduces.
use mscclpp::prelude::*;

pub fn f(p: &Program) {
    let rank = p.rank(0);
    rank.reduce(rank.output().chunk(0), 3, 0);
}

fn main() {}
