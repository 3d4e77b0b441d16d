//! Hierarchical all-gather in a pipeline: 2 overlapping stages per 256 KiB, (G-1)/G of the output sent within the node and (N-1)/P
//! between nodes per rank (N nodes of G ranks), no scratch.

use mscclpp_core::dsl::{Channels, Program};
use mscclpp_core::types::BlockSync;
use mscclpp_macros::collective;

use crate::builtin::BuiltinAlgorithm;

/// The steps of `allgather_hierarchical` for windows of every chunk: while the windows of a rank travel to its counterparts on the other
/// nodes and to the ranks of its node, another thread block forwards those that have arrived within the node.
///
/// In place or not, two nodes or more of two ranks or more, two thread blocks. For large messages: links within nodes are not idle until
/// whole chunks have arrived.
#[collective(AllGather, ranks = 16, ranks_per_node = 8, crate = mscclpp_core)]
pub fn allgather_hierarchical_pipeline(p: &Program) {
    let (ranks, per_node, nodes) = (p.num_ranks(), p.ranks_per_node(), p.num_nodes());
    for rank in p.ranks() {
        let (id, output) = (rank.id(), rank.output());
        let first = rank.node() * per_node;
        let neighbors: Vec<_> = (1..per_node).map(|step| first + (rank.local_id() + step) % per_node).collect();
        // Those of the first thread block, and those of the second one.
        let memory = rank.memory_channels(&neighbors);
        let forwarded = rank.memory_channels(&neighbors);
        let port = rank.port_channels((1..nodes).map(|step| (id + step * per_node) % ranks));
        let mine = if p.in_place() { output.chunk(id).to_any() } else { rank.input().chunk(0).to_any() };

        // Outputs may be written.
        for channel in &port {
            channel.signal(0).sync(BlockSync::None);
        }
        memory.handshake(0).relaxed();
        for channel in &port {
            channel.wait(1);
        }
        rank.barrier(0..2);

        p.pipeline(256 << 10, 1, || {
            for channel in &port {
                channel.put_with_signal(channel.peer().output().chunk(id), mine, 0);
            }
            for channel in &memory {
                channel.put(channel.peer().output().chunk(id), mine, 0);
            }
            if !p.in_place() {
                rank.copy(output.chunk(id), mine, 0);
            }
            for from in &port {
                let partner = from.peer().id();
                from.wait(1).sync(BlockSync::After);
                for channel in &forwarded {
                    channel.put(channel.peer().output().chunk(partner), output.chunk(partner), 1);
                }
            }
        });
        memory.handshake(0);
        forwarded.handshake(1);
        // The source may be overwritten only after it has been read.
        for channel in &port {
            channel.flush(0);
        }
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm = BuiltinAlgorithm::new(
    allgather_hierarchical_pipeline::algorithm,
    include_str!("hierarchical_pipeline.rs"),
    |p, _| allgather_hierarchical_pipeline(p),
)
.nodes(2, u32::MAX, 2);
