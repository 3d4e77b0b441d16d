//! Algorithms with a thread block per peer in the reference. The library's own forms have as many as a message needs.

use mscclpp_core::dsl::Program;
use mscclpp_core::types::BufferKind;

pub(crate) fn allgather_packets(p: &Program) {
    let ranks = p.num_ranks();
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(ranks)).collect();
    for rank in p.ranks() {
        let mine = rank.output().chunk(rank.id());
        for step in 1..ranks {
            let peer = p.rank((rank.id() + step) % ranks);
            let channel = rank.memory_channel(peer);
            channel.put_packets(scratch[peer.id()].chunk(rank.id()), mine, step - 1);
        }
        for step in 1..ranks {
            let peer = (rank.id() + step) % ranks;
            rank.unpack_packets(rank.output().chunk(peer), scratch[rank.id()].chunk(peer), ranks + step - 2);
        }
    }
}

pub(crate) fn allgather_switch_packets(p: &Program) {
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(p.num_ranks())).collect();
    let switch = p.switch_channel(p.ranks(), BufferKind::Scratch);
    for rank in p.ranks() {
        let packets = scratch[rank.id()];
        let mine = packets.chunk(rank.id());
        rank.copy_packets(mine, rank.output().chunk(rank.id()), 0);
        switch.at(rank).broadcast_packets(rank.id(), mine, 0);
        for peer in p.ranks() {
            rank.unpack_packets(rank.output().chunk(peer.id()), packets.chunk(peer.id()), peer.id());
        }
    }
}
