//! Plans for long messages: spanning trees that share the links of a machine.
//!
//! Every root has the same number of trees, each of which carries one part of the message: results from the root in an all-gather, partial
//! sums to it in a reduce-scatter, and both in an all-reduce; broadcast and reduce have one root. The trees together use the bandwidth that the narrowest cut allows, except for what is
//! lost by whole numbers of trees.

mod flow;
mod pack;
mod programs;
mod split;
mod units;

use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::dsl::Program;
use mscclpp_core::spec::AlgoSpec;
use mscclpp_predict::{Machine, Topology};

use self::pack::{Tree, pack};
use self::programs::{BothLinks, Links};
use self::split::without_switches;
use self::units::Units;
use crate::source::function;

/// Maximum number of ranks for which trees are packed.
const MAX_TREE_RANKS: u32 = 64;

/// Maximum number of elements of a machine for which trees are packed: they take memory that grows with its square.
const MAX_ELEMENTS: usize = 512;

/// How data moves over trees.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Windows {
    /// Bytes of a window.
    pub(crate) unit: u64,
    /// Whether children get results, instead of parents putting them.
    pub(crate) gets: bool,
}

/// Trees of a machine for a collective.
#[derive(Clone, Debug)]
pub(crate) struct TreePlan {
    kind: CollectiveKind,
    num_ranks: u32,
    ranks_per_node: u32,
    /// Chunks of each tree, and the chunk factor that gives this number.
    span: usize,
    chunk_factor: u32,
    /// From children to parents, those that are farthest from the root first; empty where no sums travel.
    up: Vec<Links>,
    /// From parents to children; empty where no results travel.
    down: Vec<Links>,
}

impl TreePlan {
    /// Packs trees for a collective; several if it is not certain which roots are best. None for other collectives, between nodes unless all
    /// trees have one root, where ranks cannot reach each other, and for more than 512 ranks, switches and hosts.
    pub(crate) fn all(kind: CollectiveKind, machine: &Machine, num_ranks: u32) -> Vec<Self> {
        let max_ranks = match kind {
            CollectiveKind::Broadcast | CollectiveKind::Reduce => MAX_TREE_RANKS,
            CollectiveKind::AllGather | CollectiveKind::ReduceScatter | CollectiveKind::AllReduce => {
                machine.ranks_per_node.min(MAX_TREE_RANKS)
            }
            _ => 0,
        };
        if machine.one_device || num_ranks > max_ranks {
            return Vec::new();
        }
        let topology = Topology::of(machine, num_ranks);
        if topology.names.len() > MAX_ELEMENTS {
            return Vec::new();
        }
        if let CollectiveKind::Broadcast | CollectiveKind::Reduce = kind {
            let root = AlgoSpec::new("", kind, num_ranks).collective.root as usize;
            // Few trees have long paths, many have many thread blocks.
            let few = Self::with_roots(kind, machine, &topology, &[root], false);
            let many = Self::with_roots(kind, machine, &topology, &[root], true);
            let is_new = |many: &Self| few.as_ref().is_none_or(|few| few.num_blocks() != many.num_blocks());
            let many = many.filter(is_new);
            return few.into_iter().chain(many).collect();
        }
        let every: Vec<usize> = (0..topology.num_ranks).collect();
        let mut choices = vec![every.clone()];
        // What a root of an all-reduce sends more than others must pass its own links.
        let fast = fastest(&topology);
        if kind == CollectiveKind::AllReduce && fast.len() < every.len() {
            choices.push(fast);
        }
        choices.iter().filter_map(|roots| Self::with_roots(kind, machine, &topology, roots, false)).collect()
    }

    fn with_roots(
        kind: CollectiveKind,
        machine: &Machine,
        topology: &Topology,
        roots: &[usize],
        most: bool,
    ) -> Option<Self> {
        let packed = |reversed: bool| -> Option<(Vec<Tree>, u32)> {
            let units = Units::of(topology, roots, reversed, most)?;
            let mut starts = vec![0; topology.num_ranks];
            roots.iter().for_each(|root| starts[*root] = units.trees_per_root);
            let trees = pack(without_switches(units.graph, &starts)?, &starts)?;
            Some((trees, units.trees_per_root))
        };
        let has_results = !matches!(kind, CollectiveKind::ReduceScatter | CollectiveKind::Reduce);
        let has_sums = !matches!(kind, CollectiveKind::AllGather | CollectiveKind::Broadcast);
        let down = if has_results { Some(packed(false)?) } else { None };
        let up = if has_sums { Some(packed(true)?) } else { None };
        let per_root = match (&down, &up) {
            (Some((_, down)), Some((_, up))) if down != up => return None,
            (Some((_, trees)), _) | (None, Some((_, trees))) => *trees,
            (None, None) => return None,
        };
        let num_trees = roots.len() * per_root as usize;
        let common = greatest_common_divisor(topology.num_ranks, num_trees);
        let (span, chunk_factor) = match kind {
            CollectiveKind::AllGather | CollectiveKind::ReduceScatter => (1, per_root),
            _ => (topology.num_ranks / common, (num_trees / common) as u32),
        };
        let links = |packed: Option<(Vec<Tree>, u32)>, reversed: bool| -> Vec<Links> {
            let trees = packed.map(|(trees, _)| trees).unwrap_or_default();
            trees.into_iter().map(|tree| (tree.root, directed(tree.links, reversed))).collect()
        };
        let num_ranks = topology.num_ranks as u32;
        let (up, down) = (links(up, true), links(down, false));
        let ranks_per_node = machine.ranks_per_node.min(num_ranks);
        Some(Self { kind, num_ranks, ranks_per_node, span, chunk_factor, up, down })
    }

