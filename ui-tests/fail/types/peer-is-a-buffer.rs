//! A channel leads to a rank.
use mscclpp::prelude::*;

pub fn f(p: &Program) {
    p.rank(0).memory_channel(p.rank(1).input());
}

fn main() {}
