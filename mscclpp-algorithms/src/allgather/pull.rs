//! Pulled all-gather: 1 step, (P-1)/P of the output read per rank, no scratch.

use mscclpp_core::dsl::{Channels, Program};
use mscclpp_macros::collective;

use crate::builtin::BuiltinAlgorithm;

/// Every rank reads every other rank's chunk, starting with its neighbor's, so that the ranks read different peers at a
/// time.
///
/// In place or not, two ranks or more, one thread block. No rank writes to another rank's memory, which costs cores
/// that share caches more than reading it.
#[collective(AllGather, ranks = [2, 4, 8], crate = mscclpp_core)]
pub fn allgather_pull(p: &Program) {
    let ranks = p.num_ranks();
    for rank in p.ranks() {
        let id = rank.id();
        let channels = rank.memory_channels((1..ranks).map(|step| (id + step) % ranks));
        let chunk = |of: usize| {
            if p.in_place() { p.rank(of).output().chunk(of).to_any() } else { p.rank(of).input().chunk(0).to_any() }
        };
        channels.handshake(0).relaxed();
        if !p.in_place() {
            rank.copy(rank.output().chunk(id), chunk(id), 0);
        }
        for channel in &channels {
            let peer = channel.peer().id();
            channel.get(rank.output().chunk(peer), chunk(peer), 0);
        }
        // The peers' chunks have been read and may be overwritten.
        channels.handshake(0);
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(allgather_pull::algorithm, include_str!("pull.rs"), |p, _| allgather_pull(p));
