//! Programs that are right and easily mistaken for wrong ones.

use mscclpp_core::collective::CollectiveKind::{AllGather, AllReduce};
use mscclpp_core::types::{BlockSync, BufferKind};

use super::blocks::group_put;
use super::{accepted, in_place, packets, plan, spec};

/// The result packets say that the input packets have been read.
#[test]
fn two_phases_of_packets_in_a_single_scratch() {
    for auto_sync in [true, false] {
        let mut spec = packets(AllReduce, 4);
        (spec.collective.in_place, spec.auto_sync) = (true, auto_sync);
        accepted(&plan(spec, |p| {
            let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(8)).collect();
            for rank in p.ranks() {
                let (id, slots) = (rank.id(), scratch[rank.id()]);
                let peers: Vec<_> = p.ranks().filter(|peer| peer.id() != id).collect();
                let channels: Vec<_> = peers.iter().map(|&peer| rank.memory_channel(peer)).collect();
                for (channel, peer) in channels.iter().zip(&peers) {
                    channel.put_packets(scratch[peer.id()].chunk(id), rank.input().chunk(peer.id()), 0);
                }
                let arrived: Vec<_> = peers.iter().map(|peer| slots.chunk(peer.id())).collect();
                rank.reduce_packets(rank.input().chunk(id), arrived, 0);
                for (channel, peer) in channels.iter().zip(&peers) {
                    channel.put_packets(scratch[peer.id()].chunk(4 + id), rank.input().chunk(id), 0);
                }
                for peer in &peers {
                    rank.unpack_packets(rank.input().chunk(peer.id()), slots.chunk(4 + peer.id()), 0);
                }
            }
        }));
    }
}

#[test]
fn a_group_between_barriers() {
    accepted(&plan(spec(AllGather, 2), |p| group_put(p, true)));
}

/// What closes the launch orders no data of it.
#[test]
fn relaxed_handshakes_at_both_ends() {
    accepted(&plan(in_place(AllReduce, 2), |p| {
        for rank in p.ranks() {
            let peer = p.rank(1 - rank.id());
            let channel = rank.memory_channel(peer);
            let mine = rank.input().chunk(rank.id());
            channel.signal(0).relaxed();
            channel.wait(0).relaxed().sync(BlockSync::After);
            channel.reduce(mine, peer.input().chunk(rank.id()), 0);
            channel.put(peer.input().chunk(rank.id()), mine, 0);
            channel.signal(0).relaxed().sync(BlockSync::Before);
            channel.wait(0).relaxed();
        }
    }));
}

/// A rank's own packets come to it over the switch like everybody else's.
#[test]
fn a_rank_unpacks_its_own_multicast_slot() {
    let mut spec = packets(AllGather, 4);
    spec.double_scratch = true;
    accepted(&plan(spec, |p| {
        let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(8)).collect();
        let switch = p.switch_channel(0..4, BufferKind::Scratch);
        for rank in p.ranks() {
            let (id, slots) = (rank.id(), scratch[rank.id()]);
            rank.copy_packets(slots.chunk(4 + id), rank.input().chunk(0), 0);
            switch.at(rank).broadcast_packets(id..id + 1, slots.chunk(4 + id), 0);
            for other in 0..4 {
                rank.unpack_packets(rank.output().chunk(other), slots.chunk(other), 0);
            }
        }
    }));
}

/// Two chunks come as one, and go on one by one.
#[test]
fn mixed_chunk_sizes() {
    let mut spec = spec(AllGather, 2);
    spec.collective.chunk_factor = 2;
    accepted(&plan(spec, |p| {
        let slots: Vec<_> = p.ranks().map(|rank| rank.scratch(2)).collect();
        for rank in p.ranks() {
            let (id, peer) = (rank.id(), p.rank(1 - rank.id()));
            let channel = rank.memory_channel(peer);
            channel.signal(0).relaxed();
            channel.wait(0).relaxed().sync(BlockSync::After);
            channel.put(slots[peer.id()].chunk(0..2), rank.input().chunk(0..2), 0);
            channel.signal(0).sync(BlockSync::Before);
            channel.wait(0).sync(BlockSync::After);
            for i in 0..2 {
                rank.copy(rank.output().chunk(2 * peer.id() + i), slots[id].chunk(i), 0);
                rank.copy(rank.output().chunk(2 * id + i), rank.input().chunk(i), 0);
            }
        }
    }));
}
