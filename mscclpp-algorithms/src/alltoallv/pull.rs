//! Pulled all-to-all-v: 1 exchange of counts, then 1 step, the received bytes read per rank, no scratch.

use mscclpp_core::dsl::{Channels, Program};
use mscclpp_macros::collective;

use crate::builtin::{BufferMode, BuiltinAlgorithm};

/// Every rank reads its part of all ranks' inputs.
///
/// One thread block. All ranks have begun when a rank has their counts, so no further handshake opens the launch.
#[collective(AllToAllV, ranks = [2, 4, 8], crate = mscclpp_core)]
pub fn alltoallv_pull(p: &Program) {
    let ranks = p.num_ranks();
    for rank in p.ranks() {
        let id = rank.id();
        let channels = rank.memory_channels((1..ranks).map(|step| (id + step) % ranks));
        rank.exchange_counts(0);
        for channel in &channels {
            let peer = channel.peer();
            channel.get_counted(rank.output().chunk(peer.id()), peer.input().chunk(id), peer, rank, 0);
        }
        rank.copy_counted(rank.output().chunk(id), rank.input().chunk(id), rank, rank, 0);
        // The peers' inputs have been read and may be overwritten.
        channels.handshake(0).relaxed();
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(alltoallv_pull::algorithm, include_str!("pull.rs"), |p, _| alltoallv_pull(p))
        .with_buffer_mode(BufferMode::OutOfPlace);
