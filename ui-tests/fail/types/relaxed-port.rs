//! Relaxed signals exist on memory channels only.
use mscclpp::prelude::*;

pub fn f(p: &Program) {
    let channel = p.rank(0).port_channel(1);
    channel.signal(0).relaxed();
    channel.wait(0).relaxed();
}

fn main() {}
