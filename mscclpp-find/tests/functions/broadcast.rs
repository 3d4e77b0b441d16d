//! Found for nodes.

use mscclpp::collective;
use mscclpp::dsl::{BlockSync, Program};

/// Trees that were packed for the machine.
#[collective(Broadcast, ranks = 4, ranks_per_node = 2)]
pub fn broadcast_trees(p: &Program) {
    let span = 2;
    let unit = 262144;
    // Per tree its root, and the links over which its part of the message travels.
    let trees: Vec<(usize, Vec<(usize, usize)>)> = vec![
        (0, vec![(0, 1), (0, 3), (3, 2)]),
        (0, vec![(0, 1), (1, 2), (2, 3)]),
    ];
    for (tree, (root, links)) in trees.iter().enumerate() {
        let (first, last) = (tree * span, (tree + 1) * span);
        let message = p.rank(*root).input().chunk(first..last).to_any();
        let result = |rank: usize| {
            if p.in_place() {
                p.rank(rank).input().chunk(first..last).to_any()
            } else {
                p.rank(rank).output().chunk(first..last).to_any()
            }
        };
        // Per link, its two ends within a node, or those between nodes.
        let mut channels = Vec::new();
        for (parent, child) in links {
            let (from, to) = (p.rank(*parent), p.rank(*child));
            let mut near = Vec::new();
            let mut far = Vec::new();
            if from.node() == to.node() {
                near.push((from.memory_channel(to), to.memory_channel(from)));
            } else {
                far.push((from.port_channel(to), to.port_channel(from)));
            }
            channels.push((near, far));
        }
        // The outputs may be written.
        for (near, far) in &channels {
            for (_, from_parent) in near {
                from_parent.signal(tree).relaxed();
            }
            for (_, from_parent) in far {
                from_parent.signal(tree).sync(BlockSync::None);
            }
        }
        for (near, far) in &channels {
            for (to_child, _) in near {
                to_child.wait(tree).relaxed().sync(BlockSync::After);
            }
            for (to_child, _) in far {
                to_child.wait(tree).sync(BlockSync::After);
            }
        }
        p.pipeline(unit, span, || {
            for ((parent, child), (near, far)) in links.iter().zip(&channels) {
                let source = if parent == root { message } else { result(*parent) };
                for (to_child, from_parent) in near {
                    to_child.put(result(*child), source, tree);
                    to_child.signal(tree).sync(BlockSync::Before);
                    from_parent.wait(tree).sync(BlockSync::After);
                }
                for (to_child, from_parent) in far {
                    to_child.put_with_signal(result(*child), source, tree);
                    from_parent.wait(tree).sync(BlockSync::After);
                }
            }
            if !p.in_place() {
                p.rank(*root).copy(result(*root), message, tree);
            }
        });
        // The source may be overwritten only after it has been read.
        for (_, far) in &channels {
            for (to_child, _) in far {
                to_child.flush(tree);
            }
        }
    }
}
