//! Reduce-scatter in the order of ranks, then a norm of the rank's part: 1 step per MiB, (P-1)/P of the message sent per rank, P
//! chunks of scratch per thread block.

use mscclpp_core::dsl::{Channels, Program};
use mscclpp_macros::collective;

use crate::builtin::BuiltinAlgorithm;

/// Every rank puts each peer's part into the peer's scratch, reduces the parts that it receives with its own, and
/// normalizes the rows.
///
/// In place or not, two ranks or more. The chunk factor is the number of thread blocks. The operands of the norm have a row
/// for every row of the rank's part, as in sequence parallelism.
#[collective(ReduceScatter, ranks = [2, 4, 8], in_place, chunk_factor = 8, rows, crate = mscclpp_core)]
pub fn reducescatter_norm(p: &Program) {
    let (ranks, blocks) = (p.num_ranks(), p.chunk_factor());
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(ranks * blocks)).collect();
    for rank in p.ranks() {
        for block in 0..blocks {
            let id = rank.id();
            let channels = rank.memory_channels((1..ranks).map(|step| (id + step) % ranks));
            // A chunk of each part, and the slot of each rank's contribution.
            let chunk = |part: usize| part * blocks + block;
            let slot = |from: usize| block * ranks + from;
            let operand = |from: usize| {
                if from == id { rank.input().chunk(chunk(id)).to_any() } else { scratch[id].chunk(slot(from)).to_any() }
            };
            let others: Vec<_> = (1..ranks).map(operand).collect();
            let result = rank.output().chunk(block);
            p.pipeline(1 << 20, 1, || {
                // The slots of the previous iteration have been read.
                channels.handshake(block).relaxed();
                for channel in &channels {
                    let peer = channel.peer().id();
                    channel.put(scratch[peer].chunk(slot(id)), rank.input().chunk(chunk(peer)), block);
                }
                channels.handshake(block);
                rank.reduce(operand(0), &others, block).to(result);
                rank.row_norm(result, result, block);
            });
        }
    }
}

/// Entry in the list of algorithms.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(reducescatter_norm::algorithm, include_str!("reduce_scatter.rs"), |p, _| {
        reducescatter_norm(p)
    })
    .any_chunk_factor()
    .in_rank_order();
