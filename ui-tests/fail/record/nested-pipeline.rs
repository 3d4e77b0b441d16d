//! A loop in a loop.
use mscclpp::prelude::*;

#[collective(AllReduce, ranks = 2)]
fn nested(p: &Program) {
    for rank in p.ranks() {
        p.pipeline(1 << 20, 1, || {
            p.pipeline(1 << 16, 1, || rank.copy(rank.output().chunk(0), rank.input().chunk(0), 0));
        });
    }
}

fn main() {}
