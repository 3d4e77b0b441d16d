//! Reduce in the order of ranks: 2 steps, at most 1 of the message sent per rank, P chunks of scratch.

use mscclpp_core::dsl::{Channels, Program};
use mscclpp_core::types::BlockSync;
use mscclpp_macros::collective;

use crate::builtin::BuiltinAlgorithm;

/// Every rank puts each peer's chunk into the peer's scratch, reduces the chunks that it receives with its own, and puts the result
/// into the root: through memory channels within its node, over ports to other nodes.
///
/// In place or not, two ranks or more on any number of nodes, any root, one thread block. The inputs of ranks other than the root
/// are preserved. Every element is reduced in the order of ranks, which needs all operands of a reduction in the rank's own memory.
/// For messages whose results may not depend on where in the message an element is.
#[collective(Reduce, ranks = [2, 4, 8], crate = mscclpp_core)]
pub fn reduce_rank_order(p: &Program) {
    let (ranks, per_node, root) = (p.num_ranks(), p.ranks_per_node(), p.rank(p.root()));
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(ranks)).collect();
    for rank in p.ranks() {
        let (id, input) = (rank.id(), rank.input());
        let is_near = |peer: &usize| *peer / per_node == rank.node();
        let memory = rank.memory_channels((1..ranks).map(|step| (id + step) % ranks).filter(|peer| is_near(peer)));
        let ports = rank.port_channels((1..ranks).map(|step| (id + step) % ranks).filter(|peer| !is_near(peer)));
        let operand =
            |from: usize| if from == id { input.chunk(id).to_any() } else { scratch[id].chunk(from).to_any() };
        let result = if p.in_place() { root.input().chunk(id).to_any() } else { root.output().chunk(id).to_any() };

        // The scratch may be written.
        for channel in &ports {
            channel.signal(0).sync(BlockSync::None);
        }
        memory.handshake(0).relaxed();
        for channel in &memory {
            let peer = channel.peer().id();
            channel.put(scratch[peer].chunk(id), input.chunk(peer), 0);
        }
        for channel in &ports {
            let peer = channel.peer().id();
            channel.wait(0).sync(BlockSync::After);
            channel.put_with_signal(scratch[peer].chunk(id), input.chunk(peer), 0);
        }
        memory.handshake(0);
        for channel in &ports {
            channel.wait(0).sync(BlockSync::After);
        }

        let others: Vec<_> = (1..ranks).map(operand).collect();
        // The slot of the rank's own contribution is free for the result.
        let sum = if id == root.id() { result } else { scratch[id].chunk(id).to_any() };
        rank.reduce(operand(0), &others, 0).to(sum);
        for channel in &memory {
            if channel.peer() == root {
                channel.put(result, sum, 0);
            }
            if channel.peer() == root || rank == root {
                channel.handshake(0);
            }
        }
        for channel in &ports {
            if channel.peer() == root {
                channel.put_with_signal(result, sum, 0);
            }
            if rank == root {
                channel.wait(0).sync(BlockSync::After);
            }
        }
        // The sources may be overwritten only after they have been read.
        for channel in &ports {
            channel.flush(0);
        }
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(reduce_rank_order::algorithm, include_str!("rank_order.rs"), |p, _| reduce_rank_order(p))
        .nodes(1, u32::MAX, 1)
        .in_rank_order();
