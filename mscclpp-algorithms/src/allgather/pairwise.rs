//! Pairwise all-gather: P-1 rendezvous in turn, (P-1)/P of the output sent per rank, no scratch.

use mscclpp_core::dsl::Program;
use mscclpp_core::types::BlockSync;
use mscclpp_macros::collective;

use crate::builtin::{BufferMode, BuiltinAlgorithm};

/// Every rank meets every other rank in turn; the two exchange their chunks.
///
/// In place, any number of ranks; meant for two, where it is as fast as can be.
#[collective(AllGather, ranks = [2, 4, 8], in_place, crate = mscclpp_core)]
pub fn allgather_pairwise(p: &Program) {
    for rank in p.ranks() {
        let mine = rank.output().chunk(rank.id());
        for peer in p.ranks().filter(|peer| peer.id() != rank.id()) {
            let channel = rank.memory_channel(peer);
            // Both are here, so that both may be written to.
            channel.signal(0).relaxed();
            channel.wait(0).relaxed().sync(BlockSync::After);
            channel.put(peer.output().chunk(rank.id()), mine, 0);
            // The data is there.
            channel.signal(0).sync(BlockSync::Before);
            channel.wait(0).sync(BlockSync::After);
        }
    }
}

/// What the registry knows of it.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(allgather_pairwise::algorithm, include_str!("pairwise.rs"), |p, _| allgather_pairwise(p))
        .placed(BufferMode::InPlace);
