//! Packets do not go into an input.
use mscclpp::prelude::*;

pub fn f(p: &Program) {
    let rank = p.rank(0);
    rank.copy_packets(rank.input().chunk(0), rank.input().chunk(1), 0);
}

fn main() {}
