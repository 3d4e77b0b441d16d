//! 11: packets and plain data in each other's place.

use mscclpp_core::collective::CollectiveKind::{AllGather, AllReduce};
use mscclpp_core::dsl::Program;
use mscclpp_core::types::BlockSync;

use super::{accepted, packets, plan, refused, spec};

/// Every rank sends its chunk to the other one's slot of packets.
fn exchange(p: &Program, unpack: bool) {
    let slots: Vec<_> = p.ranks().map(|rank| rank.scratch(1)).collect();
    for rank in p.ranks() {
        let (peer, slot) = (p.rank(1 - rank.id()), slots[rank.id()].chunk(0));
        let channel = rank.memory_channel(peer);
        channel.put_packets(slots[peer.id()].chunk(0), rank.input().chunk(0), 0);
        rank.copy(rank.output().chunk(rank.id()), rank.input().chunk(0), 0);
        if unpack {
            rank.unpack_packets(rank.output().chunk(peer.id()), slot, 0);
        } else {
            rank.copy(rank.output().chunk(peer.id()), slot, 0);
        }
        // So that the slot is free in the next launch.
        channel.signal(0);
        channel.wait(0);
    }
}

#[test]
fn packets_under_protocol_simple() {
    accepted(&plan(packets(AllGather, 2), |p| exchange(p, true)));
    let words = ["`put_packets` (rank 0", "the protocol is Simple", "half the size", "`protocol = LL`"];
    refused(&plan(spec(AllGather, 2), |p| exchange(p, true)), "packets-need-ll", &words);
}

#[test]
fn a_slot_of_packets_read_as_plain_data() {
    let words = [
        "`copy` (rank 0",
        "reads plain data from scratch chunk 0 of rank 0",
        "`put_packets` (rank 1",
        "`unpack_packets`",
    ];
    refused(&plan(packets(AllGather, 2), |p| exchange(p, false)), "mixed-scratch", &words);
}

#[test]
fn plain_data_with_double_scratch() {
    let mut spec = spec(AllReduce, 2);
    spec.double_scratch = true;
    let plan = plan(spec, |p| {
        let slots: Vec<_> = p.ranks().map(|rank| rank.scratch(2)).collect();
        for rank in p.ranks() {
            let peer = p.rank(1 - rank.id());
            let channel = rank.memory_channel(peer);
            channel.put(slots[peer.id()].chunk(0..2), rank.input().chunk(0..2), 0);
            channel.signal(0).sync(BlockSync::Before);
            channel.wait(0).sync(BlockSync::After);
            rank.reduce(rank.input().chunk(0..2), slots[rank.id()].chunk(0..2), 0).to(rank.output().chunk(0..2));
        }
    });
    let words = ["`put` (rank 0", "writes plain data to scratch chunks 0..2 of rank 1", "only packets alternate"];
    refused(&plan, "plain-double-scratch", &words);
}

/// A chunk of packets is as long as two of plain data.
#[test]
fn packets_beside_plain_data() {
    let program = |p: &Program, plain_first: bool| {
        for rank in p.ranks() {
            let (peer, (one, two)) = (p.rank(1 - rank.id()), (rank.scratch(1), rank.scratch(1)));
            let (plain, slot) = if plain_first { (one, two) } else { (two, one) };
            let channel = peer.memory_channel(rank);
            rank.copy(plain.chunk(0), rank.input().chunk(0), 0);
            rank.copy(rank.output().chunk(rank.id()), plain.chunk(0), 0);
            channel.put_packets(slot.chunk(0), peer.input().chunk(0), 0);
            rank.unpack_packets(rank.output().chunk(peer.id()), slot.chunk(0), 0);
        }
        for rank in p.ranks() {
            let channel = rank.memory_channel(1 - rank.id());
            channel.signal(0);
            channel.wait(0);
        }
    };
    let words = ["scratch chunk 1 of rank 0", "packets", "chunk 0, which occupy the bytes of plain chunks 0..2"];
    refused(&plan(packets(AllGather, 2), |p| program(p, false)), "mixed-scratch", &words);
    accepted(&plan(packets(AllGather, 2), |p| program(p, true)));
}
