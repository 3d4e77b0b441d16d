//! All-pairs reduce-scatter in the order of ranks: 1 step per MiB, (P-1)/P of the input sent per rank, P chunks of scratch.

use mscclpp_core::dsl::{Channels, Program};
use mscclpp_macros::collective;

use crate::builtin::BuiltinAlgorithm;

/// Every rank puts each peer's part into the peer's scratch and reduces the parts that it receives with its own.
///
/// In place or not, two ranks or more, one thread block. Every element is reduced in the order of ranks, which needs all
/// operands of a reduction in the rank's own memory. For large messages whose results may not depend on where in the
/// message an element is.
#[collective(ReduceScatter, ranks = [2, 4, 8], reuse_resources, crate = mscclpp_core)]
pub fn reducescatter_rank_order(p: &Program) {
    let ranks = p.num_ranks();
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(ranks)).collect();
    for rank in p.ranks() {
        let (id, input) = (rank.id(), rank.input());
        let channels = rank.memory_channels((1..ranks).map(|step| (id + step) % ranks));
        let operand =
            |from: usize| if from == id { input.chunk(id).to_any() } else { scratch[id].chunk(from).to_any() };
        let others: Vec<_> = (1..ranks).map(operand).collect();
        let result = if p.in_place() { input.chunk(id).to_any() } else { rank.output().chunk(0).to_any() };
        p.pipeline(1 << 20, 1, || {
            // The slots of the previous iteration have been read.
            channels.handshake(0).relaxed();
            for channel in &channels {
                let peer = channel.peer().id();
                channel.put(scratch[peer].chunk(id), input.chunk(peer), 0);
            }
            channels.handshake(0);
            rank.reduce(operand(0), &others, 0).to(result);
        });
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(reducescatter_rank_order::algorithm, include_str!("rank_order.rs"), |p, _| {
        reducescatter_rank_order(p)
    })
    .in_rank_order();