    /// Returns the number of thread blocks of a rank in one instance.
    pub(crate) fn num_blocks(&self) -> u32 {
        (self.up.len() + self.down.len()) as u32
    }

    /// Returns the specification of the program.
    pub(crate) fn spec(&self, name: &str, instances: u32) -> AlgoSpec {
        let mut spec = AlgoSpec::new(name, self.kind, self.num_ranks);
        spec.ranks_per_node = self.ranks_per_node;
        spec.instances = instances;
        spec.collective.chunk_factor = self.chunk_factor;
        spec
    }

    /// Records the program.
    pub(crate) fn record(&self, p: &Program, Windows { unit, gets }: Windows) {
        match self.kind {
            CollectiveKind::AllGather => programs::all_gather(p, unit, gets, &self.down),
            CollectiveKind::ReduceScatter => programs::reduce_scatter(p, unit, &self.up),
            CollectiveKind::Broadcast => programs::broadcast(p, unit, self.span, &self.down),
            CollectiveKind::Reduce => programs::reduce(p, unit, self.span, &self.up),
            _ => programs::all_reduce(p, unit, gets, self.span, &self.both()),
        }
    }

    fn both(&self) -> Vec<BothLinks> {
        let both = self.up.iter().zip(&self.down);
        both.map(|((root, up), (_, down))| (*root, up.clone(), down.clone())).collect()
    }

    /// Returns whether children can get results: ports only put.
    pub(crate) fn can_get(&self) -> bool {
        !self.down.is_empty() && self.kind != CollectiveKind::Broadcast
    }

    /// Returns whether input and output may be one buffer.
    pub(crate) fn works_in_place(&self) -> bool {
        !matches!(self.kind, CollectiveKind::AllGather | CollectiveKind::ReduceScatter)
    }

    /// Returns a function in Rust that compiles to the plan. `about` are lines that say what it is.
    pub(crate) fn source(&self, spec: &AlgoSpec, windows: Windows, about: &[String]) -> String {
        let (program, what) = match self.kind {
            CollectiveKind::AllGather => ("all_gather", "the links over which its chunk travels"),
            CollectiveKind::ReduceScatter => ("reduce_scatter", "the links over which partial sums travel to it"),
            CollectiveKind::Broadcast => ("broadcast", "the links over which its part of the message travels"),
            CollectiveKind::Reduce => ("reduce", "the links over which partial sums travel to the root"),
            _ => {
                ("all_reduce", "the links over which partial sums travel to it, and those over which results leave it")
            }
        };
        let mut body = format!("    let unit = {};\n", windows.unit);
        if self.can_get() {
            body += &format!(
                "    // Whether children get results, instead of parents putting them.\n    let gets = {};\n",
                windows.gets
            );
        }
        let row = |lists: Vec<String>| format!("        ({}),\n", lists.join(", "));
        let list = |links: &[(usize, usize)]| {
            let links: Vec<_> = links.iter().map(|(from, to)| format!("({from}, {to})")).collect();
            format!("vec![{}]", links.join(", "))
        };
        body += &format!("    // Per tree its root, and {what}.\n");
        if self.works_in_place() {
            body = format!("    let span = {};\n", self.span) + &body;
        }
        if self.kind == CollectiveKind::AllReduce {
            body = "    type Links = Vec<(usize, usize)>;\n\n".to_owned() + &body;
            body += "    let trees: Vec<(usize, Links, Links)> = vec![\n";
            for (root, up, down) in self.both() {
                body += &row(vec![root.to_string(), list(&up), list(&down)]);
            }
        } else {
            body += "    let trees: Vec<(usize, Vec<(usize, usize)>)> = vec![\n";
            for (root, links) in self.up.iter().chain(&self.down) {
                body += &row(vec![root.to_string(), list(links)]);
            }
        }
        body += "    ];\n";
        body += &programs::body(program);
        function(spec, about, &body)
    }
}

/// Returns links in the order and direction in which data passes them.
fn directed(mut links: Vec<(usize, usize)>, reversed: bool) -> Vec<(usize, usize)> {
    if reversed {
        links.reverse();
        links.iter_mut().for_each(|link| *link = (link.1, link.0));
    }
    links
}

/// Returns the ranks with the most bandwidth.
fn fastest(topology: &Topology) -> Vec<usize> {
    let mut egress = vec![0.0; topology.num_ranks];
    for edge in topology.edges.iter().filter(|edge| edge.from < topology.num_ranks) {
        egress[edge.from] += edge.gb_per_s;
    }
    let most = egress.iter().copied().fold(0.0, f64::max);
    (0..topology.num_ranks).filter(|rank| egress[*rank] >= most * (1.0 - 1e-9)).collect()
}

fn greatest_common_divisor(a: usize, b: usize) -> usize {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    x.max(1)
}

#[cfg(test)]
mod tests;
