//! All-pairs all-gather: 1 step, (P-1)/P of the output sent per rank, no scratch.

use mscclpp_core::dsl::{Channels, Program};
use mscclpp_macros::collective;

use crate::builtin::BuiltinAlgorithm;

/// Every rank puts its chunk into every other rank's output, starting with its neighbor, so that the ranks write to
/// different peers at a time.
///
/// In place or not, any number of ranks. For large messages, with many instances.
#[collective(AllGather, ranks = [2, 4, 8], in_place, instances = 32, crate = mscclpp_core)]
pub fn allgather_all_pairs(p: &Program) {
    for rank in p.ranks() {
        let channels = rank.memory_channels(p.ranks().filter(|peer| *peer != rank));
        channels.handshake(0).relaxed();
        let own = rank.output().chunk(rank.id());
        let mine = if p.in_place() { own.to_any() } else { rank.input().chunk(0).to_any() };
        for step in 1..p.num_ranks() {
            let peer = p.rank((rank.id() + step) % p.num_ranks());
            // A rank has no channel to itself, so the channels of higher ranks have an index lower by one.
            let index = if peer.id() < rank.id() { peer.id() } else { peer.id() - 1 };
            channels[index].put(peer.output().chunk(rank.id()), mine, 0);
        }
        if !p.in_place() {
            rank.copy(own, mine, 0);
        }
        channels.handshake(0);
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(allgather_all_pairs::algorithm, include_str!("all_pairs.rs"), |p, _| allgather_all_pairs(p));
