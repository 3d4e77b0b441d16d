//! Broadcast down a tree over ports: log2 P steps, rounded up, the whole message sent so often by the root, no scratch.

use mscclpp_core::dsl::Program;
use mscclpp_core::types::BlockSync;
use mscclpp_macros::collective;

use crate::builtin::BuiltinAlgorithm;

/// Broadcasts along a binomial tree, with ranks counted from the root: in every step each rank that has the message
/// sends it to one that has not.
///
/// In place or not, any root, two ranks or more on any number of nodes, one thread block. For small messages.
#[collective(Broadcast, ranks = [2, 4, 8], crate = mscclpp_core)]
pub fn broadcast_tree_ports(p: &Program) {
    let (ranks, root) = (p.num_ranks(), p.root());
    for rank in p.ranks() {
        let id = rank.id();
        let from_root = (id + ranks - root) % ranks;
        let result = |of: usize| {
            if p.in_place() { p.rank(of).input().chunk(..).to_any() } else { p.rank(of).output().chunk(..).to_any() }
        };
        // A rank's children have one more bit set, below its lowest set bit.
        let mut children = Vec::new();
        let mut bit = 1;
        while bit < ranks && from_root / bit % 2 == 0 {
            if from_root + bit < ranks {
                children.push((id + bit) % ranks);
            }
            bit *= 2;
        }
        // The last child has the deepest subtree, so the rank sends to it first.
        let to_children = rank.port_channels(children.iter().rev());
        let is_root = id == root;
        let message = if is_root { rank.input().chunk(..).to_any() } else { result(id) };
        if !is_root {
            let from_parent = rank.port_channel((id + ranks - bit) % ranks);
            from_parent.handshake(0).sync(BlockSync::After);
        }
        for channel in &to_children {
            channel.wait(0).sync(BlockSync::After);
            channel.put_with_signal(result(channel.peer().id()), message, 0);
        }
        if is_root && !p.in_place() {
            rank.copy(rank.output().chunk(..), rank.input().chunk(..), 0);
        }
        // The source may be overwritten only after it has been read.
        for channel in &to_children {
            channel.flush(0);
        }
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(broadcast_tree_ports::algorithm, include_str!("tree_ports.rs"), |p, _| {
        broadcast_tree_ports(p)
    })
    .nodes(1, u32::MAX, 1);
