//! All-pairs reduce-scatter in the order of ranks over nodes: 1 step, (P-1)/P of the input sent per rank, P chunks of scratch.

use mscclpp_core::dsl::{Channels, Program};
use mscclpp_core::types::BlockSync;
use mscclpp_macros::collective;

use crate::builtin::BuiltinAlgorithm;

/// Every rank puts each peer's part into the peer's scratch and reduces the parts that it receives with its own: through memory
/// channels within its node, over ports to other nodes.
///
/// In place or not, two nodes or more, one thread block. Every element is reduced in the order of ranks, which needs all
/// operands of a reduction in the rank's own memory. For messages whose results may not depend on where in the message an
/// element is.
#[collective(ReduceScatter, ranks = 16, ranks_per_node = 8, crate = mscclpp_core)]
pub fn reducescatter_rank_order_ports(p: &Program) {
    let (ranks, per_node) = (p.num_ranks(), p.ranks_per_node());
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(ranks)).collect();
    for rank in p.ranks() {
        let (id, input) = (rank.id(), rank.input());
        let is_near = |peer: &usize| *peer / per_node == rank.node();
        let memory = rank.memory_channels((1..ranks).map(|step| (id + step) % ranks).filter(|peer| is_near(peer)));
        let ports = rank.port_channels((1..ranks).map(|step| (id + step) % ranks).filter(|peer| !is_near(peer)));
        let operand =
            |from: usize| if from == id { input.chunk(id).to_any() } else { scratch[id].chunk(from).to_any() };
        let result = if p.in_place() { input.chunk(id).to_any() } else { rank.output().chunk(0).to_any() };

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
        rank.reduce(operand(0), &others, 0).to(result);
        // The sources may be overwritten only after they have been read.
        for channel in &ports {
            channel.flush(0);
        }
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(reducescatter_rank_order_ports::algorithm, include_str!("rank_order_ports.rs"), |p, _| {
        reducescatter_rank_order_ports(p)
    })
    .nodes(2, u32::MAX, 1)
    .in_rank_order();
