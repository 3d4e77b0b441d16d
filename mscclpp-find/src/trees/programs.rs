//! The programs of packed trees.
//!
//! The text between `// begin` and `// end` is also the body of the functions that are written to files, after the lists of trees.

use mscclpp_core::dsl::Program;
use mscclpp_core::types::BlockSync;

/// The root of a tree, and its links.
pub(super) type Links = (usize, Vec<(usize, usize)>);
/// The root of two trees, the links over which partial sums travel to it, and those over which results travel from it.
pub(super) type BothLinks = (usize, Vec<(usize, usize)>, Vec<(usize, usize)>);

/// The chunks of every root travel over its trees, window by window: parents put them, or children get them, each in a thread block of
/// its own.
pub(super) fn all_gather(p: &Program, unit: u64, gets: bool, trees: &[Links]) {
    // begin all_gather
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
    // end all_gather
}

/// Partial sums travel over the trees to every root, window by window.
pub(super) fn reduce_scatter(p: &Program, unit: u64, trees: &[Links]) {
    // begin reduce_scatter
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
    // end reduce_scatter
}

/// Partial sums travel over the trees to every root, and results from there over other trees, window by window: children put sums, and
/// parents put results, or children get them.
pub(super) fn all_reduce(p: &Program, unit: u64, gets: bool, span: usize, trees: &[BothLinks]) {
    // begin all_reduce
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
    // end all_reduce
}

/// The message of the root travels over its trees, window by window. Links between nodes are ports.
pub(super) fn broadcast(p: &Program, unit: u64, span: usize, trees: &[Links]) {
    // begin broadcast
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
    // end broadcast
}

/// Partial sums of the message travel over the trees to the root, window by window. Links between nodes are ports.
pub(super) fn reduce(p: &Program, unit: u64, span: usize, trees: &[Links]) {
    // begin reduce
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
    // end reduce
}

/// Returns the lines of a program's body.
pub(super) fn body(name: &str) -> String {
    let text = include_str!("programs.rs");
    let (begin, end) = (format!("// begin {name}\n"), format!("    // end {name}\n"));
    let after = text.split_once(&begin).map_or("", |(_, after)| after);
    after.split_once(&end).map_or("", |(body, _)| body).to_owned()
}
