//! Rule 3: every thread block runs to its end.
//!
//! All blocks of all ranks run in turns, each until it must wait: for a signal, a semaphore, the other blocks of a
//! barrier, or packets that nobody has written yet in this launch. Signals and semaphores only count up for whoever
//! waits, so the order of turns does not matter for who gets stuck in the end. Ports deliver at once here: a proxy
//! always finishes what it was given. Loops run a few iterations, as often as their spans and units say relative to
//! each other, and in a second run one iteration each.

mod story;

use super::machine::{Machine, Watch, sizes};
use super::place::Placed;
use crate::diag::Diagnostics;
use crate::plan::PlanTree;

pub(super) fn check(plan: &PlanTree) -> Diagnostics {
    for chunk_bytes in sizes(plan) {
        let mut machine = Machine::new(plan, chunk_bytes);
        machine.run(&mut Nobody);
        if let Some(finding) = story::tell(&machine) {
            return finding.into();
        }
    }
    Diagnostics::default()
}

/// Looks on without looking.
struct Nobody;

impl<'p> Watch<'p> for Nobody {
    fn done(&mut self, _: &Machine<'p>, _: usize, _: &Placed<'p>) {}

    fn met(&mut self, _: &[usize]) {}
}

#[cfg(test)]
mod tests;
