//! Rows are gathered as they are, and each rank normalizes its own ones only.
use mscclpp::prelude::*;

#[collective(AllGather, ranks = 2, rows)]
fn gathered(p: &Program) {
    for rank in p.ranks() {
        let peer = p.rank(1 - rank.id());
        let channel = rank.memory_channel(peer);
        channel.handshake(0).relaxed();
        channel.get(rank.output().chunk(peer.id()), peer.input().chunk(0), 0);
        rank.row_norm(rank.output().chunk(rank.id()), rank.input().chunk(0), 0);
        channel.handshake(0).relaxed();
    }
}

fn main() {}
