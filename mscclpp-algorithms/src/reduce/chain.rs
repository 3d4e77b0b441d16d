//! Reduce along a chain: 2P-2 steps, the whole message sent per rank, P chunks of scratch.

use mscclpp_core::dsl::Program;
use mscclpp_core::types::BlockSync;
use mscclpp_macros::collective;

use crate::builtin::BuiltinAlgorithm;

/// The rank after the root sends chunk after chunk to the next one, and each rank adds its own and forwards the sum, up
/// to the root.
///
/// In place or not, any root, two ranks or more on any number of nodes, one thread block. The inputs of ranks other
/// than the root are preserved. For large messages.
#[collective(Reduce, ranks = [2, 4, 8], crate = mscclpp_core)]
pub fn reduce_chain(p: &Program) {
    let (ranks, root) = (p.num_ranks(), p.root());
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(ranks)).collect();
    for rank in p.ranks() {
        let (id, input, arrived) = (rank.id(), rank.input(), scratch[rank.id()]);
        let next = (id + 1) % ranks;
        let previous = (id + ranks - 1) % ranks;
        let (is_root, is_first) = (id == root, previous == root);
        let mut from_previous = Vec::new();
        if !is_first {
            from_previous.push(rank.port_channel(previous));
        }
        let mut to_next = Vec::new();
        if !is_root {
            to_next.push(rank.port_channel(next));
        }

        for channel in &from_previous {
            channel.signal(0).sync(BlockSync::None);
        }
        for channel in &to_next {
            channel.wait(0).sync(BlockSync::After);
        }
        for index in 0..ranks {
            for channel in &from_previous {
                channel.wait(0).sync(BlockSync::After);
                let sum = match (is_root, p.in_place()) {
                    (false, _) => arrived.chunk(index).to_any(),
                    (true, true) => input.chunk(index).to_any(),
                    (true, false) => rank.output().chunk(index).to_any(),
                };
                rank.reduce(input.chunk(index), arrived.chunk(index), 0).to(sum);
            }
            for channel in &to_next {
                let chunk = if is_first { input.chunk(index).to_any() } else { arrived.chunk(index).to_any() };
                channel.put_with_signal(scratch[next].chunk(index), chunk, 0);
            }
        }
        // The source may be overwritten only after it has been read.
        for channel in &to_next {
            channel.flush(0);
        }
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm = BuiltinAlgorithm::new(
    reduce_chain::algorithm,
    include_str!("chain.rs"),
    |p, _| reduce_chain(p),
)
.nodes(1, u32::MAX, 1);
