//! All-pairs all-reduce: 2 steps, (P-1)/P of the message read and as much written per rank, no scratch.

use mscclpp_core::dsl::Program;
use mscclpp_core::types::BlockSync;
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
        let peers: Vec<_> = p.ranks().filter(|peer| peer.id() != rank.id()).collect();
        for block in 0..blocks {
            let channels: Vec<_> = peers.iter().map(|&peer| rank.memory_channel(peer)).collect();
            for channel in &channels {
                channel.signal(block).relaxed();
            }
            for channel in &channels {
                channel.wait(block).relaxed().sync(BlockSync::After);
            }
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
            for (channel, peer) in channels.iter().zip(&peers) {
                channel.reduce(sum, peer.input().chunk(index), block).to(mine);
                sum = mine;
            }
            for (channel, peer) in channels.iter().zip(&peers) {
                channel.put(result(peer.id()), mine, block);
            }
            for channel in &channels {
                channel.signal(block).sync(BlockSync::Before);
            }
            for channel in &channels {
                channel.wait(block);
            }
        }
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(allreduce_all_pairs::algorithm, include_str!("all_pairs.rs"), |p, _| allreduce_all_pairs(p))
        .any_chunk_factor();
