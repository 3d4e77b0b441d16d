//! All-pairs all-reduce in the order of ranks, then a norm of all rows on every rank: 2 steps per MiB, 2(P-1)/P of the message
//! sent per rank, 2P chunks of scratch per thread block.

use mscclpp_core::dsl::{Channels, Program};
use mscclpp_macros::collective;

use crate::builtin::BuiltinAlgorithm;

/// Every rank puts each peer's part into the peer's scratch, reduces the parts that it receives with its own, puts the sum
/// into the scratch of all ranks, and normalizes all rows into its output.
///
/// In place or not, two ranks or more. The chunk factor is the number of thread blocks. Every rank has the residual and
/// the quantized form of all rows, as after `allreduce_norm_one_shot`: for many rows. No rank writes to the output of
/// another one, so that outputs need no copies.
#[collective(AllReduce, ranks = [2, 4, 8], in_place, chunk_factor = 8, rows, crate = mscclpp_core)]
pub fn allreduce_norm_two_shot(p: &Program) {
    let (ranks, blocks) = (p.num_ranks(), p.chunk_factor());
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(2 * ranks * blocks)).collect();
    for rank in p.ranks() {
        for block in 0..blocks {
            let id = rank.id();
            let channels = rank.memory_channels((1..ranks).map(|step| (id + step) % ranks));
            // A chunk of each part, the slot of each rank's contribution, and that of each part's sum.
            let chunk = |part: usize| part * blocks + block;
            let slot = |from: usize| 2 * block * ranks + from;
            let sum = |part: usize| (2 * block + 1) * ranks + part;
            let operand = |from: usize| {
                if from == id { rank.input().chunk(chunk(id)).to_any() } else { scratch[id].chunk(slot(from)).to_any() }
            };
            let others: Vec<_> = (1..ranks).map(operand).collect();
            // Scratch of the previous launch has been read.
            channels.handshake(block).relaxed();
            p.pipeline(1 << 20, 1, || {
                for channel in &channels {
                    let peer = channel.peer().id();
                    channel.put(scratch[peer].chunk(slot(id)), rank.input().chunk(chunk(peer)), block);
                }
                channels.handshake(block);
                rank.reduce(operand(0), &others, block).to(scratch[id].chunk(sum(id)));
                for channel in &channels {
                    channel.put(scratch[channel.peer().id()].chunk(sum(id)), scratch[id].chunk(sum(id)), block);
                }
                channels.handshake(block);
                for part in 0..ranks {
                    let rows = chunk(part);
                    let result = if p.in_place() {
                        rank.input().chunk(rows).to_any()
                    } else {
                        rank.output().chunk(rows).to_any()
                    };
                    rank.row_norm(result, scratch[id].chunk(sum(part)), block);
                }
            });
        }
    }
}

/// Entry in the list of algorithms.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(allreduce_norm_two_shot::algorithm, include_str!("two_shot.rs"), |p, _| {
        allreduce_norm_two_shot(p)
    })
    .any_chunk_factor()
    .in_rank_order();
