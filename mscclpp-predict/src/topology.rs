//! The graph of a machine: ranks, switches and hosts, and directed links between them.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};

use crate::machine::{LinkEnd, Machine};

/// A directed link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Edge {
    /// The element where it begins.
    pub from: usize,
    /// The element where it ends.
    pub to: usize,
    /// In 10⁹ bytes per second.
    pub gb_per_s: f64,
}

/// The elements of a machine that some of its ranks use. Ranks are the first elements.
#[derive(Clone, Debug)]
pub struct Topology {
    /// Number of ranks.
    pub num_ranks: usize,
    /// Per element, its name.
    pub names: Vec<String>,
    /// The links.
    pub edges: Vec<Edge>,
    /// Per element, the node of the machine; `None` for what nodes share.
    pub node_of: Vec<Option<u32>>,
    /// Per rank, a number that is equal for ranks of a node that the links of the machine do not distinguish.
    pub(crate) kind_of: Vec<u32>,
    outgoing: Vec<Vec<usize>>,
    incoming: Vec<Vec<usize>>,
}

impl Topology {
    /// Returns the elements that the first ranks of a machine use.
    pub fn of(machine: &Machine, num_ranks: u32) -> Self {
        let per_node = machine.ranks_per_node;
        let mut topology = Self {
            num_ranks: num_ranks as usize,
            names: (0..num_ranks).map(|rank| format!("gpu{rank}")).collect(),
            edges: Vec::new(),
            node_of: (0..num_ranks).map(|rank| Some(rank / per_node)).collect(),
            kind_of: Vec::new(),
            outgoing: Vec::new(),
            incoming: Vec::new(),
        };
        let kinds = kinds(machine);
        topology.kind_of = (0..num_ranks).map(|rank| kinds[(rank % per_node) as usize]).collect();
        let mut known = BTreeMap::new();
        for node in 0..num_ranks.div_ceil(per_node) {
            for link in &machine.links {
                let from = topology.elements(machine, &mut known, node, &link.from, false);
                let to = topology.elements(machine, &mut known, node, &link.to, link.shared);
                for &from in &from {
                    for &to in to.iter().filter(|to| **to != from) {
                        topology.edges.push(Edge { from, to, gb_per_s: link.gb_per_s });
                        if !link.one_way {
                            topology.edges.push(Edge { from: to, to: from, gb_per_s: link.gb_per_s });
                        }
                    }
                }
            }
        }
        topology.outgoing = vec![Vec::new(); topology.names.len()];
        topology.incoming = topology.outgoing.clone();
        for (number, edge) in topology.edges.iter().enumerate() {
            topology.outgoing[edge.from].push(number);
            topology.incoming[edge.to].push(number);
        }
        topology
    }

    /// Returns the elements that the end of a link is in a node, and adds a switch or host that is new.
    fn elements<'m>(
        &mut self,
        machine: &'m Machine,
        known: &mut BTreeMap<(Option<u32>, &'m str), usize>,
        node: u32,
        end: &'m LinkEnd,
        shared: bool,
    ) -> Vec<usize> {
        let per_node = machine.ranks_per_node;
        if let LinkEnd::Element(name) = end {
            let of = (!shared).then_some(node);
            let next = self.names.len();
            let number = *known.entry((of, name)).or_insert(next);
            if number == next {
                self.names.push(match of {
                    Some(node) if machine.ranks > per_node => format!("{name} of node {node}"),
                    _ => name.clone(),
                });
                self.node_of.push(of);
            }
            return vec![number];
        }
        let ranks = end.gpus(per_node).into_iter().flatten().map(|gpu| (node * per_node + gpu) as usize);
        ranks.filter(|rank| *rank < self.num_ranks).collect()
    }

    /// Returns the numbers of the edges that begin at an element.
    pub(crate) fn outgoing(&self, element: usize) -> &[usize] {
        &self.outgoing[element]
    }

    /// Returns the numbers of the edges that end at an element.
    pub(crate) fn incoming(&self, element: usize) -> &[usize] {
        &self.incoming[element]
    }

    /// Returns the edges of the paths on which a byte takes the least time, from an element to every rank; ties are broken
    /// by the order of links. `None` for ranks that it does not reach.
    pub fn routes(&self, from: usize) -> Vec<Option<Vec<usize>>> {
        let mut by: Vec<Option<usize>> = vec![None; self.names.len()];
        let mut cost = vec![f64::INFINITY; self.names.len()];
        let mut done = vec![false; self.names.len()];
        cost[from] = 0.0;
        let mut open = BinaryHeap::from([Nearest { cost: 0.0, element: from }]);
        while let Some(Nearest { element: at, .. }) = open.pop() {
            // A GPU does not forward data of others.
            if std::mem::replace(&mut done[at], true) || (at < self.num_ranks && at != from) {
                continue;
            }
            for &edge in &self.outgoing[at] {
                let Edge { to, gb_per_s, .. } = self.edges[edge];
                let through = cost[at] + 1.0 / gb_per_s;
                if through < cost[to] {
                    (cost[to], by[to]) = (through, Some(edge));
                    open.push(Nearest { cost: through, element: to });
                }
            }
        }
        (0..self.num_ranks)
            .map(|to| {
                let mut path = Vec::new();
                let mut at = to;
                while at != from {
                    let edge = by[at]?;
                    path.push(edge);
                    at = self.edges[edge].from;
                }
                path.reverse();
                Some(path)
            })
            .collect()
    }
}

/// Returns per GPU of a node a number that is equal for GPUs that are ends of the same links: exchanging two of them changes nothing.
fn kinds(machine: &Machine) -> Vec<u32> {
    let mut kinds = vec![0; machine.ranks_per_node as usize];
    let mut known = BTreeMap::new();
    for end in machine.links.iter().flat_map(|link| [&link.from, &link.to]) {
        let Some(gpus) = end.gpus(machine.ranks_per_node) else { continue };
        known.clear();
        for (gpu, kind) in (0..).zip(&mut kinds) {
            let next = known.len() as u32;
            *kind = *known.entry((*kind, gpus.contains(&gpu))).or_insert(next);
        }
    }
    kinds
}

/// An element that a path has reached: the nearest first, then the lowest.
#[derive(PartialEq)]
struct Nearest {
    cost: f64,
    element: usize,
}

impl Eq for Nearest {}

impl Ord for Nearest {
    fn cmp(&self, other: &Self) -> Ordering {
        other.cost.total_cmp(&self.cost).then(other.element.cmp(&self.element))
    }
}

impl PartialOrd for Nearest {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
