//! Contributions: the inputs that a value contains.

use std::collections::BTreeMap;

use super::values::{How, Kind, Node, Values};
use mscclpp_plan::types::ReduceOp;

/// The inputs in a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Contributions {
    /// Multiplicity of each input, by its rank and coordinate.
    pub(super) counts: BTreeMap<(u32, u64), u64>,
    /// How they are combined, and a second way if there are two.
    pub(super) how: Option<How>,
    pub(super) mixed: Option<How>,
    /// Whether a part of it is unknown, and whether any is normalized.
    pub(super) unknown: bool,
    pub(super) normalized: bool,
}

impl Contributions {
    /// Returns the inputs in a node that is read from a coordinate on. Counts saturate, and each sub-expression is
    /// visited once, so that sums of equal sums take no longer to count than to write.
    pub(super) fn of(values: &Values, node: Node, at: u64) -> Self {
        Self::within(values, node, at, &mut { u64::MAX })
    }

    /// Returns the inputs in a node, with a limit on the number of terms; terms beyond the limit are unknown.
    pub(super) fn within(values: &Values, node: Node, at: u64, budget: &mut u64) -> Self {
        let mut contributions = Self::default();
        // Terms have lower numbers than the nodes that contain them.
        let mut open = BTreeMap::from([((node, at), 1u64)]);
        while let Some(((node, at), count)) = open.pop_last() {
            match values.kind(node) {
                Kind::Unknown => contributions.unknown = true,
                Kind::Input(rank) => {
                    contributions.counts.insert((rank, at), count);
                }
                Kind::Reduction(_, terms) if terms.len() as u64 > *budget => {
                    *budget = 0;
                    contributions.unknown = true;
                    return contributions;
                }
                Kind::Reduction(how, terms) => {
                    *budget -= terms.len() as u64;
                    contributions.normalized |= how.norm;
                    match contributions.how {
                        Some(other) if !other.is_like(how) => contributions.mixed = Some(how),
                        Some(_) => {}
                        None => contributions.how = Some(how),
                    }
                    for term in terms {
                        let sum = open.entry((term.node, at.wrapping_add_signed(term.shift))).or_default();
                        *sum = sum.saturating_add(count);
                    }
                }
            }
        }
        contributions
    }
}

impl Contributions {
    /// Returns the multiplicity of an input.
    pub(super) fn count(&self, input: (u32, u64)) -> u64 {
        self.counts.get(&input).copied().unwrap_or(0)
    }

    /// Returns whether the multiplicity of an input is irrelevant.
    pub(super) fn is_idempotent(&self) -> bool {
        self.mixed.is_none() && self.how.is_some_and(|how| !how.norm && matches!(how.op, ReduceOp::Min | ReduceOp::Max))
    }
}

/// Returns the lowest node in a value that holds an input more than once while none of its terms does, and the
/// coordinate from which it is read.
pub(super) fn first_duplicate(values: &Values, node: Node, at: u64, input: (u32, u64)) -> Option<(Node, u64)> {
    let mut open = BTreeMap::from([((node, at), ())]);
    let mut seen = BTreeMap::new();
    while let Some((place, ())) = open.pop_last() {
        if let Kind::Reduction(_, terms) = values.kind(place.0) {
            open.extend(terms.iter().map(|term| ((term.node, place.1.wrapping_add_signed(term.shift)), ())));
        }
        seen.insert(place, 0u64);
    }
    let places: Vec<_> = seen.keys().copied().collect();
    for (node, at) in places {
        let count = match values.kind(node) {
            Kind::Unknown => 0,
            Kind::Input(rank) => u64::from((rank, at) == input),
            Kind::Reduction(_, terms) => {
                let of = |place| seen.get(&place).copied().unwrap_or(0);
                let counts = terms.iter().map(|term| of((term.node, at.wrapping_add_signed(term.shift))));
                counts.fold(0, u64::saturating_add)
            }
        };
        if count > 1 {
            // The terms have been checked, and hold it once or not at all.
            return Some((node, at));
        }
        seen.insert((node, at), count);
    }
    None
}

