//! Thread block 1 does not wait for the exchange of thread block 0.
use mscclpp::prelude::*;

#[collective(AllToAllV, ranks = 2)]
fn exchange(p: &Program) {
    for rank in p.ranks() {
        rank.exchange_counts(0);
        for (block, peer) in p.ranks().enumerate() {
            let (from, to) = (peer.input().chunk(rank.id()), rank.output().chunk(peer.id()));
            if peer.id() == rank.id() {
                rank.copy_counted(to, from, peer, rank, block);
            } else {
                let channel = rank.memory_channel(peer);
                channel.get_counted(to, from, peer, rank, block);
                channel.handshake(block).relaxed();
            }
        }
    }
}

fn main() {}
