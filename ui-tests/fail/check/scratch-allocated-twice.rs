//! `rank.scratch(2)` reads like `rank.input()`, but allocates further chunks at every call.
use mscclpp::prelude::*;

#[collective(AllReduce, ranks = 2, in_place)]
fn sum(p: &Program) {
    for rank in p.ranks() {
        let peer = p.rank(1 - rank.id());
        let channel = rank.memory_channel(peer);
        channel.handshake(0).relaxed();
        channel.put(peer.scratch(2).chunk(..), rank.input().chunk(..), 0);
        channel.handshake(0);
        rank.reduce(rank.input().chunk(..), rank.scratch(2).chunk(..), 0);
    }
}

fn main() {}
