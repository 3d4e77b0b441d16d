//! Found for nodes.

use mscclpp::collective;
use mscclpp::dsl::{BlockSync, Program};

/// Trees that were packed for the machine.
#[collective(Reduce, ranks = 4, ranks_per_node = 2)]
pub fn reduce_trees(p: &Program) {
    let span = 2;
    let unit = 262144;
    // Per tree its root, and the links over which partial sums travel to the root.
    let trees: Vec<(usize, Vec<(usize, usize)>)> = vec![
        (0, vec![(2, 3), (3, 0), (1, 0)]),
        (0, vec![(3, 2), (2, 1), (1, 0)]),
    ];
    for (tree, (root, links)) in trees.iter().enumerate() {
        let (first, last) = (tree * span, (tree + 1) * span);
        let result = if p.in_place() {
            p.rank(*root).input().chunk(first..last).to_any()
        } else {
            p.rank(*root).output().chunk(first..last).to_any()
        };
        // Per link, where sums arrive, and its two ends within a node, or those between nodes.
        let mut channels = Vec::new();
        for (child, parent) in links {
            let (from, to) = (p.rank(*child), p.rank(*parent));
            let slot = to.scratch(span).chunk(0..span);
            let mut near = Vec::new();
            let mut far = Vec::new();
            if from.node() == to.node() {
                near.push((from.memory_channel(to), to.memory_channel(from)));
            } else {
                far.push((from.port_channel(to), to.port_channel(from)));
            }
            channels.push((slot, near, far));
        }
        // The scratch may be written.
        for (_, near, far) in &channels {
            for (_, from_child) in near {
                from_child.signal(tree).relaxed();
            }
            for (_, from_child) in far {
                from_child.signal(tree).sync(BlockSync::None);
            }
        }
        for (_, near, far) in &channels {
            for (to_parent, _) in near {
                to_parent.wait(tree).relaxed().sync(BlockSync::After);
            }
            for (to_parent, _) in far {
                to_parent.wait(tree).sync(BlockSync::After);
            }
        }
        p.pipeline(unit, span, || {
            // What a rank has summed up so far, and whether that is more than its input.
            let mut sums: Vec<_> = p.ranks().map(|rank| (rank.input().chunk(first..last).to_any(), false)).collect();
            for ((child, parent), (slot, near, far)) in links.iter().zip(&channels) {
                for (to_parent, from_child) in near {
                    to_parent.put(*slot, sums[*child].0, tree);
                    to_parent.signal(tree).sync(BlockSync::Before);
                    from_child.wait(tree).sync(BlockSync::After);
                }
                for (to_parent, from_child) in far {
                    to_parent.put_with_signal(*slot, sums[*child].0, tree);
                    from_child.wait(tree).sync(BlockSync::After);
                }
                let (sum, is_partial) = sums[*parent];
                if is_partial {
                    p.rank(*parent).reduce(sum, *slot, tree);
                } else if parent == root {
                    p.rank(*parent).reduce(sum, *slot, tree).to(result);
                    sums[*parent] = (result, true);
                } else {
                    p.rank(*parent).reduce(*slot, sum, tree);
                    sums[*parent] = (slot.to_any(), true);
                }
            }
        });
        // The source may be overwritten only after it has been read.
        for (_, _, far) in &channels {
            for (to_parent, _) in far {
                to_parent.flush(tree);
            }
        }
    }
}
