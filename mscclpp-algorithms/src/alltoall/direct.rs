//! Direct all-to-all: 1 step, (P-1)/P of the message sent per rank, no scratch.

use mscclpp_core::dsl::Program;
use mscclpp_core::types::BlockSync;
use mscclpp_macros::collective;

use crate::builtin::{BufferMode, BuiltinAlgorithm};

/// Every rank puts each part directly into its receiver's output.
///
/// Out of place, two ranks or more, one thread block per peer: the neighbor's first, so that the ranks write to
/// different peers at a time.
#[collective(AllToAll, ranks = [2, 4, 8], crate = mscclpp_core)]
pub fn alltoall_direct(p: &Program) {
    let ranks = p.num_ranks();
    for rank in p.ranks() {
        let id = rank.id();
        rank.copy(rank.output().chunk(id), rank.input().chunk(id), 0);
        for step in 1..ranks {
            let peer = p.rank((id + step) % ranks);
            let channel = rank.memory_channel(peer);
            let block = step - 1;
            channel.handshake(block).relaxed();
            channel.put(peer.output().chunk(id), rank.input().chunk(peer.id()), block);
            channel.handshake(block).sync(BlockSync::Both);
        }
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(alltoall_direct::algorithm, include_str!("direct.rs"), |p, _| alltoall_direct(p))
        .with_buffer_mode(BufferMode::OutOfPlace)
        .blocks_per_peer(1);
