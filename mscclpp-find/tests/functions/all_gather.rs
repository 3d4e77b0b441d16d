//! Found for dead.

use mscclpp::collective;
use mscclpp::dsl::{BlockSync, Program};

/// Trees that were packed for the machine.
#[collective(AllGather, ranks = 4)]
pub fn allgather_trees(p: &Program) {
    let unit = 1048576;
    // Whether children get results, instead of parents putting them.
    let gets = false;
    // Per tree its root, and the links over which its chunk travels.
    let trees: Vec<(usize, Vec<(usize, usize)>)> = vec![
        (0, vec![(0, 1), (1, 2), (2, 3)]),
        (1, vec![(1, 0), (1, 2), (2, 3)]),
        (2, vec![(2, 1), (2, 3), (1, 0)]),
        (3, vec![(3, 2), (2, 1), (1, 0)]),
    ];
    for (tree, (root, links)) in trees.iter().enumerate() {
        let own = p.rank(*root).input().chunk(tree % p.chunk_factor());
        let mut channels = Vec::new();
        for (parent, child) in links {
            channels.push((p.rank(*parent).memory_channel(*child), p.rank(*child).memory_channel(*parent)));
        }
        if !gets {
            // The outputs may be written.
            for (_, from_parent) in &channels {
                from_parent.signal(tree).relaxed();
            }
            for (to_child, _) in &channels {
                to_child.wait(tree).relaxed().sync(BlockSync::After);
            }
        }
        p.pipeline(unit, 1, || {
            p.rank(*root).copy(p.rank(*root).output().chunk(tree), own, tree);
            for ((parent, child), (to_child, from_parent)) in links.iter().zip(&channels) {
                let source = if parent == root { own.to_any() } else { p.rank(*parent).output().chunk(tree).to_any() };
                let result = p.rank(*child).output().chunk(tree);
                if !gets {
                    to_child.put(result, source, tree);
                }
                to_child.signal(tree).sync(BlockSync::Before);
                from_parent.wait(tree).sync(BlockSync::After);
                if gets {
                    from_parent.get(result, source, tree);
                }
            }
        });
        if gets {
            // What is read may be overwritten.
            for (_, from_parent) in &channels {
                from_parent.signal(tree).relaxed().sync(BlockSync::Before);
            }
            for (to_child, _) in &channels {
                to_child.wait(tree).relaxed();
            }
        }
    }
}
