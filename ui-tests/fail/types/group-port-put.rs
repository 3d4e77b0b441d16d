//! A put through a queue is made by one thread block.
use mscclpp::prelude::*;

pub fn f(p: &Program) {
    let (a, b) = (p.rank(0), p.rank(1));
    let group = p.thread_block_group(0..4);
    a.port_channel(b).put(b.output().chunk(0), a.input().chunk(0), &group);
}

fn main() {}
