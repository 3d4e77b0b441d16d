//! Reduction order: a property of a plan, which is independent of its correctness.

use std::collections::{BTreeMap, BTreeSet};

use super::super::model::{Model, sizes};
use super::super::pairing::{self, Pairs};
use super::super::shape;
use super::values::{How, Values, mix};
use super::{Dataflow, applies};
use crate::execute::runs_to_its_end;
use mscclpp_plan::raw::PlanTree;
use mscclpp_plan::types::ReduceOp;

/// The order in which a plan combines the inputs, element by element.
///
/// Sums of floats depend on it: equal orders give equal bits.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReductionOrder {
    /// Hash of all orders: equal for plans that reduce every element in the same order.
    pub fingerprint: u64,
    /// The number of different orders.
    pub num_orders: usize,
    /// Ranks whose outputs are reduced in another order than the first rank's: their bits may differ. Empty for plans
    /// that reduce every chunk once.
    pub differing_ranks: Vec<u32>,
    /// Whether every chunk has one order for all of its elements, at all message sizes.
    pub whole_chunks: bool,
    /// Whether an element's bits stay the same when the message grows or shrinks, which moves the element from chunk to
    /// chunk.
    pub same_for_all_sizes: bool,
    /// Whether every element, on every rank that holds it, is the result of one operation that reduces the inputs of
    /// ranks 0, 1, 2 and so on, from left to right. All such plans for one number of ranks give the same bits, whatever
    /// their chunks, and whether in place or not.
    pub is_rank_order: bool,
    /// Whether a switch reduces, in an unspecified order.
    pub by_switch: bool,
}

impl ReductionOrder {
    /// Returns whether all ranks that hold an element have the same bits for it.
    pub fn is_same_on_all_ranks(&self) -> bool {
        self.differing_ranks.is_empty()
    }
}

/// Returns the order in which a plan reduces; `None` if its results are no reductions, or if it does not run to its
/// end.
///
/// For floats the order determines the last bits: a plan with one order gives all ranks the same bits.
///
/// # Cost
/// That of checking the plan.
///
/// # Panics
/// Never, whatever the plan contains.
pub fn reduction_order(plan: &PlanTree) -> Option<ReductionOrder> {
    if !applies(plan) || !shape::check(plan.into()).is_empty() {
        return None;
    }
    let pairs = Pairs::of(plan);
    if !pairing::check(plan.into(), &pairs).is_empty() {
        return None;
    }
    // By chunk of the inputs, the orders on each rank.
    let mut chunks: BTreeMap<u64, BTreeMap<u32, BTreeSet<u64>>> = BTreeMap::new();
    let mut by_switch = false;
    for size in sizes(plan.into())? {
        let model = Model::of(plan.into(), &pairs, size);
        let mut watch = Dataflow::new(&model, None);
        if !runs_to_its_end(&model, &mut watch) || watch.contents.is_spent() {
            return None;
        }
        let values = &watch.contents.values;
        watch.output_checker().reductions(|rank, position, piece| {
            let (first, last) = (position / watch.chunk, (position + piece.len - 1) / watch.chunk);
            for chunk in first..=last {
                let orders = chunks.entry(chunk).or_default().entry(rank).or_default();
                orders.insert(values.fingerprint(piece.node));
            }
        });
        by_switch |= values.has_switch();
    }
    let mut orders = BTreeSet::new();
    let mut differing = BTreeSet::new();
    let mut of_rank: BTreeMap<u32, BTreeSet<u64>> = BTreeMap::new();
    let (mut fingerprint, mut whole_chunks) = (0, true);
    for (chunk, ranks) in &chunks {
        let usual = ranks.values().next();
        for (rank, found) in ranks {
            whole_chunks &= found.len() == 1;
            orders.extend(found.iter().copied());
            of_rank.entry(*rank).or_default().extend(found.iter().copied());
            if Some(found) != usual {
                differing.insert(*rank);
            }
            for order in found {
                fingerprint = mix(fingerprint ^ mix(*chunk) ^ mix(u64::from(*rank) << 32) ^ order);
            }
        }
    }
    // An element moves between the chunks of a rank, or between ranks if not all of them hold all chunks.
    let everywhere = chunks.values().all(|ranks| ranks.len() == of_rank.len());
    let same_for_all_sizes = orders.len() == 1 || everywhere && of_rank.values().all(|found| found.len() == 1);
    let differing = differing.into_iter().collect();
    let is_rank_order = orders.len() == 1 && plan.reductions().iter().any(|&op| orders.contains(&rank_order(plan, op)));
    (!orders.is_empty()).then_some(ReductionOrder {
        fingerprint,
        num_orders: orders.len(),
        differing_ranks: differing,
        whole_chunks,
        same_for_all_sizes,
        is_rank_order,
        by_switch,
    })
}

/// Returns the fingerprint of the reduction of all inputs in the order of ranks.
fn rank_order(plan: &PlanTree, op: ReduceOp) -> u64 {
    let ranks = plan.ranks.len() as u32;
    let mut values = Values::new(ranks);
    let inputs: Vec<_> = (0..ranks).map(|rank| (values.input(rank), 0)).collect();
    let (node, _) = values.reduce(How { op, switch: false, norm: false }, inputs.into_iter());
    values.fingerprint(node)
}
