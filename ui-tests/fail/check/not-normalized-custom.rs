//! A custom collective adds normalized rows to others.
use mscclpp::prelude::*;

#[collective(Custom(input = 1, output = 1), ranks = 2, rows)]
fn mixed(p: &Program) {
    for rank in p.ranks() {
        let (peer, output) = (p.rank(1 - rank.id()), rank.output().chunk(0));
        let channel = rank.memory_channel(peer);
        rank.row_norm(output, rank.input().chunk(0), 0);
        channel.handshake(0).relaxed();
        channel.reduce(output, peer.input().chunk(0), 0);
        channel.handshake(0).relaxed();
        p.expect(output, [rank.input().chunk(0), peer.input().chunk(0)]);
    }
}

fn main() {}
