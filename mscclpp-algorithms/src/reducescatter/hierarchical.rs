//! Hierarchical reduce-scatter: 2 steps, (G-1)/G of the input read within the node and (N-1)/P sent between nodes per rank
//! (N nodes of G ranks), 2N-2 chunks of scratch.

use mscclpp_core::dsl::{Channels, Program};
use mscclpp_core::types::BlockSync;
use mscclpp_macros::collective;

use crate::builtin::BuiltinAlgorithm;

/// Every rank reads and reduces over its node the chunks of its counterparts on the other nodes and sends the sums to
/// them, then its own chunk, to which it adds the sums of the counterparts.
///
/// In place or not, two nodes or more, one thread block. Sending overlaps with reading. For large messages.
#[collective(ReduceScatter, ranks = 16, ranks_per_node = 8, crate = mscclpp_core)]
pub fn reducescatter_hierarchical(p: &Program) {
    let (ranks, per_node, nodes) = (p.num_ranks(), p.ranks_per_node(), p.num_nodes());
    let partners = nodes - 1;
    // Slots: sums for the partners, then the sums of the partners. Both count nodes from the one after the sender's.
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(2 * partners)).collect();
    for rank in p.ranks() {
        let (id, input, slots) = (rank.id(), rank.input(), scratch[rank.id()]);
        let first = rank.node() * per_node;
        let memory = rank.memory_channels((1..per_node).map(|step| first + (rank.local_id() + step) % per_node));
        let port = rank.port_channels((1..nodes).map(|step| (id + step * per_node) % ranks));

        // The scratch may be written, and inputs may be read.
        for channel in &port {
            channel.signal(0).sync(BlockSync::None);
        }
        memory.handshake(0).relaxed();
        for (step, to) in port.iter().enumerate() {
            let partner = to.peer();
            let mut sum = input.chunk(partner.id()).to_any();
            for channel in &memory {
                channel.reduce(sum, channel.peer().input().chunk(partner.id()), 0).to(slots.chunk(step));
                sum = slots.chunk(step).to_any();
            }
            to.wait(0).sync(BlockSync::After);
            to.put_with_signal(scratch[partner.id()].chunk(partners + step), sum, 0);
        }

        let result = if p.in_place() { input.chunk(id).to_any() } else { rank.output().chunk(0).to_any() };
        let mut sum = input.chunk(id).to_any();
        for channel in &memory {
            channel.reduce(sum, channel.peer().input().chunk(id), 0).to(result);
            sum = result;
        }
        for (step, channel) in port.iter().enumerate() {
            channel.wait(0).sync(BlockSync::After);
            // The partner `step` nodes on is the one for whom this rank is that far from the other side.
            rank.reduce(sum, slots.chunk(2 * partners - 1 - step), 0).to(result);
            sum = result;
        }
        // The peers' inputs and the sent sums have been read and may be overwritten.
        memory.handshake(0);
        for channel in &port {
            channel.flush(0);
        }
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(reducescatter_hierarchical::algorithm, include_str!("hierarchical.rs"), |p, _| {
        reducescatter_hierarchical(p)
    })
    .nodes(2, u32::MAX, 1);
