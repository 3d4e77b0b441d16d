//! The count of the opposite direction.
use mscclpp::prelude::*;

#[collective(AllToAllV, ranks = 2)]
fn exchange(p: &Program) {
    for rank in p.ranks() {
        let peer = p.rank(1 - rank.id());
        let channel = rank.memory_channel(peer);
        rank.exchange_counts(0);
        rank.copy_counted(rank.output().chunk(rank.id()), rank.input().chunk(rank.id()), rank, rank, 0);
        channel.get_counted(rank.output().chunk(peer.id()), peer.input().chunk(rank.id()), rank, peer, 0);
        channel.handshake(0).relaxed();
    }
}

fn main() {}
