//! All-to-all-v over ports: 1 exchange of counts, then 1 step, the sent bytes written or read per rank, no scratch.

use mscclpp_core::dsl::{Channels, Program};
use mscclpp_core::types::BlockSync;
use mscclpp_macros::collective;

use crate::builtin::{BufferMode, BuiltinAlgorithm};

/// Every rank puts its parts for the ranks of other nodes into their outputs, and reads its parts of the inputs of its node.
///
/// On any number of nodes, one thread block. All ranks have begun when a rank has their counts, so their outputs may be written.
#[collective(AllToAllV, ranks = 4, ranks_per_node = 2, crate = mscclpp_core)]
pub fn alltoallv_ports(p: &Program) {
    let (ranks, per_node) = (p.num_ranks(), p.ranks_per_node());
    for rank in p.ranks() {
        let (id, node, first) = (rank.id(), rank.node(), rank.node() * per_node);
        let memory = rank.memory_channels((1..per_node).map(|step| first + (rank.local_id() + step) % per_node));
        let far = (1..ranks).map(|step| (id + step) % ranks).filter(|&peer| peer / per_node != node);
        let ports = rank.port_channels(far);
        rank.exchange_counts(0);
        for channel in &ports {
            let peer = channel.peer();
            channel.put_counted(peer.output().chunk(id), rank.input().chunk(peer.id()), rank, peer, 0);
            channel.signal(0).sync(BlockSync::Before);
        }
        for channel in &memory {
            let peer = channel.peer();
            channel.get_counted(rank.output().chunk(peer.id()), peer.input().chunk(id), peer, rank, 0);
        }
        rank.copy_counted(rank.output().chunk(id), rank.input().chunk(id), rank, rank, 0);
        // The inputs of the node have been read and may be overwritten.
        memory.handshake(0).relaxed();
        for channel in &ports {
            channel.wait(0).sync(BlockSync::After);
        }
        // So may this one's, once it has been read for other nodes.
        for channel in &ports {
            channel.flush(0);
        }
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(alltoallv_ports::algorithm, include_str!("ports.rs"), |p, _| alltoallv_ports(p))
        .with_buffer_mode(BufferMode::OutOfPlace)
        .nodes(1, u32::MAX, 1);
