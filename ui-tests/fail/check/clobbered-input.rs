//! The caller hands in an input and an output, and finds its input changed.
use mscclpp::prelude::*;

#[collective(Reduce, ranks = 2)]
fn careless(p: &Program) {
    let scratch = p.rank(0).scratch(2);
    let to = p.rank(1).memory_channel(0);
    let from = p.rank(0).memory_channel(1);
    to.wait(0).relaxed();
    to.put(scratch.chunk(..), p.rank(1).input().chunk(..), 0);
    to.signal(0).sync(BlockSync::Before);
    from.signal(0).relaxed();
    from.wait(0).sync(BlockSync::After);
    p.rank(0).reduce(p.rank(0).input().chunk(..), scratch.chunk(..), 0);
    p.rank(0).copy(p.rank(0).output().chunk(..), p.rank(0).input().chunk(..), 0);
}

fn main() {}
