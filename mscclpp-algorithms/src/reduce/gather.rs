//! Reduce by gathering: 2 steps, (P-1)/P of the message read and 1/P sent per rank, 1 chunk of scratch.

use mscclpp_core::dsl::{Channels, Program};
use mscclpp_macros::collective;

use crate::builtin::BuiltinAlgorithm;

/// Every rank reads and reduces its chunk of all ranks' inputs in scratch, then puts the result into the root.
///
/// In place or not, two ranks or more, any root, one thread block. The inputs of ranks other than the root are
/// preserved.
#[collective(Reduce, ranks = [2, 4, 8], crate = mscclpp_core)]
pub fn reduce_gather(p: &Program) {
    let root = p.rank(p.root());
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(1).chunk(0)).collect();
    for rank in p.ranks() {
        let id = rank.id();
        // The neighbor first, so that the ranks read different peers at a time.
        let channels = rank.memory_channels((1..p.num_ranks()).map(|step| (id + step) % p.num_ranks()));
        let result = if p.in_place() { root.input().chunk(id).to_any() } else { root.output().chunk(id).to_any() };
        channels.handshake(0).relaxed();
        let sum = if id == root.id() { result } else { scratch[id].to_any() };
        if id != root.id() || !p.in_place() {
            rank.copy(sum, rank.input().chunk(id), 0);
        }
        for channel in &channels {
            channel.reduce(sum, channel.peer().input().chunk(id), 0);
        }
        for channel in &channels {
            if channel.peer() == root {
                channel.put(result, sum, 0);
            }
        }
        // The inputs have been read, and the root has its result.
        channels.handshake(0);
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(reduce_gather::algorithm, include_str!("gather.rs"), |p, _| reduce_gather(p));
