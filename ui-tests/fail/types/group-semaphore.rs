//! A semaphore is taken by one thread block.
use mscclpp::prelude::*;

pub fn f(p: &Program) {
    let group = p.thread_block_group(0..4);
    p.rank(0).semaphore(0).acquire(&group);
}

fn main() {}
