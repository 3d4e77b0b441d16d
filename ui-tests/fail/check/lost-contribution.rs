//! Rank 1 sends both halves of its input, and rank 0 adds one of them.
use mscclpp::prelude::*;

#[collective(Reduce, ranks = 2, in_place)]
fn half(p: &Program) {
    let scratch = p.rank(0).scratch(2);
    let to = p.rank(1).memory_channel(0);
    let from = p.rank(0).memory_channel(1);
    to.wait(0).relaxed();
    to.put(scratch.chunk(..), p.rank(1).input().chunk(..), 0);
    to.signal(0).sync(BlockSync::Before);
    from.signal(0).relaxed();
    from.wait(0).sync(BlockSync::After);
    p.rank(0).reduce(p.rank(0).input().chunk(0), scratch.chunk(0), 0);
}

fn main() {}
