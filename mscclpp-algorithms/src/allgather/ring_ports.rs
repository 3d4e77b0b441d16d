//! Ring all-gather over ports: P-1 steps, (P-1)/P of the output sent per rank, no scratch.

use mscclpp_core::dsl::Program;
use mscclpp_core::types::BlockSync;
use mscclpp_macros::collective;

use crate::builtin::BuiltinAlgorithm;

/// Chunks travel around a ring: in every step each rank puts the chunk that it received last into the next rank's
/// output.
///
/// In place or not, two ranks or more on any number of nodes, one thread block. For large messages.
#[collective(AllGather, ranks = [2, 4, 8], crate = mscclpp_core)]
pub fn allgather_ring_ports(p: &Program) {
    let ranks = p.num_ranks();
    for rank in p.ranks() {
        let (id, output) = (rank.id(), rank.output());
        let next = p.rank((id + 1) % ranks);
        let previous = p.rank((id + ranks - 1) % ranks);
        let to_next = rank.port_channel(next);
        // With two ranks next and previous are the same rank, and one channel suffices.
        let to_previous = if ranks == 2 { to_next } else { rank.port_channel(previous) };

        to_previous.signal(0).sync(BlockSync::None);
        to_next.wait(0).sync(BlockSync::After);
        if !p.in_place() {
            rank.copy(output.chunk(id), rank.input().chunk(0), 0);
        }
        for step in 0..ranks - 1 {
            let index = (id + ranks - step) % ranks;
            let chunk =
                if step == 0 && !p.in_place() { rank.input().chunk(0).to_any() } else { output.chunk(index).to_any() };
            to_next.put_with_signal(next.output().chunk(index), chunk, 0);
            to_previous.wait(0).sync(BlockSync::After);
        }
        // The source may be overwritten only after it has been read.
        to_next.flush(0);
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(allgather_ring_ports::algorithm, include_str!("ring_ports.rs"), |p, _| {
        allgather_ring_ports(p)
    })
    .nodes(1, u32::MAX, 1);
