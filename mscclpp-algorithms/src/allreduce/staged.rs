//! Staged all-reduce: 2 steps, (P-1)/P of the message read and as much written per rank, P chunks of scratch.

use mscclpp_core::dsl::{Channels, Program};
use mscclpp_macros::collective;

use crate::builtin::BuiltinAlgorithm;

/// Every rank copies its input to scratch, reduces its part of all ranks' scratch, puts the result into the scratch of all, and copies
/// the other parts to its output.
///
/// In place or not, two ranks or more. The chunk factor is the number of thread blocks: each processes one chunk of every part. Other
/// ranks access scratch only, so that input and output may be any memory. For medium messages.
#[collective(AllReduce, ranks = [2, 4, 8], in_place, chunk_factor = 8, crate = mscclpp_core)]
pub fn allreduce_staged(p: &Program) {
    let (ranks, blocks) = (p.num_ranks(), p.chunk_factor());
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(ranks * blocks)).collect();
    for rank in p.ranks() {
        let (id, stage) = (rank.id(), scratch[rank.id()]);
        for block in 0..blocks {
            let channels = rank.memory_channels((1..ranks).map(|step| (id + step) % ranks));
            let index = |of: usize| of * blocks + block;
            let result = |of: usize| {
                if p.in_place() {
                    rank.input().chunk(index(of)).to_any()
                } else {
                    rank.output().chunk(index(of)).to_any()
                }
            };
            for part in 0..ranks {
                rank.copy(stage.chunk(index(part)), rank.input().chunk(index(part)), block);
            }
            channels.handshake(block);
            let mine = stage.chunk(index(id));
            for channel in &channels {
                channel.reduce(mine, scratch[channel.peer().id()].chunk(index(id)), block).to(mine);
            }
            for channel in &channels {
                channel.put(scratch[channel.peer().id()].chunk(index(id)), mine, block);
            }
            channels.handshake(block);
            for part in 0..ranks {
                rank.copy(result(part), stage.chunk(index(part)), block);
            }
        }
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(allreduce_staged::algorithm, include_str!("staged.rs"), |p, _| allreduce_staged(p))
        .any_chunk_factor();
