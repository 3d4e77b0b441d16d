//! Both ranks send their input and add the other's; rank 0 adds one chunk of it again.
use mscclpp::prelude::*;

#[collective(AllReduce, ranks = 2, in_place)]
fn again(p: &Program) {
    let scratch = [p.rank(0).scratch(2), p.rank(1).scratch(2)];
    let channels = [p.rank(0).memory_channel(1), p.rank(1).memory_channel(0)];
    for rank in p.ranks() {
        let (own, peer) = (rank.id(), 1 - rank.id());
        channels[own].signal(0).relaxed();
        channels[own].wait(0).relaxed();
        channels[own].put(scratch[peer].chunk(..), rank.input().chunk(..), 0);
        channels[own].signal(0).sync(BlockSync::Before);
        channels[own].wait(0).sync(BlockSync::After);
        rank.reduce(rank.input().chunk(..), scratch[own].chunk(..), 0);
        if own == 0 {
            rank.barrier([0]);
            rank.reduce(rank.input().chunk(1), scratch[own].chunk(1), 0);
        }
    }
}

fn main() {}
