//! Pulled all-to-all: 1 step, (P-1)/P of the message read per rank, no scratch.

use mscclpp_core::dsl::{Channels, Program};
use mscclpp_macros::collective;

use crate::builtin::{BufferMode, BuiltinAlgorithm};

/// Every rank reads its part of all ranks' inputs.
///
/// Out of place, two ranks or more, one thread block. No rank writes to another rank's memory, which costs cores that
/// share caches more than reading it.
#[collective(AllToAll, ranks = [2, 4, 8], crate = mscclpp_core)]
pub fn alltoall_pull(p: &Program) {
    let ranks = p.num_ranks();
    for rank in p.ranks() {
        let id = rank.id();
        let channels = rank.memory_channels((1..ranks).map(|step| (id + step) % ranks));
        channels.handshake(0).relaxed();
        for channel in &channels {
            let peer = channel.peer();
            channel.get(rank.output().chunk(peer.id()), peer.input().chunk(id), 0);
        }
        rank.copy(rank.output().chunk(id), rank.input().chunk(id), 0);
        // The peers' inputs have been read and may be overwritten.
        channels.handshake(0);
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(alltoall_pull::algorithm, include_str!("pull.rs"), |p, _| alltoall_pull(p))
        .with_buffer_mode(BufferMode::OutOfPlace);
