//! A port channel cannot reduce.
use mscclpp::prelude::*;

pub fn f(p: &Program) {
    let (a, b) = (p.rank(0), p.rank(1));
    a.port_channel(b).reduce(a.output().chunk(0), b.input().chunk(0), 0);
}

fn main() {}
