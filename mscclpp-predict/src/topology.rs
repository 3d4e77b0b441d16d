//! The graph of a machine: ranks, switches and hosts, and directed links between them.

use std::collections::BTreeMap;

use crate::machine::{Machine, gpus};

/// A directed link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// In 10⁹ bytes per second.
    pub(crate) gb_per_s: f64,
}

/// The elements of a machine that some of its ranks use. Ranks are the first elements.
#[derive(Clone, Debug)]
pub(crate) struct Topology {
    pub(crate) ranks: usize,
    pub(crate) names: Vec<String>,
    pub(crate) edges: Vec<Edge>,
    /// Per element, the node of the machine; `None` for what nodes share.
    pub(crate) node_of: Vec<Option<u32>>,
    outgoing: Vec<Vec<usize>>,
}

impl Topology {
    /// Returns the elements that the first ranks of a machine use.
    pub(crate) fn of(machine: &Machine, ranks: u32) -> Self {
        let per_node = machine.ranks_per_node;
        let mut topology = Self {
            ranks: ranks as usize,
            names: (0..ranks).map(|rank| format!("gpu{rank}")).collect(),
            edges: Vec::new(),
            node_of: (0..ranks).map(|rank| Some(rank / per_node)).collect(),
            outgoing: Vec::new(),
        };
        let mut known: BTreeMap<(Option<u32>, String), usize> = BTreeMap::new();
        for node in 0..ranks.div_ceil(per_node) {
            for link in &machine.links {
                let ends = |topology: &mut Self, known: &mut BTreeMap<_, usize>, name: &str, shared: bool| match gpus(
                    name, per_node,
                ) {
                    Ok(Some(local)) => local
                        .map(|gpu| node * per_node + gpu)
                        .filter(|rank| *rank < ranks)
                        .map(|rank| rank as usize)
                        .collect(),
                    _ => {
                        let of = (!shared).then_some(node);
                        let next = topology.names.len();
                        let number = *known.entry((of, name.to_owned())).or_insert(next);
                        if number == next {
                            let nodes = machine.ranks / per_node;
                            topology.names.push(match of {
                                Some(node) if nodes > 1 => format!("{name} of node {node}"),
                                _ => name.to_owned(),
                            });
                            topology.node_of.push(of);
                        }
                        vec![number]
                    }
                };
                let from: Vec<usize> = ends(&mut topology, &mut known, &link.from, false);
                let to: Vec<usize> = ends(&mut topology, &mut known, &link.to, link.shared);
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
        for (number, edge) in topology.edges.iter().enumerate() {
            topology.outgoing[edge.from].push(number);
        }
        topology
    }

    /// Returns the edges of the paths on which a byte takes the least time, from an element to every other one; ties are broken
    /// by the order of links. `None` for elements that it does not reach.
    pub(crate) fn routes(&self, from: usize) -> Vec<Option<Vec<usize>>> {
        let mut by: Vec<Option<usize>> = vec![None; self.names.len()];
        let mut cost = vec![f64::INFINITY; self.names.len()];
        let mut done = vec![false; self.names.len()];
        cost[from] = 0.0;
        let nearest = |cost: &[f64], done: &[bool]| {
            let open = (0..cost.len()).filter(|at| !done[*at] && cost[*at].is_finite());
            open.min_by(|a, b| cost[*a].total_cmp(&cost[*b]))
        };
        while let Some(at) = nearest(&cost, &done) {
            done[at] = true;
            // A GPU does not forward data of others.
            if at < self.ranks && at != from {
                continue;
            }
            for &edge in &self.outgoing[at] {
                let Edge { to, gb_per_s, .. } = self.edges[edge];
                let through = cost[at] + 1.0 / gb_per_s;
                if through < cost[to] {
                    (cost[to], by[to]) = (through, Some(edge));
                }
            }
        }
        (0..self.names.len())
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
