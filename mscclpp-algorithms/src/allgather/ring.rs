//! Ring all-gather: P-1 steps, (P-1)/P of the output sent per rank, no scratch.

use mscclpp_core::dsl::Program;
use mscclpp_core::types::BlockSync;
use mscclpp_macros::collective;

use crate::builtin::BuiltinAlgorithm;

/// Chunks travel around a ring: in every step each rank puts the chunk that it received last into the next rank's
/// output.
///
/// In place or not, two ranks or more, one thread block. Each rank needs links to its two neighbors only. For large
/// messages.
#[collective(AllGather, ranks = [2, 4, 8], crate = mscclpp_core)]
pub fn allgather_ring(p: &Program) {
    let ranks = p.num_ranks();
    for rank in p.ranks() {
        let (id, output) = (rank.id(), rank.output());
        let next = p.rank((id + 1) % ranks);
        let previous = p.rank((id + ranks - 1) % ranks);
        let to_next = rank.memory_channel(next);
        // With two ranks next and previous are the same rank, and one channel suffices.
        let to_previous = if ranks == 2 { to_next } else { rank.memory_channel(previous) };

        to_previous.signal(0).relaxed();
        to_next.wait(0).relaxed().sync(BlockSync::After);
        if !p.in_place() {
            rank.copy(output.chunk(id), rank.input().chunk(0), 0);
        }
        for step in 0..ranks - 1 {
            let index = (id + ranks - step) % ranks;
            let chunk =
                if step == 0 && !p.in_place() { rank.input().chunk(0).to_any() } else { output.chunk(index).to_any() };
            to_next.put(next.output().chunk(index), chunk, 0);
            to_next.signal(0).sync(BlockSync::Before);
            to_previous.wait(0).sync(BlockSync::After);
        }
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(allgather_ring::algorithm, include_str!("ring.rs"), |p, _| allgather_ring(p));
