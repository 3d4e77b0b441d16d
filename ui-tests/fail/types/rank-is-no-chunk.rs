//! A put names where in the peer's memory it goes.
use mscclpp::prelude::*;

pub fn f(p: &Program) {
    let (a, b) = (p.rank(0), p.rank(1));
    a.memory_channel(b).put(b, a.input().chunk(0), 0);
}

fn main() {}
