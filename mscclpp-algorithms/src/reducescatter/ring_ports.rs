//! Ring reduce-scatter over ports: P-1 steps, (P-1)/P of the input sent per rank, P-1 chunks of scratch.

use mscclpp_core::dsl::Program;
use mscclpp_core::types::BlockSync;
use mscclpp_macros::collective;

use crate::builtin::BuiltinAlgorithm;

/// Partial sums travel around a ring: in every step each rank adds its contribution to the sum that it received and
/// forwards it.
///
/// In place or not, two ranks or more on any number of nodes, one thread block. For large messages.
#[collective(ReduceScatter, ranks = [2, 4, 8], crate = mscclpp_core)]
pub fn reducescatter_ring_ports(p: &Program) {
    let ranks = p.num_ranks();
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(ranks - 1)).collect();
    for rank in p.ranks() {
        let (id, input, arrived) = (rank.id(), rank.input(), scratch[rank.id()]);
        let next = p.rank((id + 1) % ranks);
        let previous = p.rank((id + ranks - 1) % ranks);
        let to_next = rank.port_channel(next);
        // With two ranks next and previous are the same rank, and one channel suffices.
        let to_previous = if ranks == 2 { to_next } else { rank.port_channel(previous) };

        to_previous.signal(0).sync(BlockSync::None);
        to_next.wait(0).sync(BlockSync::After);
        for step in 0..ranks - 1 {
            // Forwarded in step s: the chunk of the rank s + 1 below, which this rank received in step s - 1.
            let index = (id + ranks - 1 - step) % ranks;
            if step == 0 {
                to_next.put_with_signal(scratch[next.id()].chunk(0), input.chunk(index), 0);
            } else {
                rank.reduce(arrived.chunk(step - 1), input.chunk(index), 0);
                to_next.put_with_signal(scratch[next.id()].chunk(step), arrived.chunk(step - 1), 0);
            }
            to_previous.wait(0).sync(BlockSync::After);
        }
        let result = if p.in_place() { input.chunk(id).to_any() } else { rank.output().chunk(0).to_any() };
        rank.reduce(input.chunk(id), arrived.chunk(ranks - 2), 0).to(result);
        // The source may be overwritten only after it has been read.
        to_next.flush(0);
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(reducescatter_ring_ports::algorithm, include_str!("ring_ports.rs"), |p, _| {
        reducescatter_ring_ports(p)
    })
    .nodes(1, u32::MAX, 1);
