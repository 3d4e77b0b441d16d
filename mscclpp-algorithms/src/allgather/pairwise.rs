//! Pairwise all-gather: P-1 rendezvous in turn, (P-1)/P of the output sent per rank, no scratch.

use mscclpp_core::dsl::Program;
use mscclpp_core::types::BlockSync;
use mscclpp_macros::collective;

use crate::builtin::{BufferMode, BuiltinAlgorithm};

/// Every rank synchronizes with every other rank in turn, and the two exchange their chunks.
///
/// In place, any number of ranks; intended for two, where no algorithm is faster.
#[collective(AllGather, ranks = [2, 4, 8], in_place, crate = mscclpp_core)]
pub fn allgather_pairwise(p: &Program) {
    for rank in p.ranks() {
        let mine = rank.output().chunk(rank.id());
        for peer in p.ranks().filter(|peer| peer.id() != rank.id()) {
            let channel = rank.memory_channel(peer);
            // Both ranks have started, so both outputs may be written.
            channel.handshake(0).relaxed();
            channel.put(peer.output().chunk(rank.id()), mine, 0);
            // The data has arrived.
            channel.handshake(0).sync(BlockSync::Both);
        }
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(allgather_pairwise::algorithm, include_str!("pairwise.rs"), |p, _| allgather_pairwise(p))
        .with_buffer_mode(BufferMode::InPlace);
