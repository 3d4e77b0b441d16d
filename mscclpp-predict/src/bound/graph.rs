//! Cuts and partitions of a machine's links.

use super::{Certificate, Direction};
use crate::flow::Network;
use crate::topology::{Edge, Topology};

/// Elements and capacities of a topology, or of the one with all links reversed.
pub(super) struct Graph<'t> {
    topology: &'t Topology,
    edges: Vec<Edge>,
    direction: Direction,
}

/// A set of elements, or a partition into classes: per element the number of its class. Of a set, class 0 is inside.
pub(super) type Classes = Vec<u32>;

/// Classes, the bandwidth of the links that leave them, and the messages that must.
#[derive(Clone)]
pub(super) struct Cut {
    classes: Classes,
    /// How many of the classes are meant, from 0.
    num_classes: u32,
    gb_per_s: f64,
    messages: f64,
}

impl Cut {
    /// Returns messages per bandwidth.
    pub(super) fn quotient(&self) -> f64 {
        self.messages / self.gb_per_s
    }

    /// Returns the cut that requires more time; the one with less bandwidth if both require the same.
    pub(super) fn tighter(self, other: Self) -> Self {
        let order = self.quotient().total_cmp(&other.quotient()).then(other.gb_per_s.total_cmp(&self.gb_per_s));
        if order.is_lt() { other } else { self }
    }
}

impl<'t> Graph<'t> {
    pub(super) fn of(topology: &'t Topology) -> Self {
        Self { topology, edges: topology.edges.clone(), direction: Direction::Leave }
    }

    pub(super) fn reversed(&self) -> Self {
        let edges = self.edges.iter().map(|edge| Edge { from: edge.to, to: edge.from, ..*edge }).collect();
        Self { topology: self.topology, edges, direction: Direction::Enter }
    }

    fn num_elements(&self) -> usize {
        self.topology.names.len()
    }

    fn network(&self, more: usize) -> Network {
        let mut network = Network::new(self.num_elements() + more);
        self.edges.iter().for_each(|edge| network.add(edge.from, edge.to, edge.gb_per_s));
        network
    }

    /// Returns whether a rank reaches every other one.
    pub(super) fn reaches_all(&self, from: usize) -> bool {
        let mut next = vec![Vec::new(); self.num_elements()];
        self.edges.iter().for_each(|edge| next[edge.from].push(edge.to));
        let mut reached = vec![false; self.num_elements()];
        let mut open = vec![from];
        while let Some(at) = open.pop() {
            if !std::mem::replace(&mut reached[at], true) {
                open.extend(&next[at]);
            }
        }
        reached[..self.topology.num_ranks].iter().all(|reached| *reached)
    }

    /// Returns per class the bandwidth of the links that leave it.
    fn egress(&self, classes: &[u32]) -> Vec<f64> {
        let mut egress = vec![0.0; classes.iter().max().map_or(0, |last| *last as usize + 1)];
        for edge in self.edges.iter().filter(|edge| classes[edge.from] != classes[edge.to]) {
            egress[classes[edge.from] as usize] += edge.gb_per_s;
        }
        egress
    }

    /// Returns per class its number of ranks.
    fn ranks(&self, classes: &[u32]) -> Vec<u32> {
        let mut ranks = vec![0; classes.iter().max().map_or(0, |last| *last as usize + 1)];
        classes[..self.topology.num_ranks].iter().for_each(|class| ranks[*class as usize] += 1);
        ranks
    }

    /// Returns a certificate with the names of a cut's elements.
    pub(super) fn certificate(&self, cut: &Cut) -> Certificate {
        let mut sets = vec![Vec::new(); cut.num_classes as usize];
        for (class, name) in cut.classes.iter().zip(&self.topology.names) {
            if let Some(set) = sets.get_mut(*class as usize) {
                set.push(name.clone());
            }
        }
        Certificate { sets, direction: self.direction, gb_per_s: cut.gb_per_s, messages: cut.messages }
    }

    /// Returns ranks of which one is like every other rank than the given one: full nodes do the same, and so do the ranks of a
    /// kind in a node.
    pub(super) fn representatives(&self, but: Option<usize>) -> Vec<usize> {
        let topology = self.topology;
        let mut known = std::collections::BTreeSet::new();
        let last = topology.node_of[topology.num_ranks - 1];
        let own = but.map(|rank| topology.node_of[rank]);
        let new = |rank: &usize| {
            let node = topology.node_of[*rank];
            known.insert((node == last, Some(node) == own, topology.kind_of[*rank]))
        };
        (0..topology.num_ranks).filter(|rank| Some(*rank) != but).filter(new).collect()
    }

