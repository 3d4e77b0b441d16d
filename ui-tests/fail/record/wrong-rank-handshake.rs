//! A handshake over the two ends of a channel: each rank makes its own.
use mscclpp::prelude::*;

#[collective(AllGather, ranks = 3)]
fn both_ends(p: &Program) {
    for rank in p.ranks() {
        let next = p.rank((rank.id() + 1) % p.num_ranks());
        let ends = [rank.memory_channel(next), next.memory_channel(rank)];
        ends.handshake(0).relaxed();
    }
}

fn main() {}
