//! The smallest size at which something is wrong.
//!
//! What holds for every number of iterations is proved without looking at many ([`every`](super::race::every)). Where the proof
//! fails, the plan is run as it is at one size after the other: a finding that comes up says from which size on, and one that
//! does not is refused with what stood in the way of the proof.

use std::collections::BTreeSet;

use super::loops::rates::{ChunkSizes, Rate};
use super::model::{Model, Size, rates};
use super::pairing::Pairs;
use super::run::{Verdict, run};
use super::view::View;
use crate::diag::{Code, Diagnostic, Diagnostics};

/// Numbers of iterations that are tried one by one.
const MOST_TRIPS: u128 = 32;

/// Numbers of iterations up to which some are tried.
const FAR_TRIPS: u128 = 1 << 13;

/// Steps of loops in all that is tried.
const MOST_STEPS: u128 = 1 << 18;

/// Sizes that are all tried where a plan has no more.
const FEW_SIZES: u64 = 64;

/// The sizes that were tried without a finding.
pub(super) struct Tried {
    /// Iterations of the fastest loop.
    trips: u128,
}

/// The findings at the smallest of some sizes that has any, none if the plan has few sizes and all are right.
pub(super) fn smallest(view: View, pairs: &Pairs, told: impl Fn(Verdict) -> Diagnostics) -> Result<Diagnostics, Tried> {
    let packets = Model::of(view, pairs, Size::real(view, 1, 1).ok_or(Tried { trips: 0 })?).has_packets();
    // No message fits: nothing runs.
    let Some(range) = ChunkSizes::of(view, packets) else { return Ok(Diagnostics::default()) };
    let grain = range.grain.max(1);
    let Some(fastest) = rates(view).into_iter().max_by(Rate::cmp_speed) else { return Err(Tried { trips: 0 }) };
    let bytes = |grains: u64| grains.saturating_mul(grain);
    let is_small = range.max - range.min <= FEW_SIZES;
    let sizes: BTreeSet<u64> = match is_small {
        true => (range.min.max(1)..=range.max).collect(),
        false => candidates(range, fastest).collect(),
    };
    let (mut left, mut tried, mut all) = (MOST_STEPS, 0, is_small);
    for (nth, grains) in sizes.into_iter().enumerate() {
        let Some(size) = Size::real(view, grains, grain) else {
            all = false;
            break;
        };
        let Some(rest) = left.checked_sub(size.steps(view)) else {
            all = false;
            break;
        };
        left = rest;
        tried = fastest.trips(bytes(grains));
        let found = told(run(std::iter::once(Model::of(view, pairs, size))));
        if !found.is_empty() {
            let first = nth == 0;
            let at = format!(", with chunks of {} bytes, where a loop makes {tried} iterations", bytes(grains));
            return Ok(if first { found } else { reworded(found, |message| message + &at) });
        }
    }
    if all { Ok(Diagnostics::default()) } else { Err(Tried { trips: tried }) }
}

/// Some sizes within a range: for each of the first numbers of iterations the first and the last, and for some further ones the
/// first.
fn candidates(range: ChunkSizes, fastest: Rate) -> impl Iterator<Item = u64> {
    let grain = u128::from(range.grain.max(1));
    let least = fastest.trips(range.min.max(1).saturating_mul(range.grain)).max(1);
    let near = (0..MOST_TRIPS).map(move |more| least + more);
    let far = (0..).map(move |doubled| (least + MOST_TRIPS) << doubled).take_while(|trips| *trips <= FAR_TRIPS);
    near.chain(far)
        .flat_map(move |trips| {
            let first = fastest.last_size(trips - 1) / grain + 1;
            let last = fastest.last_size(trips) / grain;
            [first, last.max(first)].map(|size| u64::try_from(size).unwrap_or(u64::MAX))
        })
        .filter(move |size| (range.min.max(1)..=range.max).contains(size))
}

impl Tried {
    /// What stood in the way of the proof.
    pub(super) fn unproved(self, found: Diagnostics) -> Diagnostics {
        let told = reworded(found, |message| {
            let Self { trips } = self;
            format!(
                "whether the plan is right with every number of iterations is not decided: {message}; none of those that were \
                 tried, up to {trips}, shows it"
            )
        });
        let mut undecided = Diagnostics::default();
        undecided.extend(told.into_iter().map(|finding| Diagnostic { code: Code::Undecided, ..finding }));
        undecided
    }
}

fn reworded(found: Diagnostics, word: impl Fn(String) -> String) -> Diagnostics {
    let mut reworded = Diagnostics::default();
    reworded.extend(found.into_iter().map(|finding| Diagnostic { message: word(finding.message.clone()), ..finding }));
    reworded
}
