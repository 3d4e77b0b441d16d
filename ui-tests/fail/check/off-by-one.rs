//! Every rank puts its chunk one place too far.
use mscclpp::prelude::*;

#[collective(AllGather, ranks = 4)]
fn too_far(p: &Program) {
    for rank in p.ranks() {
        let (id, mine) = (rank.id(), rank.input().chunk(0));
        rank.copy(rank.output().chunk((id + 1) % 4), mine, 0);
        for peer in p.ranks().filter(|peer| peer.id() != id) {
            let channel = rank.memory_channel(peer);
            channel.handshake(0).relaxed();
            channel.put(peer.output().chunk((id + 1) % 4), mine, 0);
            channel.handshake(0);
        }
    }
}

fn main() {}
