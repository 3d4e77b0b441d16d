//! A window of 1000 bytes, a span of nothing, and an operation longer than its loop.
use mscclpp::prelude::*;

#[collective(AllReduce, ranks = 2)]
fn windows(p: &Program) {
    let rank = p.rank(0);
    p.pipeline(1000, 1, || rank.copy(rank.output().chunk(0), rank.input().chunk(0), 0));
    p.pipeline(1 << 20, 0, || ());
    p.pipeline(1 << 20, 1, || rank.copy(rank.output().chunk(..), rank.input().chunk(..), 0));
}

fn main() {}
