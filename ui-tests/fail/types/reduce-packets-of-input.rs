//! A packet reduction reads packets, which live in scratch.
use mscclpp::prelude::*;

pub fn f(p: &Program) {
    let rank = p.rank(0);
    rank.reduce_packets(rank.output().chunk(0), &[rank.input().chunk(0), rank.input().chunk(1)], 0);
}

fn main() {}
