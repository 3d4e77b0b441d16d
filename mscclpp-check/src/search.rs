//! The smallest size that has a finding.
//!
//! What holds for every number of iterations is proved from a few ([`every`](super::race::every)). If the proof fails,
//! the plan is executed at one size after the other: a finding that occurs is reported with the smallest size, and one
//! that does not occur is reported with the reason why the proof failed.

use std::collections::{BTreeMap, BTreeSet};

use super::model::{Model, Size, rates};
use super::pairing::Pairs;
use super::place::each;
use super::rates::{ChunkSizes, Rate};
use super::run::{RuleFindings, run};
use super::view::View;
use mscclpp_plan::diag::{Code, Diagnostic, Diagnostics};

/// Maximum trip count up to which all are tried.
const MAX_TRIPS: u128 = 32;

/// Maximum trip count up to which some are tried.
const FAR_TRIPS: u128 = 1 << 13;

/// Maximum number of steps in loops of all executions.
const MAX_STEPS: u128 = 1 << 18;

/// Maximum number of sizes of a plan for which all are tried.
const FEW_SIZES: u64 = 64;

/// The sizes that were tried without a finding.
#[derive(Default)]
pub(super) struct Tried {
    /// Trip count of the fastest loop.
    trips: u128,
    /// What may have made the proof fail.
    shared: Option<String>,
}

/// Returns the findings at the smallest of some sizes that has any, none if the plan has few sizes and all are correct.
pub(super) fn smallest(
    view: View,
    pairs: &Pairs,
    reported: impl Fn(RuleFindings) -> Diagnostics,
) -> Result<Diagnostics, Tried> {
    let packets = Model::of(view, pairs, Size::real(view, 1, 1).ok_or(Tried::default())?).has_packets();
    // No message size is valid: nothing runs.
    let Some(range) = ChunkSizes::of(view, packets) else { return Ok(Diagnostics::default()) };
    let grain = range.grain.max(1);
    let Some(fastest) = rates(view).into_iter().max_by(Rate::cmp_speed) else { return Err(Tried::default()) };
    let bytes = |grains: u64| grains.saturating_mul(grain);
    let is_small = range.max - range.min <= FEW_SIZES;
    let sizes: BTreeSet<u64> = match is_small {
        true => (range.min.max(1)..=range.max).collect(),
        false => candidates(range, fastest).collect(),
    };
    let (mut left, mut tried, mut all) = (MAX_STEPS, 0, is_small);
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
        let found = reported(run(std::iter::once(Model::of(view, pairs, size))));
        if !found.is_empty() {
            let first = nth == 0;
            let times = if tried == 1 { "iteration" } else { "iterations" };
            let at = format!(", for chunks of {} bytes, where a loop has {tried} {times}", bytes(grains));
            return Ok(if first { found } else { reworded(found, |message| message + &at) });
        }
    }
    if all { Ok(Diagnostics::default()) } else { Err(Tried { trips: tried, shared: share_in_loops(view, pairs) }) }
}

/// Threads that raise or lower a counter in loops of a rate: that of a channel (`None`), or a semaphore of a rank.
type Users = (Option<usize>, usize, bool, Rate);

/// Returns a description of several thread blocks of a rank that raise the same counter, or lower it, in loops of one
/// rate: the proof does not track their order ([`every`](super::race::every)), so an order that the program has is not
/// used.
fn share_in_loops(view: View, pairs: &Pairs) -> Option<String> {
    let mut users: BTreeMap<Users, (usize, BTreeSet<usize>)> = BTreeMap::new();
    each(view, &mut |at| {
        let kind = at.op.kind;
        if !(kind.signals() || kind.acquires() || kind.is_semaphore()) {
            return;
        }
        let (semaphore, raises) = (kind.is_semaphore(), !kind.acquires());
        let Some(body) = at.inside.and_then(|(_, pipeline)| pipeline.body.as_ref()) else { return };
        let (outgoing, incoming) = (pairs.outgoing(view.plan, &at), pairs.incoming(view.plan, &at));
        for &id in &at.op.ids {
            let counter = match (semaphore, raises) {
                (true, _) => Some((Some(at.rank), at.number(id) as usize)),
                (false, true) => outgoing(id).map(|counter| (None, counter)),
                (false, false) => incoming(id).map(|counter| (None, counter)),
            };
            let Some((rank, number)) = counter else { continue };
            let of_rate = (rank, number, raises, Rate::of(body, 1));
            users.entry(of_rate).or_insert((at.rank, BTreeSet::new())).1.insert(at.block);
        }
    });
    let mut shared = users.into_iter().filter(|(_, (_, blocks))| blocks.len() > 1);
    let ((semaphore, number, raises, _), (rank, blocks)) = shared.next()?;
    let mut blocks = blocks.into_iter();
    let (one, other) = (blocks.next()?, blocks.next()?);
    let (what, own) = match (semaphore, raises) {
        (Some(_), true) => (format!("release semaphore {number}"), "semaphore"),
        (Some(_), false) => (format!("acquire semaphore {number}"), "semaphore"),
        (None, true) => ("signal on one channel".to_owned(), "channel"),
        (None, false) => ("wait on one channel".to_owned(), "channel"),
    };
    Some(format!(
        "thread blocks {one} and {other} of rank {rank} {what} in loops of equal span and unit, where their order \
         is not analyzed: give each its own {own}"
    ))
}

