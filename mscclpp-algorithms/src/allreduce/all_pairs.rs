//! All-pairs all-reduce: 2 steps, (P-1)/P of the message read and as much written per rank, no scratch.

use mscclpp_core::dsl::{Channels, Program};
use mscclpp_macros::collective;

use crate::builtin::BuiltinAlgorithm;

/// Every rank reads and reduces its part of all ranks' inputs, then puts the result into all ranks' outputs.
///
/// In place or not, two ranks or more. The chunk factor is the number of thread blocks: each processes one chunk of the
/// rank's part, and has a separate channel to every peer. For large messages.
#[collective(AllReduce, ranks = [2, 4, 8], in_place, chunk_factor = 8, crate = mscclpp_core)]
pub fn allreduce_all_pairs(p: &Program) {
    let blocks = p.chunk_factor();
    for rank in p.ranks() {
        for block in 0..blocks {
            let channels = rank.memory_channels(p.ranks().filter(|peer| *peer != rank));
            channels.handshake(block).relaxed();
            let index = rank.id() * blocks + block;
            let result = |of: usize| {
                if p.in_place() {
                    p.rank(of).input().chunk(index).to_any()
                } else {
                    p.rank(of).output().chunk(index).to_any()
                }
            };
            let mine = result(rank.id());
            // Out of place, the first chunk that is read is reduced with the rank's own input into the output.
            let mut sum = rank.input().chunk(index).to_any();
            for channel in &channels {
                channel.reduce(sum, channel.peer().input().chunk(index), block).to(mine);
                sum = mine;
            }
            for channel in &channels {
                channel.put(result(channel.peer().id()), mine, block);
            }
            channels.handshake(block);
        }
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(allreduce_all_pairs::algorithm, include_str!("all_pairs.rs"), |p, _| allreduce_all_pairs(p))
        .any_chunk_factor();
