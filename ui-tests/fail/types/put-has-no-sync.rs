//! A put has no sync of its own; the signal behind it has.
use mscclpp::prelude::*;

pub fn f(p: &Program) {
    let (a, b) = (p.rank(0), p.rank(1));
    a.memory_channel(b).put(b.output().chunk(0), a.input().chunk(0), 0).sync(BlockSync::After);
}

fn main() {}
