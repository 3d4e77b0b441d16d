//! Reduce-scatter in the order of ranks, a norm of the rank's part, and an all-gather: 2 steps per MiB, 2(P-1)/P of the message
//! sent per rank, P chunks of scratch per thread block.

use mscclpp_core::dsl::{Channels, Program};
use mscclpp_macros::collective;

use crate::builtin::BuiltinAlgorithm;

/// Every rank puts each peer's part into the peer's scratch, reduces the parts that it receives with its own, normalizes
/// the rows of its part, and puts them into all ranks' outputs.
///
/// In place or not, two ranks or more. The chunk factor is the number of thread blocks. Every row is normalized by one rank:
/// a rank reads the residual of its own part only, and writes sums, quantized rows and scales of that part only. For calls
/// that need these nowhere else.
#[collective(AllReduce, ranks = [2, 4, 8], in_place, chunk_factor = 8, rows, crate = mscclpp_core)]
pub fn allreduce_norm_scatter(p: &Program) {
    let (ranks, blocks) = (p.num_ranks(), p.chunk_factor());
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(ranks * blocks)).collect();
    for rank in p.ranks() {
        for block in 0..blocks {
            let id = rank.id();
            let channels = rank.memory_channels((1..ranks).map(|step| (id + step) % ranks));
            // A chunk of each part, and the slot of each rank's contribution.
            let chunk = |part: usize| part * blocks + block;
            let slot = |from: usize| block * ranks + from;
            let result = |of: usize| {
                let rank = p.rank(of);
                if p.in_place() {
                    rank.input().chunk(chunk(id)).to_any()
                } else {
                    rank.output().chunk(chunk(id)).to_any()
                }
            };
            let operand = |from: usize| {
                if from == id { rank.input().chunk(chunk(id)).to_any() } else { scratch[id].chunk(slot(from)).to_any() }
            };
            let others: Vec<_> = (1..ranks).map(operand).collect();
            p.pipeline(1 << 20, 1, || {
                // The slots of the previous iteration have been read.
                channels.handshake(block).relaxed();
                for channel in &channels {
                    let peer = channel.peer().id();
                    channel.put(scratch[peer].chunk(slot(id)), rank.input().chunk(chunk(peer)), block);
                }
                channels.handshake(block);
                rank.reduce(operand(0), &others, block).to(result(id));
                rank.row_norm(result(id), result(id), block);
                for channel in &channels {
                    channel.put(result(channel.peer().id()), result(id), block);
                }
            });
            channels.handshake(block);
        }
    }
}

/// Entry in the list of algorithms.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(allreduce_norm_scatter::algorithm, include_str!("scatter.rs"), |p, _| {
        allreduce_norm_scatter(p)
    })
    .any_chunk_factor()
    .in_rank_order();
