//! Ring reduce-scatter: P-1 steps, (P-1)/P of the input sent per rank, P-1 chunks of scratch.

use mscclpp_core::dsl::Program;
use mscclpp_core::types::BlockSync;
use mscclpp_macros::collective;

use crate::builtin::BuiltinAlgorithm;

/// Partial sums travel around a ring: in every step each rank adds its contribution to the sum that it received and
/// forwards it.
///
/// In place or not, two ranks or more, one thread block. Each rank needs links to its two neighbors only. Chunk r is
/// reduced in the order of the ranks after r, so all ranks have the same rounding. For large messages.
#[collective(ReduceScatter, ranks = [2, 4, 8], crate = mscclpp_core)]
pub fn reducescatter_ring(p: &Program) {
    let ranks = p.num_ranks();
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(ranks - 1)).collect();
    for rank in p.ranks() {
        let (id, input, arrived) = (rank.id(), rank.input(), scratch[rank.id()]);
        let next = p.rank((id + 1) % ranks);
        let previous = p.rank((id + ranks - 1) % ranks);
        let to_next = rank.memory_channel(next);
        // With two ranks next and previous are the same rank, and one channel suffices.
        let to_previous = if ranks == 2 { to_next } else { rank.memory_channel(previous) };

        to_previous.signal(0).relaxed();
        to_next.wait(0).relaxed().sync(BlockSync::After);
        for step in 0..ranks - 1 {
            // Forwarded in step s: the chunk of the rank s + 1 below, which this rank received in step s - 1.
            let index = (id + ranks - 1 - step) % ranks;
            if step == 0 {
                to_next.put(scratch[next.id()].chunk(0), input.chunk(index), 0);
            } else {
                rank.reduce(arrived.chunk(step - 1), input.chunk(index), 0);
                to_next.put(scratch[next.id()].chunk(step), arrived.chunk(step - 1), 0);
            }
            to_next.signal(0).sync(BlockSync::Before);
            to_previous.wait(0).sync(BlockSync::After);
        }
        let result = if p.in_place() { input.chunk(id).to_any() } else { rank.output().chunk(0).to_any() };
        rank.reduce(input.chunk(id), arrived.chunk(ranks - 2), 0).to(result);
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(reducescatter_ring::algorithm, include_str!("ring.rs"), |p, _| reducescatter_ring(p));
