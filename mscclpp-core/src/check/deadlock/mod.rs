//! Rule 3: every thread block runs to its end.
//!
//! All blocks of all ranks run in turns, each until it must wait: for a signal, a semaphore, the other blocks of a
//! barrier, or packets that nobody has written yet in this launch. Signals and semaphores only count up for whoever
//! waits, so the order of turns does not matter for who gets stuck in the end. Ports deliver at once here: a proxy
//! always finishes what it was given. Loops run a few iterations, as often as their spans and units say relative to
//! each other, and once more with one iteration each.

mod machine;
mod story;

use std::collections::BTreeSet;

use super::place::each;
use crate::diag::Diagnostics;
use crate::plan::PlanTree;
use machine::Machine;

/// Iterations of the loop that has most: enough to use up semaphores that start above 0, within reason.
const MOST_TRIPS: u64 = 16;

pub(super) fn check(plan: &PlanTree) -> Diagnostics {
    let mut loops: Vec<(u64, u64)> = Vec::new();
    let mut groups = BTreeSet::new();
    each(plan, &mut |at| {
        loops.extend(at.op.body.as_ref().map(|body| (u64::from(body.num_chunks), body.unit)));
        groups.extend(at.op.slice.map(|slice| slice.of));
    });
    let highest = plan.ranks.iter().flat_map(|rank| &rank.semaphores).max().copied().unwrap_or(0);
    let trips = u64::try_from(highest).unwrap_or(0).saturating_add(2).clamp(3, MOST_TRIPS);
    // The chunk size at which the loop with most iterations has that many.
    let most = loops.iter().map(|(span, unit)| trips.saturating_mul(*unit) / span).min();
    let sizes = [most.unwrap_or(1).max(1), 1];
    for &chunk_bytes in if loops.is_empty() { &sizes[1..] } else { &sizes[..] } {
        let mut machine = Machine::new(plan, chunk_bytes, &groups);
        machine.run();
        if let Some(finding) = story::tell(&machine) {
            return finding.into();
        }
    }
    Diagnostics::default()
}

#[cfg(test)]
mod tests;
