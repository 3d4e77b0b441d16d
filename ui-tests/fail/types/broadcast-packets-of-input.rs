//! A switch stores packets that are in scratch.
use mscclpp::prelude::*;

pub fn f(p: &Program) {
    let switch = p.switch_channel(p.ranks(), BufferKind::Scratch);
    switch.at(0).broadcast_packets(0, p.rank(0).input().chunk(0), 0);
}

fn main() {}
