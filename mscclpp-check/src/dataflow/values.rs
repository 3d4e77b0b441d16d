//! Symbolic values of memory.
//!
//! A value is a node of a graph, read from a coordinate on. The nodes of the inputs exist from the start; the results
//! of reductions have other nodes: an ordered list of terms, each a node and the distance of its coordinate from that
//! of the first term. Thus equal reductions of different chunks are the same node at different coordinates. A normalized
//! value is a node with one term.

use std::collections::BTreeMap;

use mscclpp_plan::types::ReduceOp;

/// Number of a node. A reduction's number is above those of its terms.
pub(super) type Node = u32;

/// A value that depends on uninitialized memory.
pub(super) const UNKNOWN: Node = 0;

/// How terms are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct How {
    pub(super) op: ReduceOp,
    /// By a switch, which combines them in an unspecified order.
    pub(super) switch: bool,
    /// Whether the only term is normalized with its row, and not combined with others.
    pub(super) norm: bool,
}

impl How {
    /// How a row is normalized.
    pub(super) const NORM: Self = Self { op: ReduceOp::Sum, switch: false, norm: true };

    /// Returns whether both combine terms by one function, in any order.
    pub(super) fn is_like(self, other: Self) -> bool {
        (self.op, self.norm) == (other.op, other.norm)
    }
}

/// A term of a reduction: a node, and the distance of its coordinate from that of the first term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Term {
    pub(super) node: Node,
    pub(super) shift: i64,
}

/// All nodes.
pub(super) struct Values {
    ranks: u32,
    reductions: Vec<Reduction>,
    terms: Vec<Term>,
    /// Nodes by a part of their hash, so that most equal reductions are found; correctness does not depend on it.
    recent: Vec<Node>,
    /// The terms of the reduction that is being built.
    fresh: Vec<Term>,
    /// Reductions of rotated ranks, by node and rotation.
    shifted: BTreeMap<(Node, u32), Node>,
}

struct Reduction {
    how: How,
    /// End of its terms; they begin at the end of the previous reduction's terms.
    end: usize,
    hash: u64,
    /// The least and the greatest distance of an input's coordinate from that of the node.
    shifts: (i64, i64),
}

/// The kind of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind<'v> {
    Unknown,
    Input(u32),
    Reduction(How, &'v [Term]),
}

impl Values {
    pub(super) fn new(ranks: u32) -> Self {
        Self {
            ranks,
            reductions: Vec::new(),
            terms: Vec::new(),
            recent: vec![UNKNOWN; 1 << 8],
            fresh: Vec::new(),
            shifted: BTreeMap::new(),
        }
    }

    /// Returns the node of a rank's input.
    pub(super) fn input(&self, rank: u32) -> Node {
        if rank < self.ranks { rank + 1 } else { UNKNOWN }
    }

    pub(super) fn ranks(&self) -> u32 {
        self.ranks
    }

    pub(super) fn len(&self) -> usize {
        1 + self.ranks as usize + self.reductions.len()
    }

    /// Returns the term of a normalized value, and the distance of its coordinate; `None` for other values.
    pub(super) fn before_norm(&self, node: Node) -> Option<Term> {
        match self.kind(node) {
            Kind::Reduction(how, [term]) if how.norm => Some(*term),
            _ => None,
        }
    }

    /// Returns whether a switch has reduced any value.
    pub(super) fn has_switch(&self) -> bool {
        self.reductions.iter().any(|reduction| reduction.how.switch)
    }
    fn reduction(&self, node: Node) -> Option<usize> {
        (node as usize).checked_sub(self.ranks as usize + 1)
    }

