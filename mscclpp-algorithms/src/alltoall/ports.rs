//! Direct all-to-all over ports: 1 step, (P-1)/P of the message sent per rank, no scratch.

use mscclpp_core::dsl::Program;
use mscclpp_core::types::BlockSync;
use mscclpp_macros::collective;

use crate::builtin::{BufferMode, BuiltinAlgorithm};

/// Every rank puts each part directly into its receiver's output, the neighbor's first, so that the ranks write to
/// different peers at a time.
///
/// Out of place, two ranks or more on any number of nodes, one thread block: it only pushes triggers.
#[collective(AllToAll, ranks = [2, 4, 8], crate = mscclpp_core)]
pub fn alltoall_ports(p: &Program) {
    let ranks = p.num_ranks();
    for rank in p.ranks() {
        let id = rank.id();
        let channels = rank.port_channels((1..ranks).map(|step| (id + step) % ranks));
        for channel in &channels {
            channel.signal(0).sync(BlockSync::None);
        }
        for channel in &channels {
            let peer = channel.peer();
            channel.wait(0).sync(BlockSync::After);
            channel.put_with_signal(peer.output().chunk(id), rank.input().chunk(peer.id()), 0);
        }
        rank.copy(rank.output().chunk(id), rank.input().chunk(id), 0);
        for channel in &channels {
            channel.wait(0).sync(BlockSync::After);
        }
        // The source may be overwritten only after it has been read.
        for channel in &channels {
            channel.flush(0);
        }
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(alltoall_ports::algorithm, include_str!("ports.rs"), |p, _| alltoall_ports(p))
        .with_buffer_mode(BufferMode::OutOfPlace)
        .nodes(1, u32::MAX, 1);