    /// Returns the set with the largest quotient of its ranks and its egress, among sets without some rank.
    pub(super) fn gather(&self) -> Cut {
        let (ranks, elements) = (self.topology.num_ranks, self.num_elements());
        let source = elements;
        let sinks = self.representatives(None);
        // Every rank but one, and all else.
        let mut best: Classes = vec![0; elements];
        best[0] = 1;
        let mut gb_per_s = self.egress(&best)[0];
        let mut rate = gb_per_s / (ranks as f64 - 1.0);
        let mut inside = ranks as f64 - 1.0;
        loop {
            let mut improved = false;
            for &sink in &sinks {
                let mut network = self.network(1);
                (0..ranks).for_each(|rank| network.add(source, rank, rate));
                let (flow, set) = network.max_flow(source, sink);
                let classes: Classes = set[..elements].iter().map(|inside| u32::from(!inside)).collect();
                let count = f64::from(self.ranks(&classes)[0]);
                if flow < rate * ranks as f64 * (1.0 - 1e-7) && count > 0.0 {
                    let egress = self.egress(&classes)[0];
                    if egress / count < rate * (1.0 - 1e-9) {
                        (rate, best, gb_per_s, inside, improved) = (egress / count, classes, egress, count, true);
                    }
                }
            }
            if !improved {
                return Cut { classes: best, num_classes: 1, gb_per_s, messages: inside / ranks as f64 };
            }
        }
    }

    /// Returns the set with the least egress that has some rank, or a given one, and lacks another one: a whole message
    /// must leave it.
    pub(super) fn cut(&self, from: Option<usize>) -> Option<Cut> {
        let first = from.unwrap_or(0);
        let others = self.representatives(Some(first)).into_iter();
        let pairs = others
            .flat_map(|rank| [(first, rank), (rank, first)])
            .filter(|(one, _)| from.is_none_or(|from| from == *one));
        let best = pairs.map(|(from, to)| self.network(0).max_flow(from, to)).min_by(|a, b| a.0.total_cmp(&b.0))?;
        let classes: Classes = best.1.iter().map(|inside| u32::from(!inside)).collect();
        Some(Cut { num_classes: 1, gb_per_s: self.egress(&classes)[0], classes, messages: 1.0 })
    }

    /// Returns the partitions that slower and slower links connect, single ranks first. Elements that connect no rank are in classes
    /// after those of the ranks.
    fn partitions(&self) -> Vec<Classes> {
        let mut edges: Vec<&Edge> = self.edges.iter().collect();
        edges.sort_by(|a, b| b.gb_per_s.total_cmp(&a.gb_per_s));
        let elements = self.num_elements();
        let mut parent: Vec<usize> = (0..elements).collect();
        let mut partitions = vec![self.numbered(&mut parent)];
        let rates = edges.chunk_by(|a, b| a.gb_per_s == b.gb_per_s);
        for equal in rates {
            for edge in equal {
                let (one, other) = (root(&mut parent, edge.from), root(&mut parent, edge.to));
                parent[one.max(other)] = one.min(other);
            }
            let next = self.numbered(&mut parent);
            let num_parts = self.num_parts(&next);
            if num_parts < self.num_parts(&partitions[partitions.len() - 1]) && num_parts > 1 {
                partitions.push(next);
            } else if num_parts == 1 {
                break;
            }
        }
        partitions
    }

    /// Returns the number of classes that have ranks.
    fn num_parts(&self, classes: &[u32]) -> u32 {
        classes[..self.topology.num_ranks].iter().max().map_or(0, |last| last + 1)
    }

    /// Returns the classes of a union-find structure, numbered by their first elements.
    fn numbered(&self, parent: &mut [usize]) -> Classes {
        let mut numbers = vec![None; parent.len()];
        let mut next = 0;
        (0..parent.len())
            .map(|element| {
                *numbers[root(parent, element)].get_or_insert_with(|| {
                    next += 1;
                    next - 1
                })
            })
            .collect()
    }

    /// Returns the partition into nodes, with what they share in a class after them; `None` for one node.
    fn nodes(&self) -> Option<Classes> {
        let nodes = self.topology.node_of[..self.topology.num_ranks].iter().flatten().max().map_or(0, |last| last + 1);
        (nodes > 1).then(|| self.topology.node_of.iter().map(|node| node.unwrap_or(nodes)).collect())
    }

    /// Returns what classes of ranks must send in an all-reduce, the class for which that takes longest: without sums in switches, of all
    /// partitions; with sums in the switches of nodes, of those whose classes are whole nodes.
    pub(super) fn classes(&self, with_sums: bool) -> Option<Cut> {
        let nodes = self.nodes();
        let whole = |classes: &Classes| {
            let of =
                |node: &Vec<u32>, one: usize, other: usize| node[one] != node[other] || classes[one] == classes[other];
            nodes.as_ref().is_some_and(|node| (1..self.topology.num_ranks).all(|rank| of(node, rank - 1, rank)))
        };
        let partitions = self.partitions().into_iter().chain(nodes.clone());
        let cuts = partitions.filter(|classes| !with_sums || whole(classes)).map(|classes| {
            let num_classes = self.num_parts(&classes);
            let gb_per_s = self.between(&classes, num_classes);
            Cut { classes, num_classes, gb_per_s, messages: 2.0 * (f64::from(num_classes) - 1.0) }
        });
        cuts.reduce(Cut::tighter)
    }

