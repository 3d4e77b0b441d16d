//! Every rank puts its chunk to every other, but for rank 2, which forgets rank 1.
use mscclpp::prelude::*;

#[collective(AllGather, ranks = 4, in_place)]
fn forgetful(p: &Program) {
    for rank in p.ranks() {
        for peer in p.ranks() {
            if peer != rank {
                let channel = rank.memory_channel(peer);
                channel.handshake(0).relaxed();
                if (rank.id(), peer.id()) != (2, 1) {
                    channel.put(peer.output().chunk(rank.id()), rank.output().chunk(rank.id()), 0);
                }
                channel.handshake(0);
            }
        }
    }
}

fn main() {}
