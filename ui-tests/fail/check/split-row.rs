//! Rows are normalized in a plan whose chunks may end within a row.
use mscclpp::prelude::*;

#[collective(AllReduce, ranks = 2)]
fn normalized(p: &Program) {
    for rank in p.ranks() {
        let (peer, result) = (p.rank(1 - rank.id()), rank.output().chunk(..));
        let channel = rank.memory_channel(peer);
        channel.handshake(0).relaxed();
        channel.reduce(rank.input().chunk(..), peer.input().chunk(..), 0).to(result);
        rank.row_norm(result, result, 0);
        channel.handshake(0).relaxed();
    }
}

fn main() {}