    pub(super) fn kind(&self, node: Node) -> Kind<'_> {
        match self.reduction(node) {
            Some(number) => {
                let first = number.checked_sub(1).map_or(0, |before| self.reductions[before].end);
                let Reduction { how, end, .. } = self.reductions[number];
                Kind::Reduction(how, &self.terms[first..end])
            }
            None if node == UNKNOWN => Kind::Unknown,
            None => Kind::Input(node - 1),
        }
    }

    /// Returns the least and the greatest distance of an input's coordinate from that of a node.
    fn shifts(&self, node: Node) -> (i64, i64) {
        self.reduction(node).map_or((0, 0), |number| self.reductions[number].shifts)
    }

    /// Returns the least distance of an input's coordinate from that of a node.
    pub(super) fn least_shift(&self, node: Node) -> i64 {
        self.shifts(node).0
    }

    /// Returns whether all inputs in a node have one coordinate.
    pub(super) fn has_one_shift(&self, node: Node) -> bool {
        let (least, greatest) = self.shifts(node);
        least == greatest
    }

    /// Returns a number that is equal for equal trees: which inputs are combined how and in which order, independently
    /// of the coordinates.
    pub(super) fn fingerprint(&self, node: Node) -> u64 {
        self.reduction(node).map_or_else(|| mix(u64::from(node)), |number| self.reductions[number].hash)
    }

    /// Returns the reduction of values in order, each a node read from a coordinate on.
    pub(super) fn reduce(&mut self, how: How, values: impl Iterator<Item = (Node, u64)>) -> (Node, u64) {
        let mut fresh = std::mem::take(&mut self.fresh);
        fresh.clear();
        let (mut at, mut unknown) = (0, false);
        let mut hash = how.op as u64 | u64::from(how.switch) << 8 | u64::from(how.norm) << 9;
        for (i, (node, coordinate)) in values.enumerate() {
            if i == 0 {
                at = coordinate;
            }
            unknown |= node == UNKNOWN;
            let shift = coordinate.wrapping_sub(at) as i64;
            hash = mix(hash.rotate_left(23) ^ self.fingerprint(node) ^ mix(!shift as u64));
            fresh.push(Term { node, shift });
        }
        let result = match fresh[..] {
            [] => (UNKNOWN, 0),
            _ if unknown => (UNKNOWN, 0),
            [only] if !how.norm => (only.node, at),
            _ => (self.node(how, hash, &fresh), at),
        };
        self.fresh = fresh;
        result
    }

    /// Returns the node with all inputs replaced by those of the ranks that are the given number further, cyclically.
    /// Every reduction that has to be created takes one of `budget` for each of its terms; beyond it, the result is
    /// unknown.
    pub(super) fn shifted(&mut self, node: Node, ranks: u32, budget: &mut u64) -> Node {
        if ranks == 0 {
            return node;
        }
        if let Some(known) = self.known_shifted(node, ranks) {
            return known;
        }
        let mut open = vec![node];
        let mut terms = Vec::new();
        while let Some(&node) = open.last() {
            let Kind::Reduction(how, own) = self.kind(node) else { break };
            if self.shifted.contains_key(&(node, ranks)) {
                open.pop();
                continue;
            }
            let before = open.len();
            open.extend(own.iter().map(|term| term.node).filter(|term| self.known_shifted(*term, ranks).is_none()));
            if open.len() > before {
                continue;
            }
            terms.clear();
            terms.extend(
                own.iter().map(|term| (self.known_shifted(term.node, ranks).unwrap_or(UNKNOWN), term.shift as u64)),
            );
            *budget = budget.saturating_sub(terms.len() as u64);
            if *budget == 0 {
                return UNKNOWN;
            }
            let (result, _) = self.reduce(how, terms.iter().copied());
            self.shifted.insert((node, ranks), result);
            open.pop();
        }
        self.known_shifted(node, ranks).unwrap_or(UNKNOWN)
    }

    fn known_shifted(&self, node: Node, ranks: u32) -> Option<Node> {
        match self.kind(node) {
            Kind::Unknown => Some(UNKNOWN),
            Kind::Input(rank) => Some(self.input((rank + ranks) % self.ranks)),
            Kind::Reduction(..) => self.shifted.get(&(node, ranks)).copied(),
        }
    }

    fn node(&mut self, how: How, hash: u64, terms: &[Term]) -> Node {
        let known = self.recent[hash as usize & (self.recent.len() - 1)];
        if self.kind(known) == Kind::Reduction(how, terms) {
            return known;
        }
        // Node numbers stay below 2^32: the budget of an execution ends before.
        let node = self.len() as Node;
        self.terms.extend_from_slice(terms);
        let shifts = terms.iter().map(|term| {
            let (least, greatest) = self.shifts(term.node);
            (term.shift.wrapping_add(least), term.shift.wrapping_add(greatest))
        });
        let both = |(a, b): (i64, i64), (c, d)| (a.min(c), b.max(d));
        let shifts = shifts.reduce(both).unwrap_or_default();
        self.reductions.push(Reduction { how, end: self.terms.len(), hash, shifts });
        if self.reductions.len() > self.recent.len() {
            let mask = 2 * self.recent.len() - 1;
            self.recent = vec![UNKNOWN; mask + 1];
            for (node, reduction) in (self.ranks + 1..).zip(&self.reductions) {
                self.recent[reduction.hash as usize & mask] = node;
            }
        }
        let mask = self.recent.len() - 1;
        self.recent[hash as usize & mask] = node;
        node
    }
}

