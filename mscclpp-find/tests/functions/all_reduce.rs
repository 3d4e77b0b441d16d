//! Found for islands.

use mscclpp::collective;
use mscclpp::dsl::{BlockSync, Program};

/// Trees that were packed for the machine.
#[collective(AllReduce, ranks = 8)]
pub fn allreduce_trees(p: &Program) {
    type Links = Vec<(usize, usize)>;

    let span = 1;
    let unit = 1048576;
    // Whether children get results, instead of parents putting them.
    let gets = false;
    // Per tree its root, and the links over which partial sums travel to it, and those over which results leave it.
    let trees: Vec<(usize, Links, Links)> = vec![
        (0, vec![(7, 5), (6, 5), (4, 5), (5, 0), (3, 0), (2, 0), (1, 0)], vec![(0, 1), (0, 2), (0, 3), (0, 5), (5, 4), (5, 6), (5, 7)]),
        (1, vec![(7, 6), (5, 6), (4, 6), (6, 1), (0, 1), (3, 1), (2, 1)], vec![(1, 2), (1, 3), (1, 0), (1, 6), (6, 4), (6, 5), (6, 7)]),
        (2, vec![(6, 7), (5, 7), (4, 7), (7, 2), (1, 2), (0, 2), (3, 2)], vec![(2, 3), (2, 0), (2, 1), (2, 7), (7, 4), (7, 5), (7, 6)]),
        (3, vec![(7, 4), (6, 4), (5, 4), (4, 3), (2, 3), (1, 3), (0, 3)], vec![(3, 0), (3, 1), (3, 2), (3, 4), (4, 5), (4, 6), (4, 7)]),
        (4, vec![(0, 1), (3, 1), (2, 1), (7, 4), (6, 4), (5, 4), (1, 4)], vec![(4, 1), (4, 5), (4, 6), (4, 7), (1, 2), (1, 3), (1, 0)]),
        (5, vec![(1, 2), (0, 2), (3, 2), (7, 5), (6, 5), (4, 5), (2, 5)], vec![(5, 2), (5, 4), (5, 6), (5, 7), (2, 3), (2, 0), (2, 1)]),
        (6, vec![(2, 3), (1, 3), (0, 3), (7, 6), (5, 6), (4, 6), (3, 6)], vec![(6, 3), (6, 4), (6, 5), (6, 7), (3, 0), (3, 1), (3, 2)]),
        (7, vec![(3, 0), (2, 0), (1, 0), (0, 7), (6, 7), (5, 7), (4, 7)], vec![(7, 4), (7, 5), (7, 6), (7, 0), (0, 1), (0, 2), (0, 3)]),
    ];
    for (tree, (root, up, down)) in trees.iter().enumerate() {
        let (first, last) = (tree * span, (tree + 1) * span);
        let result = |rank: usize| {
            if p.in_place() {
                p.rank(rank).input().chunk(first..last).to_any()
            } else {
                p.rank(rank).output().chunk(first..last).to_any()
            }
        };
        // Results arrive in another thread block than sums, except at the root.
        let block_of = |rank: usize| if rank == *root { tree } else { trees.len() + tree };
        let mut sums_over = Vec::new();
        for (child, parent) in up {
            let slot = p.rank(*parent).scratch(span).chunk(0..span);
            sums_over.push((p.rank(*child).memory_channel(*parent), p.rank(*parent).memory_channel(*child), slot));
        }
        let mut results_over = Vec::new();
        for (parent, child) in down {
            results_over.push((p.rank(*parent).memory_channel(*child), p.rank(*child).memory_channel(*parent)));
        }
        // The scratch and the outputs may be written.
        for (_, from_child, _) in &sums_over {
            from_child.signal(tree).relaxed();
        }
        for (to_parent, _, _) in &sums_over {
            to_parent.wait(tree).relaxed().sync(BlockSync::After);
        }
        if !gets {
            for ((_, child), (_, from_parent)) in down.iter().zip(&results_over) {
                from_parent.signal(block_of(*child)).relaxed();
            }
            for ((parent, _), (to_child, _)) in down.iter().zip(&results_over) {
                to_child.wait(block_of(*parent)).relaxed().sync(BlockSync::After);
            }
        }
        p.pipeline(unit, span, || {
            // What a rank has summed up so far, and whether that is more than its input.
            let mut sums: Vec<_> = p.ranks().map(|rank| (rank.input().chunk(first..last).to_any(), false)).collect();
            for ((child, parent), (to_parent, from_child, slot)) in up.iter().zip(&sums_over) {
                to_parent.put(*slot, sums[*child].0, tree);
                to_parent.signal(tree).sync(BlockSync::Before);
                from_child.wait(tree).sync(BlockSync::After);
                let (sum, is_partial) = sums[*parent];
                if is_partial {
                    p.rank(*parent).reduce(sum, *slot, tree);
                } else if parent == root {
                    p.rank(*parent).reduce(sum, *slot, tree).to(result(*root));
                    sums[*parent] = (result(*root), true);
                } else {
                    p.rank(*parent).reduce(*slot, sum, tree);
                    sums[*parent] = (slot.to_any(), true);
                }
            }
            for ((parent, child), (to_child, from_parent)) in down.iter().zip(&results_over) {
                if !gets {
                    to_child.put(result(*child), result(*parent), block_of(*parent));
                }
                to_child.signal(block_of(*parent)).sync(BlockSync::Before);
                from_parent.wait(block_of(*child)).sync(BlockSync::After);
                if gets {
                    from_parent.get(result(*child), result(*parent), block_of(*child));
                }
            }
        });
        if gets {
            // What is read may be overwritten.
            for ((_, child), (_, from_parent)) in down.iter().zip(&results_over) {
                from_parent.signal(block_of(*child)).relaxed().sync(BlockSync::Before);
            }
            for ((parent, _), (to_child, _)) in down.iter().zip(&results_over) {
                to_child.wait(block_of(*parent)).relaxed();
            }
        }
    }
}
