//! All-to-all in place: 1 step and a copy, (P-1)/P of the message sent per rank, P-1 chunks of scratch.

use mscclpp_core::dsl::Program;
use mscclpp_core::types::BlockSync;
use mscclpp_macros::collective;

use crate::builtin::{BufferMode, BuiltinAlgorithm};

/// Every rank puts each part into its receiver's scratch; the receiver copies it to its position in the output.
///
/// In place, any number of ranks, one thread block per peer.
#[collective(AllToAll, ranks = [2, 4, 8], in_place, instances = 2, crate = mscclpp_core)]
pub fn alltoall_in_place(p: &Program) {
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(p.num_ranks() - 1)).collect();
    // Index of `other` among the ranks other than `id`.
    let position = |other: usize, id: usize| if other < id { other } else { other - 1 };
    for rank in p.ranks() {
        let channels = rank.memory_channels(p.ranks().filter(|peer| *peer != rank));
        for (block, channel) in channels.iter().enumerate() {
            let peer = channel.peer();
            channel.handshake(block).relaxed();
            let slot = scratch[peer.id()].chunk(position(rank.id(), peer.id()));
            channel.put(slot, rank.input().chunk(peer.id()), block);
            channel.handshake(block).sync(BlockSync::Both);
            rank.copy(rank.input().chunk(peer.id()), scratch[rank.id()].chunk(block), block);
        }
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(alltoall_in_place::algorithm, include_str!("in_place.rs"), |p, _| alltoall_in_place(p))
        .with_buffer_mode(BufferMode::InPlace)
        .blocks_per_peer(1);