/// Mixes the bits of a number.
pub(super) fn mix(number: u64) -> u64 {
    let number = (number ^ number >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    let number = (number ^ number >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    number ^ number >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUM: How = How { op: ReduceOp::Sum, switch: false, norm: false };

    #[test]
    fn equal_reductions_are_one_node_whatever_the_chunk() {
        let mut values = Values::new(3);
        let [a, b] = [values.input(0), values.input(1)];
        let (sum, at) = values.reduce(SUM, [(a, 7), (b, 7)].into_iter());
        assert_eq!(at, 7);
        assert_eq!(values.reduce(SUM, [(a, 90), (b, 90)].into_iter()), (sum, 90));
        let shifted = values.reduce(SUM, [(a, 7), (b, 8)].into_iter());
        let swapped = values.reduce(SUM, [(b, 7), (a, 7)].into_iter());
        let largest = values.reduce(How { op: ReduceOp::Max, ..SUM }, [(a, 7), (b, 7)].into_iter());
        let nodes = [sum, shifted.0, swapped.0, largest.0];
        for (i, one) in nodes.iter().enumerate() {
            assert!(nodes[..i].iter().all(|other| values.fingerprint(*other) != values.fingerprint(*one)));
        }
        let first = Term { node: a, shift: 0 };
        assert_eq!(values.kind(shifted.0), Kind::Reduction(SUM, &[first, Term { node: b, shift: 1 }]));
        assert_eq!(values.kind(b), Kind::Input(1));
        let (norm, at) = values.reduce(How::NORM, [(sum, 7)].into_iter());
        assert_eq!((values.before_norm(norm), at), (Some(Term { node: sum, shift: 0 }), 7));
        assert_eq!(values.before_norm(sum), None);
    }

    #[test]
    fn reduction_of_an_unknown_value_is_unknown() {
        let mut values = Values::new(2);
        let a = values.input(0);
        assert_eq!(values.reduce(SUM, [(a, 7), (UNKNOWN, 0)].into_iter()), (UNKNOWN, 0));
        assert_eq!(values.reduce(SUM, [(a, 7)].into_iter()), (a, 7));
        assert_eq!(values.input(2), UNKNOWN);
    }

    #[test]
    fn many_nodes_are_still_found() {
        let mut values = Values::new(2);
        let [a, b] = [values.input(0), values.input(1)];
        let make = |values: &mut Values, i| values.reduce(SUM, [(a, 0), (b, i)].into_iter()).0;
        let nodes: Vec<_> = (0..5000).map(|i| make(&mut values, i)).collect();
        let again: Vec<_> = (0..5000).map(|i| make(&mut values, i)).collect();
        let same = nodes.iter().zip(&again).filter(|(a, b)| a == b).count();
        assert!(same > 2500, "{same}");
    }
}
