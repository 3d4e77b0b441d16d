//! A memory channel has nothing to flush.
use mscclpp::prelude::*;

pub fn f(p: &Program) {
    let channel = p.rank(0).memory_channel(1);
    channel.flush(0);
}

fn main() {}
