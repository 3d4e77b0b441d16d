//! Reduce up a tree over ports: log2 P steps, rounded up, the whole message sent per rank, P log2 P chunks of scratch,
//! log2 P rounded up as well.

use mscclpp_core::dsl::Program;
use mscclpp_core::types::BlockSync;
use mscclpp_macros::collective;

use crate::builtin::BuiltinAlgorithm;

/// Reduces along a binomial tree, with ranks counted from the root: every rank adds its children's sums, and sends the
/// sum to its parent.
///
/// In place or not, any root, two ranks or more on any number of nodes, one thread block. The inputs of ranks other
/// than the root are preserved. For small messages.
#[collective(Reduce, ranks = [2, 4, 8], crate = mscclpp_core)]
pub fn reduce_tree_ports(p: &Program) {
    let (ranks, root) = (p.num_ranks(), p.root());
    // With ranks counted from the root, a rank's children have one more bit set, below its lowest set bit.
    let mut children = Vec::new();
    let mut lowest = Vec::new();
    for id in 0..ranks {
        let from_root = (id + ranks - root) % ranks;
        let mut own = Vec::new();
        let mut bit = 1;
        while bit < ranks && from_root / bit % 2 == 0 {
            if from_root + bit < ranks {
                own.push((id + bit) % ranks);
            }
            bit *= 2;
        }
        children.push(own);
        lowest.push(bit);
    }
    let mut scratch = Vec::new();
    for rank in p.ranks() {
        let mut slots = Vec::new();
        for _ in &children[rank.id()] {
            slots.push(rank.scratch(ranks).chunk(..));
        }
        scratch.push(slots);
    }
    for rank in p.ranks() {
        let (id, input) = (rank.id(), rank.input().chunk(..));
        let from_children = rank.port_channels(&children[id]);
        // The scratch may be written.
        for channel in &from_children {
            channel.signal(0).sync(BlockSync::None);
        }
        let is_root = id == root;
        let mut sum = input.to_any();
        for (index, channel) in from_children.iter().enumerate() {
            channel.wait(0).sync(BlockSync::After);
            let total = match (is_root, p.in_place()) {
                (false, _) => scratch[id][0].to_any(),
                (true, true) => input.to_any(),
                (true, false) => rank.output().chunk(..).to_any(),
            };
            rank.reduce(sum, scratch[id][index], 0).to(total);
            sum = total;
        }
        if !is_root {
            let parent = (id + ranks - lowest[id]) % ranks;
            let to_parent = rank.port_channel(parent);
            let index = children[parent].iter().position(|&child| child == id).unwrap();
            to_parent.wait(0).sync(BlockSync::After);
            to_parent.put_with_signal(scratch[parent][index], sum, 0);
            to_parent.flush(0);
        }
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(reduce_tree_ports::algorithm, include_str!("tree_ports.rs"), |p, _| reduce_tree_ports(p))
        .nodes(1, u32::MAX, 1);