/// Returns some sizes within a range: for each of the first trip counts the first and the last size, and for some
/// larger ones the first.
fn candidates(range: ChunkSizes, fastest: Rate) -> impl Iterator<Item = u64> {
    let grain = u128::from(range.grain.max(1));
    let least = fastest.trips(range.min.max(1).saturating_mul(range.grain)).max(1);
    let near = (0..MAX_TRIPS).map(move |more| least + more);
    let far = (0..).map(move |doubled| (least + MAX_TRIPS) << doubled).take_while(|trips| *trips <= FAR_TRIPS);
    near.chain(far)
        .flat_map(move |trips| {
            let first = fastest.last_size(trips - 1) / grain + 1;
            let last = fastest.last_size(trips) / grain;
            [first, last.max(first)].map(|size| u64::try_from(size).unwrap_or(u64::MAX))
        })
        .filter(move |size| (range.min.max(1)..=range.max).contains(size))
}

impl Tried {
    /// Returns findings with the reason why the proof failed.
    pub(super) fn unproved(self, found: Diagnostics) -> Diagnostics {
        let Self { trips, shared } = self;
        let reported = reworded(found, |message| {
            format!(
                "cannot prove the plan correct for every trip count: {message}; none of the trip counts that were \
                 tried, up to {trips}, shows this"
            )
        });
        let hint = shared.unwrap_or_else(|| {
            "let each iteration wait only for signals of the same or an earlier iteration, let all thread blocks of \
             a barrier reach it in loops of equal span and unit, and read packets in the loops in which they are \
             written"
                .to_owned()
        });
        let mut undecided = Diagnostics::default();
        undecided.extend(reported.into_iter().map(|finding| {
            let help = finding
                .help
                .as_ref()
                .map_or_else(|| hint.clone(), |help| format!("{help}; if the program already does: {hint}"));
            Diagnostic { code: Code::Undecided, help: Some(help), ..finding }
        }));
        undecided
    }
}

fn reworded(found: Diagnostics, word: impl Fn(String) -> String) -> Diagnostics {
    let mut reworded = Diagnostics::default();
    reworded.extend(found.into_iter().map(|finding| Diagnostic { message: word(finding.message.clone()), ..finding }));
    reworded
}

#[cfg(test)]
mod tests {
    use crate::check;
    use crate::testing::plan;
    use mscclpp_plan::diag::Code;

    /// Returns the help of the finding about a plan that is not decided.
    fn help(blocks: &[&str]) -> String {
        let found = check(&plan(&[blocks, &[""]]));
        let codes: Vec<_> = found.iter().map(|finding| finding.code).collect();
        assert_eq!(codes, [Code::Undecided], "{found:?}");
        found.iter().next().and_then(|finding| finding.help.clone()).expect("help")
    }

    #[test]
    fn help_names_the_obstacle_of_the_proof() {
        let reported = help(&[
            "loop 32x1 { copy i0 > s0; nop; sem_release#0 }; loop 32x1 { copy i1 > s1; nop; sem_release#0 }",
            "loop 32x1 { sem_acquire#0 }; nop; sem_release#1",
            "sem_acquire#1; loop 32x1 { sem_acquire#0; nop; copy s1 > o1 }",
        ]);
        assert!(
            reported.ends_with(
                "; if the program already does: thread blocks 1 and 2 of rank 0 acquire semaphore 0 in loops of equal \
             span and unit, where their order is not analyzed: give each its own semaphore"
            ),
            "{reported}"
        );
        let reported = help(&[
            "copy i1 > s1; nop; loop 32x1 { sem_release#0 }; sem_release#0",
            "sem_acquire#0; nop; copy s1 > o1; loop 32x1 { sem_acquire#0 }",
        ]);
        assert!(reported.contains("; if the program already does: let each iteration wait"), "{reported}");
    }
}
