//! Ring all-reduce over ports: 2(P-1) steps, 2(P-1)/P of the message sent per rank, P-1 chunks of scratch.

use mscclpp_core::dsl::Program;
use mscclpp_core::types::BlockSync;
use mscclpp_macros::collective;

use crate::builtin::BuiltinAlgorithm;

/// Partial sums travel around a ring until each rank has one fully reduced chunk; then these chunks travel around it.
///
/// In place or not, two ranks or more on any number of nodes, one thread block. Every chunk is reduced once and then
/// copied, so all ranks get bitwise equal results. For large messages.
#[collective(AllReduce, ranks = [2, 4, 8], crate = mscclpp_core)]
pub fn allreduce_ring_ports(p: &Program) {
    let ranks = p.num_ranks();
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(ranks - 1)).collect();
    for rank in p.ranks() {
        let (id, input, arrived) = (rank.id(), rank.input(), scratch[rank.id()]);
        let next = p.rank((id + 1) % ranks);
        let previous = p.rank((id + ranks - 1) % ranks);
        let to_next = rank.port_channel(next);
        // With two ranks next and previous are the same rank, and one channel suffices.
        let to_previous = if ranks == 2 { to_next } else { rank.port_channel(previous) };
        // Returns chunk `index` of `of`'s result.
        let result = |of: usize, index: usize| {
            if p.in_place() {
                p.rank(of).input().chunk(index).to_any()
            } else {
                p.rank(of).output().chunk(index).to_any()
            }
        };

        to_previous.signal(0).sync(BlockSync::None);
        to_next.wait(0).sync(BlockSync::After);
        for step in 0..ranks - 1 {
            let index = (id + ranks - 1 - step) % ranks;
            if step == 0 {
                to_next.put_with_signal(scratch[next.id()].chunk(0), input.chunk(index), 0);
            } else {
                rank.reduce(arrived.chunk(step - 1), input.chunk(index), 0);
                to_next.put_with_signal(scratch[next.id()].chunk(step), arrived.chunk(step - 1), 0);
            }
            to_previous.wait(0).sync(BlockSync::After);
        }
        rank.reduce(input.chunk(id), arrived.chunk(ranks - 2), 0).to(result(id, id));
        for step in 0..ranks - 1 {
            let index = (id + ranks - step) % ranks;
            to_next.put_with_signal(result(next.id(), index), result(id, index), 0);
            to_previous.wait(0).sync(BlockSync::After);
        }
        // The source may be overwritten only after it has been read.
        to_next.flush(0);
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(allreduce_ring_ports::algorithm, include_str!("ring_ports.rs"), |p, _| {
        allreduce_ring_ports(p)
    })
    .nodes(1, u32::MAX, 1);
