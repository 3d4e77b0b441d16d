//! The proof for all message sizes, one family of sizes at a time.

use std::collections::BTreeSet;

use super::family::{Family, MAX_TRIPS, Outcome, Run};
use super::rolled::Rolled;

/// The result for all message sizes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// Every thread block runs to its end.
    Completes(Effort),
    /// At this combination of trip counts, the first such one, some thread blocks deadlock: the first of them, and its
    /// position.
    Deadlock { number: u64, block: u32, position: u32 },
    /// Every thread block runs to its end at the combinations before this one; the others are not decided.
    Undecided { number: u64 },
}

/// The effort of a proof.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Effort {
    pub(super) runs: u64,
    pub(super) steps: u64,
}

/// Maximum number of actions of all runs together, plus this many for each action of the plan.
const MAX_STEPS: u64 = 1 << 21;
const MAX_STEPS_EACH: u64 = 64;

/// Decides whether every thread block runs to its end at every size.
pub(super) fn prove(plan: &Rolled) -> Proof {
    prove_with(plan, |family, last| Run::new(plan, family, last))
}

/// Decides it with the given constructor of runs.
pub(super) fn prove_with<'a>(plan: &'a Rolled, run: impl Fn(Family, u64) -> Run<'a>) -> Proof {
    let size = plan.sizes.max.min(plan.trips.last_size(MAX_TRIPS));
    let (first, last) = (plan.trips.number(plan.sizes.min), plan.trips.number(size));
    let parts = plan.blocks.iter().map(|block| block.actions.len() as u64).sum::<u64>() + plan.counters.len() as u64;
    let all = MAX_STEPS.max(parts.saturating_mul(MAX_STEPS_EACH));
    let (mut steps, mut runs) = (all, 0);
    // In the order of their first members, so that the smallest size that deadlocks is found first.
    let mut open: BTreeSet<Family> = BTreeSet::new();
    let step = plan.trips.residues;
    open.extend((0..step).map(|residue| Family { first: first.saturating_add(residue), step }));
    while let Some(family) = open.pop_first().filter(|family| family.first <= last) {
        runs += 1;
        let Some(left) = steps.checked_sub(plan.blocks.len() as u64 + plan.counters.len() as u64) else {
            return Proof::Undecided { number: family.first };
        };
        steps = left;
        match run(family, (last - family.first) / family.step).run(&mut steps) {
            Outcome::Completes { step, count } => {
                let others = (1..step / family.step).map(|other| other * family.step);
                let beyond = count.saturating_mul(step);
                let firsts = others.chain([beyond]).map(|more| family.first.saturating_add(more));
                open.extend(firsts.map(|first| Family { first, step }));
            }
            Outcome::Deadlocks { block, position } => return Proof::Deadlock { number: family.first, block, position },
            Outcome::TooLong => return Proof::Undecided { number: family.first },
        }
    }
    Proof::Completes(Effort { runs, steps: all - steps })
}
