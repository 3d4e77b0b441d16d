//! What is sent to chunk 0 of scratch is looked for in chunk 1.
use mscclpp::prelude::*;

#[collective(Broadcast, ranks = 2, chunk_factor = 1)]
fn beside(p: &Program) {
    let scratch = p.rank(1).scratch(4);
    let to = p.rank(0).memory_channel(1);
    let from = p.rank(1).memory_channel(0);
    p.rank(0).copy(p.rank(0).output().chunk(..), p.rank(0).input().chunk(..), 0);
    to.wait(0).relaxed();
    to.put(scratch.chunk(0..2), p.rank(0).input().chunk(..), 0);
    to.signal(0).sync(BlockSync::Before);
    from.signal(0).relaxed();
    from.wait(0).sync(BlockSync::After);
    p.rank(1).copy(p.rank(1).output().chunk(..), scratch.chunk(1..3), 0);
}

fn main() {}
