//! A port channel cannot make packets: it copies those that are in scratch.
use mscclpp::prelude::*;

pub fn f(p: &Program) {
    let (a, b) = (p.rank(0), p.rank(1));
    a.port_channel(b).put_packets(b.scratch(1).chunk(0), a.input().chunk(0), 0);
}

fn main() {}
