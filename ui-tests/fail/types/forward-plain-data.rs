//! Only packets are forwarded as packets.
use mscclpp::prelude::*;

pub fn f(p: &Program) {
    let (a, b) = (p.rank(0), p.rank(1));
    a.memory_channel(b).read_put_packets(b.scratch(1).chunk(0), a.input().chunk(0), 0);
}

fn main() {}
