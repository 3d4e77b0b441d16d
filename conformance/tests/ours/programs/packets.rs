//! Fragments with packets.

use mscclpp_core::dsl::Program;

pub(crate) fn copy(p: &Program) {
    let rank = p.rank(0);
    rank.copy_packets(rank.scratch(1).chunk(0), rank.input().chunk(0), 0);
}

pub(crate) fn unpack(p: &Program) {
    let rank = p.rank(0);
    let packets = rank.scratch(1).chunk(0);
    rank.copy_packets(packets, rank.input().chunk(0), 0);
    rank.unpack_packets(rank.output().chunk(0), packets, 0);
}

pub(crate) fn put(p: &Program) {
    for rank in p.ranks() {
        let peer = p.rank(1 - rank.id());
        rank.memory_channel(peer).put_packets(peer.scratch(1).chunk(0), rank.input().chunk(0), 0);
    }
}

pub(crate) fn read_put(p: &Program) {
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(2)).collect();
    for rank in p.ranks() {
        let peer = p.rank(1 - rank.id());
        rank.memory_channel(peer).read_put_packets(scratch[peer.id()].chunk(1), scratch[rank.id()].chunk(0), 0);
    }
}

pub(crate) fn reduce(p: &Program) {
    let rank = p.rank(0);
    let scratch = rank.scratch(3);
    rank.reduce_packets(scratch.chunk(0), scratch.chunk(1), 0).to(scratch.chunk(2));
}

pub(crate) fn reduce_twice(p: &Program) {
    let rank = p.rank(0);
    let scratch = rank.scratch(4);
    rank.reduce_packets(scratch.chunk(0), scratch.chunk(1), 0).to(scratch.chunk(3));
    rank.reduce_packets(scratch.chunk(0), scratch.chunk(2), 0).to(scratch.chunk(3));
}

pub(crate) fn reduce_copy(p: &Program) {
    let rank = p.rank(0);
    let (mine, scratch) = (rank.input().chunk(0), rank.scratch(2));
    rank.reduce_packets(mine, scratch.chunk(0), 0);
    rank.copy_packets(scratch.chunk(1), mine, 0);
}

pub(crate) fn reduce_copy_send(p: &Program) {
    let (rank, peer) = (p.rank(0), p.rank(1));
    let (mine, scratch, remote) = (rank.input().chunk(0), rank.scratch(2), peer.scratch(1));
    rank.reduce_packets(mine, scratch.chunk(0), 0);
    rank.copy_packets(scratch.chunk(1), mine, 0);
    rank.memory_channel(peer).put_packets(remote.chunk(0), mine, 0);
}

pub(crate) fn reduce_send(p: &Program) {
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(4)).collect();
    for rank in p.ranks() {
        let (peer, own) = (p.rank(1 - rank.id()), scratch[rank.id()]);
        rank.reduce_packets(own.chunk(0), own.chunk(1), 0).to(own.chunk(2));
        rank.memory_channel(peer).put_packets(scratch[peer.id()].chunk(3), own.chunk(2), 0);
    }
}
