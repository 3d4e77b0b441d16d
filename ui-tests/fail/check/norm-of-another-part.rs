//! A rank normalizes the rows of another one, for which it has no residual.
use mscclpp::prelude::*;

#[collective(AllGather, ranks = 2, rows)]
fn gathered(p: &Program) {
    for rank in p.ranks() {
        let peer = p.rank(1 - rank.id());
        let (own, other) = (rank.output().chunk(rank.id()), rank.output().chunk(peer.id()));
        let channel = rank.memory_channel(peer);
        rank.row_norm(own, rank.input().chunk(0), 0);
        channel.handshake(0).relaxed();
        channel.get(other, peer.input().chunk(0), 0);
        rank.row_norm(other, other, 0);
        channel.handshake(0).relaxed();
    }
}

fn main() {}
