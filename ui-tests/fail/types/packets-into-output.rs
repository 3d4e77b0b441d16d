//! Packets do not go into an output.
use mscclpp::prelude::*;

pub fn f(p: &Program) {
    let (a, b) = (p.rank(0), p.rank(1));
    a.memory_channel(b).put_packets(b.output().chunk(0), a.input().chunk(0), 0);
}

fn main() {}
