//! A signal is given by one thread block.
use mscclpp::prelude::*;

pub fn f(p: &Program) {
    let group = p.thread_block_group(0..4);
    p.rank(0).memory_channel(1).signal(&group);
}

fn main() {}
