//! Broadcast along a chain: 2P-2 steps, the whole message sent per rank, no scratch.

use mscclpp_core::dsl::Program;
use mscclpp_core::types::BlockSync;
use mscclpp_macros::collective;

use crate::builtin::BuiltinAlgorithm;

/// The root sends chunk after chunk to the next rank, and each rank forwards the chunks that it receives, so that all
/// links are busy.
///
/// In place or not, any root, two ranks or more on any number of nodes, one thread block. For large messages.
#[collective(Broadcast, ranks = [2, 4, 8], crate = mscclpp_core)]
pub fn broadcast_chain(p: &Program) {
    let (ranks, root) = (p.num_ranks(), p.root());
    for rank in p.ranks() {
        let id = rank.id();
        let next = p.rank((id + 1) % ranks);
        let is_root = id == root;
        let is_last = next.id() == root;
        let result = |of: usize, index: usize| {
            if p.in_place() {
                p.rank(of).input().chunk(index).to_any()
            } else {
                p.rank(of).output().chunk(index).to_any()
            }
        };
        let mut from_previous = Vec::new();
        if !is_root {
            from_previous.push(rank.port_channel((id + ranks - 1) % ranks));
        }
        let mut to_next = Vec::new();
        if !is_last {
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
            }
            for channel in &to_next {
                let chunk = if is_root { rank.input().chunk(index).to_any() } else { result(id, index) };
                channel.put_with_signal(result(next.id(), index), chunk, 0);
            }
        }
        if is_root && !p.in_place() {
            rank.copy(rank.output().chunk(..), rank.input().chunk(..), 0);
        }
        // The source may be overwritten only after it has been read.
        for channel in &to_next {
            channel.flush(0);
        }
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm = BuiltinAlgorithm::new(
    broadcast_chain::algorithm,
    include_str!("chain.rs"),
    |p, _| broadcast_chain(p),
)
.nodes(1, u32::MAX, 1);
