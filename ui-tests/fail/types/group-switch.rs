//! A switch reduction runs on one thread block.
use mscclpp::prelude::*;

pub fn f(p: &Program) {
    let group = p.thread_block_group(0..4);
    let switch = p.switch_channel(p.ranks(), BufferKind::Input);
    switch.at(0).reduce(p.rank(0).output().chunk(0), 0, &group);
}

fn main() {}
