//! Packing of spanning trees.
//!
//! Trees from all roots use every link at most as often as it has room for trees. They exist if all units can reach every rank (Edmonds 1973),
//! and are built one after the other: a link is added to a tree if afterwards the units of all later trees can still reach the rank
//! at its end, which is the only one that the link matters for.

use super::flow::Graph;

/// A spanning tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tree {
    pub(super) root: usize,
    /// Links from parents to children, those that are nearest to the root first.
    pub(super) links: Vec<(usize, usize)>,
}

/// Packs the given number of trees of every rank; `None` if they do not exist.
pub(super) fn pack(mut graph: Graph, starts: &[u32]) -> Option<Vec<Tree>> {
    let mut later = starts.to_vec();
    let mut trees = Vec::new();
    while later.iter().any(|trees| *trees > 0) {
        for root in (0..graph.num_ranks).filter(|root| starts[*root] > 0) {
            if later[root] == 0 {
                continue;
            }
            later[root] -= 1;
            trees.push(Tree { root, links: spanning(&mut graph, root, &later)? });
        }
    }
    // Those of a root follow each other.
    trees.sort_by_key(|tree| tree.root);
    Some(trees)
}

/// Takes the links of a spanning tree, which is as flat as the links allow.
fn spanning(graph: &mut Graph, root: usize, later: &[u32]) -> Option<Vec<(usize, usize)>> {
    let mut reached = vec![root];
    let mut links = Vec::new();
    while reached.len() < graph.num_ranks {
        let mut all = reached.iter().flat_map(|&from| graph.successors(from).into_iter().map(move |to| (from, to)));
        let next = all.find(|&(from, to)| {
            let mut rest = graph.clone();
            rest.take(from, to, 1);
            !reached.contains(&to) && rest.all_reach(later, to)
        });
        let (from, to) = next?;
        graph.take(from, to, 1);
        reached.push(to);
        links.push((from, to));
    }
    Some(links)
}
