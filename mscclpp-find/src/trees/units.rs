//! Links as whole numbers of trees.
//!
//! A tree that carries one part of the message needs some bandwidth on each of its links. For a bandwidth per tree, a link has room for
//! a whole number of trees, and a maximum flow per rank decides whether that is enough. The largest such bandwidth is one that divides a
//! link evenly.

use mscclpp_predict::Topology;

use super::flow::Graph;

/// Maximum number of trees of each root that are tried.
const MAX_TREES: u32 = 8;
/// Part of the best bandwidth that fewer trees may lose.
const LOSS: f64 = 0.03;

/// A machine with links as numbers of trees.
#[derive(Clone, Debug)]
pub(super) struct Units {
    pub(super) graph: Graph,
    /// Number of trees of every root.
    pub(super) trees_per_root: u32,
    /// Bandwidth of all trees together, in 10⁹ bytes per second.
    gb_per_s: f64,
}

impl Units {
    /// Finds the fewest or the most trees per root with nearly the largest bandwidth; `None` if some rank cannot be reached from some root.
    pub(super) fn of(topology: &Topology, roots: &[usize], reversed: bool, most: bool) -> Option<Self> {
        let mut all: Vec<Self> =
            (1..=MAX_TREES).filter_map(|trees| Self::with_trees(topology, roots, reversed, trees)).collect();
        let best = all.iter().map(|units| units.gb_per_s).fold(0.0, f64::max);
        if most {
            all.reverse();
        }
        all.into_iter().find(|units| units.gb_per_s >= best * (1.0 - LOSS))
    }

    fn with_trees(topology: &Topology, roots: &[usize], reversed: bool, trees_per_root: u32) -> Option<Self> {
        let mut starts = vec![0; topology.num_ranks];
        roots.iter().for_each(|root| starts[*root] = trees_per_root);
        let total = trees_per_root * roots.len() as u32;
        let mut rates: Vec<f64> = topology.edges.iter().map(|edge| edge.gb_per_s).collect();
        rates.sort_by(f64::total_cmp);
        rates.dedup();
        let mut per_tree: Vec<f64> =
            rates.iter().flat_map(|rate| (1..=total).map(move |trees| rate / f64::from(trees))).collect();
        per_tree.sort_by(|a, b| b.total_cmp(a));
        per_tree.dedup();
        let graph_of = |gb_per_s: f64| graph(topology, reversed, gb_per_s, total);
        let too_fast = per_tree.partition_point(|gb_per_s| !graph_of(*gb_per_s).all_reach_all(&starts));
        let gb_per_s = *per_tree.get(too_fast)?;
        Some(Self { graph: graph_of(gb_per_s), trees_per_root, gb_per_s: gb_per_s * f64::from(total) })
    }
}

/// Returns the links as numbers of trees of a bandwidth, at most those that a link can need.
fn graph(topology: &Topology, reversed: bool, gb_per_s: f64, max: u32) -> Graph {
    let mut graph = Graph::new(topology.num_ranks, topology.names.len());
    for edge in &topology.edges {
        // A link whose bandwidth was divided by the number is one that has room for it.
        let room = ((edge.gb_per_s / gb_per_s) * (1.0 + 1e-9)).floor().min(f64::from(max)) as u32;
        let (from, to) = if reversed { (edge.to, edge.from) } else { (edge.from, edge.to) };
        let more = room.min(max - graph.get(from, to).min(max));
        graph.add(from, to, more);
    }
    graph
}