    /// Returns what ranks must send where switches do not copy or add: each element is sent by ranks at least once less than there are
    /// ranks. The bandwidth is that of links which all paths between ranks pass, such as those of a host's memory.
    pub(super) fn copies(&self) -> Cut {
        let mut classes: Classes = (0..).take(self.num_elements()).collect();
        let num_classes = self.topology.num_ranks as u32;
        classes[self.topology.num_ranks..].fill(num_classes);
        let gb_per_s = self.between(&classes, num_classes);
        Cut { classes, num_classes, gb_per_s, messages: f64::from(num_classes) - 1.0 }
    }

    /// Returns the bandwidth of all paths together from some of the first classes to another one, through no third one.
    fn between(&self, classes: &[u32], num_classes: u32) -> f64 {
        let source = self.num_elements();
        let sink = source + 1;
        let mut network = Network::new(sink + 1);
        let is_one = |element: usize| classes[element] < num_classes;
        for edge in self.edges.iter().filter(|edge| !is_one(edge.from) || classes[edge.from] != classes[edge.to]) {
            let from = if is_one(edge.from) { source } else { edge.from };
            let to = if is_one(edge.to) { sink } else { edge.to };
            network.add(from, to, edge.gb_per_s);
        }
        network.max_flow(source, sink).0
    }

    /// Returns the set with the largest quotient of messages, a function of its ranks, and egress: of the classes of partitions, each with
    /// those switches and hosts inside that make its egress least.
    pub(super) fn best_set(&self, messages: impl Fn(f64) -> f64) -> Option<Cut> {
        let cuts = self.partitions().into_iter().chain(self.nodes()).filter_map(|classes| {
            let (egress, ranks) = (self.egress(&classes), self.ranks(&classes));
            // Nodes that are alike have equal sets.
            let mut known = std::collections::BTreeSet::new();
            let is_new = |set: &u32| known.insert((ranks[*set as usize], egress[*set as usize].to_bits()));
            let sets = (0..self.num_parts(&classes)).filter(is_new).map(|set| {
                let classes: Classes = classes.iter().map(|class| u32::from(*class != set)).collect();
                let classes = self.with_least_egress(&classes);
                let (num_classes, gb_per_s) = (1, self.egress(&classes)[0]);
                Cut { classes, num_classes, gb_per_s, messages: messages(f64::from(ranks[set as usize])) }
            });
            sets.reduce(Cut::tighter)
        });
        cuts.reduce(Cut::tighter)
    }

    /// Returns a set of the same ranks with the least egress: a minimum cut between them and the other ranks.
    fn with_least_egress(&self, classes: &[u32]) -> Classes {
        let (ranks, source) = (self.topology.num_ranks, self.num_elements());
        let sink = source + 1;
        let mut network = self.network(2);
        for edge in &self.edges {
            // More than the links of a rank carry, so that no rank changes its side.
            for rank in [edge.from, edge.to].into_iter().filter(|end| *end < ranks) {
                let (from, to) = if classes[rank] == 0 { (source, rank) } else { (rank, sink) };
                network.add(from, to, 2.0 * edge.gb_per_s);
            }
        }
        let (_, inside) = network.max_flow(source, sink);
        let of = |element: usize| if element < ranks { classes[element] } else { u32::from(!inside[element]) };
        (0..source).map(of).collect()
    }

    /// Returns the bandwidth of the least of the links from ranks to switches of their nodes, and the ranks of a node, where
    /// switches reduce the loads of a rank.
    pub(super) fn to_switches(&self) -> Option<(f64, f64)> {
        let topology = self.topology;
        let mut egress = vec![0.0; topology.num_ranks];
        for edge in &self.edges {
            if edge.from < topology.num_ranks && edge.to >= topology.num_ranks && topology.node_of[edge.to].is_some() {
                egress[edge.from] += edge.gb_per_s;
            }
        }
        let ranks = self.nodes().map_or(vec![topology.num_ranks as u32], |nodes| self.ranks(&nodes));
        let of_rank = |rank: usize| {
            let count = topology.node_of[rank].and_then(|node| ranks.get(node as usize))?;
            (*count > 1 && egress[rank] > 0.0).then_some((egress[rank], f64::from(*count)))
        };
        let all = (0..topology.num_ranks).filter_map(of_rank);
        all.min_by(|a, b| (a.0 / (1.0 + 1.0 / a.1)).total_cmp(&(b.0 / (1.0 + 1.0 / b.1))))
    }
}

/// Returns the root of an element in a union-find structure.
fn root(parent: &mut [usize], mut element: usize) -> usize {
    while parent[element] != element {
        parent[element] = parent[parent[element]];
        element = parent[element];
    }
    element
}
