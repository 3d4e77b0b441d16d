//! Staged all-gather: 1 step, (P-1)/P of the output sent per rank, P chunks of scratch.

use mscclpp_core::dsl::{Channels, Program};
use mscclpp_macros::collective;

use crate::builtin::BuiltinAlgorithm;

/// Every rank puts its chunk into every other rank's scratch, and copies those of the others to its output.
///
/// In place or not, two ranks or more. Other ranks access scratch only, so that input and output may be any memory. For large messages,
/// with many instances.
#[collective(AllGather, ranks = [2, 4, 8], in_place, instances = 8, crate = mscclpp_core)]
pub fn allgather_staged(p: &Program) {
    let ranks = p.num_ranks();
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(ranks)).collect();
    for rank in p.ranks() {
        let id = rank.id();
        let channels = rank.memory_channels((1..ranks).map(|step| (id + step) % ranks));
        let own = rank.output().chunk(id);
        let mine = if p.in_place() { own.to_any() } else { rank.input().chunk(0).to_any() };
        // The peers have copied the chunks of the previous launch.
        channels.handshake(0).relaxed();
        for channel in &channels {
            channel.put(scratch[channel.peer().id()].chunk(id), mine, 0);
        }
        if !p.in_place() {
            rank.copy(own, mine, 0);
        }
        channels.handshake(0);
        for channel in &channels {
            let peer = channel.peer().id();
            rank.copy(rank.output().chunk(peer), scratch[id].chunk(peer), 0);
        }
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(allgather_staged::algorithm, include_str!("staged.rs"), |p, _| allgather_staged(p));
