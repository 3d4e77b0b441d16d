//! All-to-all in rotation: P-1 steps and overlapping copies, (P-1)/P of the message sent per rank, P-1 chunks of scratch.

use mscclpp_core::dsl::{Channels, Program};
use mscclpp_core::types::BlockSync;
use mscclpp_macros::collective;

use crate::builtin::{BufferMode, BuiltinAlgorithm};

/// In step s every rank sends to the rank s above it, so that no rank receives from two ranks at once; one thread block
/// sends, another one copies the received parts to their positions in the output.
///
/// In place, any number of ranks. A part may be overwritten only when it has been sent, which a semaphore per peer
/// ensures.
#[collective(AllToAll, ranks = [2, 4, 8], in_place, instances = 16, crate = mscclpp_core)]
pub fn alltoall_rotated_in_place(p: &Program) {
    let ranks = p.num_ranks();
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(ranks - 1)).collect();
    // Index of `other` among the ranks other than `id`.
    let position = |other: usize, id: usize| if other < id { other } else { other - 1 };
    for rank in p.ranks() {
        let (mut data, mut ready, mut sent) = (Vec::new(), Vec::new(), Vec::new());
        for peer in p.ranks().filter(|peer| *peer != rank) {
            data.push(rank.memory_channel(peer));
            ready.push(rank.memory_channel(peer));
            sent.push(rank.semaphore(0));
        }
        ready.handshake(0).relaxed();
        for step in 1..ranks {
            let peer = (rank.id() + step) % ranks;
            let index = position(peer, rank.id());
            data[index].put(scratch[peer].chunk(position(rank.id(), peer)), rank.input().chunk(peer), 0);
            data[index].signal(0).sync(BlockSync::Before);
            sent[index].release(0);
        }
        for step in 1..ranks {
            let peer = (rank.id() + ranks - step) % ranks;
            let index = position(peer, rank.id());
            sent[index].acquire(1);
            data[index].wait(1).sync(BlockSync::After);
            rank.copy(rank.input().chunk(peer), scratch[rank.id()].chunk(index), 1);
        }
    }
}

/// All-to-all in rotation, out of place: nothing is overwritten, so no semaphores are needed.
#[collective(AllToAll, ranks = [2, 4, 8], instances = 16, crate = mscclpp_core)]
pub fn alltoall_rotated(p: &Program) {
    let ranks = p.num_ranks();
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(ranks - 1)).collect();
    let position = |other: usize, id: usize| if other < id { other } else { other - 1 };
    for rank in p.ranks() {
        let (mut data, mut ready) = (Vec::new(), Vec::new());
        for peer in p.ranks().filter(|peer| *peer != rank) {
            data.push(rank.memory_channel(peer));
            ready.push(rank.memory_channel(peer));
        }
        ready.handshake(0).relaxed();
        for step in 1..ranks {
            let peer = (rank.id() + step) % ranks;
            let index = position(peer, rank.id());
            data[index].put(scratch[peer].chunk(position(rank.id(), peer)), rank.input().chunk(peer), 0);
            data[index].signal(0).sync(BlockSync::Before);
        }
        rank.copy(rank.output().chunk(rank.id()), rank.input().chunk(rank.id()), 0);
        for step in 1..ranks {
            let peer = (rank.id() + ranks - step) % ranks;
            let index = position(peer, rank.id());
            data[index].wait(1).sync(BlockSync::After);
            rank.copy(rank.output().chunk(peer), scratch[rank.id()].chunk(index), 1);
        }
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(alltoall_rotated::algorithm, include_str!("rotated.rs"), |p, _| alltoall_rotated(p))
        .with_buffer_mode(BufferMode::OutOfPlace);

/// Entry in the registry.
pub(crate) const IN_PLACE: BuiltinAlgorithm =
    BuiltinAlgorithm::new(alltoall_rotated_in_place::algorithm, include_str!("rotated.rs"), |p, _| {
        alltoall_rotated_in_place(p)
    })
    .with_buffer_mode(BufferMode::InPlace);
