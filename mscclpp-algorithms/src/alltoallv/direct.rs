//! Direct all-to-all-v: 1 exchange of counts, then 1 step, the sent bytes written per rank, no scratch.

use mscclpp_core::dsl::Program;
use mscclpp_core::types::BlockSync;
use mscclpp_macros::collective;

use crate::builtin::{BufferMode, BuiltinAlgorithm};

/// Every rank puts its part for each rank directly into that rank's output.
///
/// One thread block per rank: the first one exchanges counts, and a barrier tells the others. All ranks have begun
/// when a rank has their counts, so their outputs may be written.
#[collective(AllToAllV, ranks = [2, 4, 8], crate = mscclpp_core)]
pub fn alltoallv_direct(p: &Program) {
    let ranks = p.num_ranks();
    for rank in p.ranks() {
        let id = rank.id();
        rank.exchange_counts(0);
        rank.barrier(0..ranks);
        for step in 0..ranks {
            let peer = p.rank((id + step) % ranks);
            let (to, from) = (peer.output().chunk(id), rank.input().chunk(peer.id()));
            if step == 0 {
                rank.copy_counted(to, from, rank, rank, step);
                continue;
            }
            let channel = rank.memory_channel(peer);
            channel.put_counted(to, from, rank, peer, step);
            channel.handshake(step).sync(BlockSync::Both);
        }
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(alltoallv_direct::algorithm, include_str!("direct.rs"), |p, _| alltoallv_direct(p))
        .with_buffer_mode(BufferMode::OutOfPlace);
