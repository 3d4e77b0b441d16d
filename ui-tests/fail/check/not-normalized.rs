//! Normalized rows are added.
use mscclpp::prelude::*;

#[collective(AllReduce, ranks = 2, rows)]
fn normalized(p: &Program) {
    for rank in p.ranks() {
        let (peer, own) = (p.rank(1 - rank.id()), rank.scratch(2));
        let channel = rank.memory_channel(peer);
        channel.handshake(0).relaxed();
        channel.get(own.chunk(..), peer.input().chunk(..), 0);
        rank.row_norm(rank.output().chunk(..), rank.input().chunk(..), 0);
        rank.reduce(rank.output().chunk(..), own.chunk(..), 0);
        channel.handshake(0).relaxed();
    }
}

fn main() {}
