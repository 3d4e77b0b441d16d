//! All-pairs all-reduce in the order of ranks, then a norm of all rows on every rank: 2 steps per MiB, 2(P-1)/P of the message
//! sent per rank, P chunks of scratch per thread block.

use mscclpp_core::dsl::{Channels, Program};
use mscclpp_macros::collective;

use crate::builtin::BuiltinAlgorithm;

/// Every rank puts each peer's part into the peer's scratch, reduces the parts that it receives with its own, puts the sum
/// into all ranks' outputs, and normalizes all rows.
///
/// In place or not, two ranks or more. The chunk factor is the number of thread blocks. Every rank has the residual and
/// the quantized form of all rows, as after `allreduce_norm_one_shot`: for many rows.
#[collective(AllReduce, ranks = [2, 4, 8], in_place, chunk_factor = 8, rows, crate = mscclpp_core)]
pub fn allreduce_norm_two_shot(p: &Program) {
    let (ranks, blocks) = (p.num_ranks(), p.chunk_factor());
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(ranks * blocks)).collect();
    for rank in p.ranks() {
        for block in 0..blocks {
            let id = rank.id();
            let channels = rank.memory_channels((1..ranks).map(|step| (id + step) % ranks));
            // A chunk of each part, and the slot of each rank's contribution.
            let chunk = |part: usize| part * blocks + block;
            let slot = |from: usize| block * ranks + from;
            let result = |of: usize, part: usize| {
                let rank = p.rank(of);
                if p.in_place() {
                    rank.input().chunk(chunk(part)).to_any()
                } else {
                    rank.output().chunk(chunk(part)).to_any()
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
                rank.reduce(operand(0), &others, block).to(result(id, id));
                for channel in &channels {
                    channel.put(result(channel.peer().id(), id), result(id, id), block);
                }
                channels.handshake(block);
                for part in 0..ranks {
                    rank.row_norm(result(id, part), result(id, part), block);
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
