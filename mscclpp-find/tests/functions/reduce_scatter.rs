//! Found for slow.

use mscclpp::collective;
use mscclpp::dsl::{BlockSync, Program};

/// Trees that were packed for the machine.
#[collective(ReduceScatter, ranks = 4, instances = 8)]
pub fn reducescatter_trees(p: &Program) {
    let unit = 1048576;
    // Per tree its root, and the links over which partial sums travel to it.
    let trees: Vec<(usize, Vec<(usize, usize)>)> = vec![
        (0, vec![(3, 0), (2, 0), (1, 0)]),
        (1, vec![(0, 1), (3, 1), (2, 1)]),
        (2, vec![(1, 2), (0, 2), (3, 2)]),
        (3, vec![(2, 3), (1, 3), (0, 3)]),
    ];
    for (tree, (root, links)) in trees.iter().enumerate() {
        let result = p.rank(*root).output().chunk(tree % p.chunk_factor());
        let mut channels = Vec::new();
        for (child, parent) in links {
            let slot = p.rank(*parent).scratch(1).chunk(0);
            channels.push((p.rank(*child).memory_channel(*parent), p.rank(*parent).memory_channel(*child), slot));
        }
        // The scratch may be written.
        for (_, from_child, _) in &channels {
            from_child.signal(tree).relaxed();
        }
        for (to_parent, _, _) in &channels {
            to_parent.wait(tree).relaxed().sync(BlockSync::After);
        }
        p.pipeline(unit, 1, || {
            // What a rank has summed up so far, and whether that is more than its input.
            let mut sums: Vec<_> = p.ranks().map(|rank| (rank.input().chunk(tree).to_any(), false)).collect();
            for ((child, parent), (to_parent, from_child, slot)) in links.iter().zip(&channels) {
                to_parent.put(*slot, sums[*child].0, tree);
                to_parent.signal(tree).sync(BlockSync::Before);
                from_child.wait(tree).sync(BlockSync::After);
                let (sum, is_partial) = sums[*parent];
                if is_partial {
                    p.rank(*parent).reduce(sum, *slot, tree);
                } else if parent == root {
                    p.rank(*parent).reduce(sum, *slot, tree).to(result);
                    sums[*parent] = (result.to_any(), true);
                } else {
                    p.rank(*parent).reduce(*slot, sum, tree);
                    sums[*parent] = (slot.to_any(), true);
                }
            }
        });
    }
}
