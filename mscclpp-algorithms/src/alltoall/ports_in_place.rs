//! All-to-all over ports in place: 1 step and a copy, (P-1)/P of the message sent per rank, P-1 chunks of scratch.

use mscclpp_core::dsl::Program;
use mscclpp_core::types::BlockSync;
use mscclpp_macros::collective;

use crate::builtin::{BufferMode, BuiltinAlgorithm};

/// Every rank puts each part into its receiver's scratch, the neighbor's first, so that the ranks write to different
/// peers at a time; the receiver copies it to its position in the output as soon as the part at that position has been
/// sent.
///
/// In place, two ranks or more on any number of nodes, one thread block.
#[collective(AllToAll, ranks = [2, 4, 8], in_place, crate = mscclpp_core)]
pub fn alltoall_ports_in_place(p: &Program) {
    let ranks = p.num_ranks();
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(ranks - 1)).collect();
    // Index of `other` among the ranks other than `id`.
    let position = |other: usize, id: usize| if other < id { other } else { other - 1 };
    for rank in p.ranks() {
        let id = rank.id();
        let channels = rank.port_channels((1..ranks).map(|step| (id + step) % ranks));
        for channel in &channels {
            channel.signal(0).sync(BlockSync::None);
        }
        for channel in &channels {
            let peer = channel.peer();
            channel.wait(0).sync(BlockSync::After);
            let slot = scratch[peer.id()].chunk(position(id, peer.id()));
            channel.put_with_signal(slot, rank.input().chunk(peer.id()), 0);
        }
        for channel in &channels {
            let peer = channel.peer();
            channel.wait(0).sync(BlockSync::After);
            channel.flush(0).sync(BlockSync::After);
            rank.copy(rank.input().chunk(peer.id()), scratch[id].chunk(position(peer.id(), id)), 0);
        }
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(alltoall_ports_in_place::algorithm, include_str!("ports_in_place.rs"), |p, _| {
        alltoall_ports_in_place(p)
    })
    .with_buffer_mode(BufferMode::InPlace)
    .nodes(1, u32::MAX, 1);
