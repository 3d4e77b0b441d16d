//! Hierarchical all-gather: 2 steps, (G-1)/G of the output sent within the node and (N-1)/P between nodes per rank (N nodes
//! of G ranks), no scratch.

use mscclpp_core::dsl::{Channels, Program};
use mscclpp_core::types::BlockSync;
use mscclpp_macros::collective;

use crate::builtin::BuiltinAlgorithm;

/// Every rank sends its chunk to its counterparts on the other nodes and to the ranks of its node, and forwards the
/// chunks of its counterparts within the node.
///
/// In place or not, two nodes or more, one thread block. For messages of any size: all data is put directly into
/// outputs, and transfers between nodes overlap with those within the node.
#[collective(AllGather, ranks = 16, ranks_per_node = 8, crate = mscclpp_core)]
pub fn allgather_hierarchical(p: &Program) {
    let (ranks, per_node, nodes) = (p.num_ranks(), p.ranks_per_node(), p.num_nodes());
    for rank in p.ranks() {
        let (id, output) = (rank.id(), rank.output());
        let first = rank.node() * per_node;
        let memory = rank.memory_channels((1..per_node).map(|step| first + (rank.local_id() + step) % per_node));
        let port = rank.port_channels((1..nodes).map(|step| (id + step * per_node) % ranks));
        let mine = if p.in_place() { output.chunk(id).to_any() } else { rank.input().chunk(0).to_any() };

        for channel in &port {
            channel.signal(0).sync(BlockSync::None);
        }
        for channel in &memory {
            channel.signal(0).relaxed();
        }
        for channel in &port {
            channel.wait(0).sync(BlockSync::After);
            channel.put_with_signal(channel.peer().output().chunk(id), mine, 0);
        }
        for channel in &memory {
            channel.wait(0).relaxed().sync(BlockSync::After);
        }
        for channel in &memory {
            channel.put(channel.peer().output().chunk(id), mine, 0);
        }
        if !p.in_place() {
            rank.copy(output.chunk(id), mine, 0);
        }
        for from in &port {
            let partner = from.peer();
            from.wait(0).sync(BlockSync::After);
            for channel in &memory {
                channel.put(channel.peer().output().chunk(partner.id()), output.chunk(partner.id()), 0);
            }
        }
        memory.handshake(0);
        // The source may be overwritten only after it has been read.
        for channel in &port {
            channel.flush(0);
        }
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(allgather_hierarchical::algorithm, include_str!("hierarchical.rs"), |p, _| {
        allgather_hierarchical(p)
    })
    .nodes(2, u32::MAX, 1);
