//! Packets without the protocol that makes room for their flags.
use mscclpp::prelude::*;

#[collective(AllGather, ranks = 2)]
fn no_room(p: &Program) {
    for rank in p.ranks() {
        let peer = p.rank(1 - rank.id());
        let slot = rank.scratch(1);
        peer.memory_channel(rank).put_packets(slot.chunk(0), peer.input().chunk(0), 0);
        rank.copy(rank.output().chunk(rank.id()), rank.input().chunk(0), 0);
        rank.unpack_packets(rank.output().chunk(peer.id()), slot.chunk(0), 0);
    }
}

fn main() {}
