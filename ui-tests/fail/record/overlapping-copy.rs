//! Shifting chunks by one within a buffer.
use mscclpp::prelude::*;

#[collective(AllReduce, ranks = 4, in_place)]
fn shift(p: &Program) {
    for rank in p.ranks() {
        rank.copy(rank.input().chunk(1..4), rank.input().chunk(0..3), 0);
    }
}

fn main() {}
