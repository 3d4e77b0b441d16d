//! All-gather over two nodes: 3 steps, (G-1)/G of the output sent within the node and 1/P between the nodes per rank (G
//! ranks per node), no scratch.

use mscclpp_core::dsl::{Channels, Program};
use mscclpp_core::types::BlockSync;
use mscclpp_macros::collective;

use crate::builtin::{BufferMode, BuiltinAlgorithm};

/// The ranks of a node exchange their chunks; every rank swaps chunks with its counterpart on the other node; the ranks
/// of a node exchange the chunks that they received.
///
/// In place, two nodes of any size, one thread block. For large messages.
#[collective(AllGather, ranks = 16, ranks_per_node = 8, in_place, crate = mscclpp_core)]
pub fn allgather_two_nodes(p: &Program) {
    let (ranks, per_node) = (p.num_ranks(), p.ranks_per_node());
    for rank in p.ranks() {
        let (id, output) = (rank.id(), rank.output());
        let on_node = p.ranks().filter(|peer| peer.node() == rank.node() && *peer != rank);
        let channels = rank.memory_channels(on_node);
        let partner = p.rank((id + per_node) % ranks);
        let across = rank.port_channel(partner);

        channels.handshake(0).relaxed();
        for channel in &channels {
            channel.put(channel.peer().output().chunk(id), output.chunk(id), 0);
        }

        across.handshake(0);
        across.put_with_signal_and_flush(partner.output().chunk(id), output.chunk(id), 0);
        across.wait(0).sync(BlockSync::After);

        for channel in &channels {
            channel.put(channel.peer().output().chunk(partner.id()), output.chunk(partner.id()), 0);
        }
        channels.handshake(0);
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(allgather_two_nodes::algorithm, include_str!("two_nodes.rs"), |p, _| allgather_two_nodes(p))
        .with_buffer_mode(BufferMode::InPlace)
        .nodes(2, 2, 1);
