//! Packets are unpacked from scratch.
use mscclpp::prelude::*;

pub fn f(p: &Program) {
    let rank = p.rank(0);
    rank.unpack_packets(rank.output().chunk(0), rank.input().chunk(0), 0);
}

fn main() {}