/// Returns the distance from a node's coordinate to that of its inputs, if these are the inputs of all ranks, each once
/// and at one coordinate.
///
/// Takes no more steps than there are ranks. `seen` has a mark for every rank, none of which is `mark`.
pub(super) fn all_ranks(values: &Values, node: Node, seen: &mut [u32], mark: u32) -> Option<(i64, Option<How>)> {
    let mut distance = None;
    let how = each_rank(values, node, seen, mark, |_, shift| *distance.get_or_insert(shift) == shift)?;
    Some((distance.unwrap_or(0), how))
}

/// Returns whether a node's inputs are those of all ranks, each once and at a distance from the node's coordinate that
/// `fits` accepts.
pub(super) fn each_rank(
    values: &Values,
    node: Node,
    seen: &mut [u32],
    mark: u32,
    mut fits: impl FnMut(u32, i64) -> bool,
) -> Option<Option<How>> {
    let (mut left, mut how) = (seen.len(), None::<How>);
    let mut open = vec![(node, 0i64)];
    while let Some((node, shift)) = open.pop() {
        // Every pending node has at least one input.
        if open.len() >= left {
            return None;
        }
        match values.kind(node) {
            Kind::Unknown => return None,
            Kind::Input(rank) => {
                let known = std::mem::replace(&mut seen[rank as usize], mark);
                if known == mark || !fits(rank, shift) {
                    return None;
                }
                left -= 1;
            }
            Kind::Reduction(of, terms) => {
                if terms.len() > left || !how.get_or_insert(of).is_like(of) {
                    return None;
                }
                open.extend(terms.iter().map(|term| (term.node, shift.wrapping_add(term.shift))));
            }
        }
    }
    (left == 0).then_some(how)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUM: How = How { op: ReduceOp::Sum, switch: false, norm: false };

    fn values() -> (Values, [Node; 3]) {
        let values = Values::new(3);
        let inputs = [values.input(0), values.input(1), values.input(2)];
        (values, inputs)
    }

    #[test]
    fn sum_of_all_ranks_is_accepted_in_any_order() {
        let (mut values, [a, b, c]) = values();
        let (ab, at) = values.reduce(SUM, [(b, 4), (a, 4)].into_iter());
        let (abc, at) = values.reduce(SUM, [(c, 4), (ab, at)].into_iter());
        assert_eq!(all_ranks(&values, abc, &mut [0; 3], 1), Some((0, Some(SUM))));
        let contributions = Contributions::of(&values, abc, at);
        assert_eq!(contributions.counts, BTreeMap::from([((0, 4), 1), ((1, 4), 1), ((2, 4), 1)]));
        assert_eq!(all_ranks(&values, ab, &mut [0; 3], 1), None);
        let other = values.reduce(SUM, [(ab, 4), (c, 5)].into_iter()).0;
        assert_eq!(all_ranks(&values, other, &mut [0; 3], 1), None);
        let twice = values.reduce(SUM, [(abc, 4), (c, 4)].into_iter()).0;
        assert_eq!(all_ranks(&values, twice, &mut [0; 3], 1), None);
        let mixed = values.reduce(How { op: ReduceOp::Max, ..SUM }, [(ab, 4), (c, 4)].into_iter()).0;
        assert_eq!(all_ranks(&values, mixed, &mut [0; 3], 1), None);
        assert!(Contributions::of(&values, mixed, 0).mixed.is_some());
    }

    #[test]
    fn repeated_doubling_is_counted_in_linear_time() {
        let (mut values, [a, b, _]) = values();
        let mut node = values.reduce(SUM, [(a, 0), (b, 0)].into_iter()).0;
        let first = node;
        for _ in 0..200 {
            node = values.reduce(SUM, [(node, 0), (node, 0)].into_iter()).0;
        }
        assert_eq!(all_ranks(&values, node, &mut [0; 3], 1), None);
        let contributions = Contributions::of(&values, node, 3);
        assert_eq!(contributions.counts, BTreeMap::from([((0, 3), u64::MAX), ((1, 3), u64::MAX)]));
        assert_eq!(first_duplicate(&values, node, 3, (1, 3)), Some((first + 1, 3)));
        assert_eq!(first_duplicate(&values, first, 3, (1, 3)), None);
    }
}
