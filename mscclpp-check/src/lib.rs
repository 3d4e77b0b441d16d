//! Static checks of a finished plan, lowered here or loaded from a file.
//!
//! 1. `shape`: every index is in range, every chunk is inside its buffer, and every operation has the operands and
//!    channels that its kind requires (M0202 to M0206, and the recorder's own codes). Then `nodes`: between nodes only
//!    port channels are used (M0225), and `reductions`: a plan that averages has no other reductions (M0228).
//!    `counted`: what the rules find out about a plan whose sizes are counts, at full counts, holds for all counts (M0230 to
//!    M0232). `rows`: rows are normalized whole, and once (M0233, M0234).
//! 2. `layout`: packets and plain data use separate scratch (M0219 to M0221).
//! 3. `pairing`: every channel pair has as many waits as signals, every semaphore ends at its initial value, and all
//!    thread blocks of a barrier execute it the same number of times, for every message size (M0201, M0205, M0207).
//! 4. `deadlock`: every thread block runs to its end (M0208); `loops`: at every message size (M0223 where that cannot
//!    be decided).
//! 5. `race`: of two accesses to the same bytes of which one writes, one happens before the other (M0210); the same
//!    holds for the accesses of the caller and of the next launch (M0211 to M0213).
//! 6. `dataflow`: every output holds what the collective guarantees, normalized if the plan has rows (M0235), no operation reads uninitialized memory, and
//!    inputs keep their values unless the plan is in place (M0214 to M0218). No data is lost at counts that do not divide
//!    evenly, unless the plan takes dividing counts only (M0227).
//!
//! A plan is executed with one iteration of every loop, and with two; the result holds for every number of iterations
//! (`race::every`). If that execution shows a mistake, `search` finds the smallest message size that has it.
//!
//! Every rule relies on the rules before it, so the checks end at the first rule that has findings. If a plan consists
//! of several instances of a smaller plan, the smaller plan is checked first (`instances`); if all ranks do the same,
//! representative ranks are checked (`symmetry`). [`limits`] is separate: it applies only to plans that run on a device
//! or on the reference executor.
//!
//! The checks share only the types of a plan and the properties of its kinds of operations with lowering and the
//! executors: rules that used the same arithmetic would hardly find its mistakes.

#![forbid(unsafe_code)]

mod access;
mod allow;
#[cfg(test)]
#[path = "../../mscclpp-plan/src/arbitrary.rs"]
mod arbitrary;
mod boundaries;
mod conditions;
mod counted;
mod counts;
mod dataflow;
mod deadlock;
mod execute;
pub mod execution;
mod execution_trace;
mod instances;

mod layout;
pub mod limits;
mod load;
mod loops;
mod machine;
mod model;
mod nodes;
mod pairing;
mod place;
mod race;
mod rates;
mod reductions;

pub mod reference;
mod requirements;
mod restrict;
mod rows;
mod run;
mod search;
mod shape;
mod slices;
mod space;
mod symmetry;
#[cfg(test)]
#[path = "../../mscclpp-core/src/testing.rs"]
mod testing;
mod unproved;
mod view;
mod wrap;

pub use allow::{AllowError, allowable_codes, parse_allow};
pub use boundaries::launch_boundaries;
pub use counted::{original_site, representative};
pub use dataflow::{ReductionOrder, reduction_order, send_distance};
pub use execution_trace::{execution_trace, mark_findings};
pub use load::{LoadOptions, LoadPlan};
#[doc(hidden)]
pub use loops::proof_effort;
use model::Model;
use mscclpp_plan::diag::{Code, Diagnostics};
use mscclpp_plan::raw::PlanTree;
use pairing::Pairs;
pub use requirements::LaunchBoundaries;
pub use restrict::dividing_counts;
use run::{RuleFindings, run, without_iterations};
use symmetry::Symmetry;
use view::View;
pub use wrap::may_wrap_scratch;

/// Which rules run, and which findings are allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checks {
    /// Which rules run.
    pub level: Level,
    /// Findings that the author has reviewed and allows.
    pub allow: Vec<Code>,
}

/// Which rules run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// All of them.
    #[default]
    Full,
    /// `shape`, `nodes`, `reductions`, `rows`, `layout` and `pairing`.
    Basic,
    /// None. The plan may deadlock or compute wrong results; executors still reject accesses outside of its memory.
    Off,
}

impl Checks {
    /// Checks a plan as [`check`] does, with only the rules of this level and without the findings that are allowed.
    #[doc(hidden)]
    pub fn run(&self, plan: &PlanTree) -> Diagnostics {
        self.run_in_order(plan, None)
    }

    /// Checks a plan as [`run`](Self::run) does, with the abstract execution in the order that a seed selects: the codes of
    /// the findings are the same for all seeds. For tests of that.
    #[doc(hidden)]
    pub fn run_in_order(&self, plan: &PlanTree, order: Option<u64>) -> Diagnostics {
        if self.level == Level::Off {
            return Diagnostics::default();
        }
        if plan.is_counted() {
            return self.run_counted(plan, order);
        }
        self.run_plain(plan, order)
    }

    /// Checks a plan whose sizes are counts: the rule `counted`, then all others at full counts.
    fn run_counted(&self, plan: &PlanTree, order: Option<u64>) -> Diagnostics {
        for rule in [|plan: &PlanTree| shape::check(plan.into()), counted::check] {
            let found = self.without_allowed(rule(plan));
            if !found.is_empty() {
                return found;
            }
        }
        counted::findings(self.run_plain(&counted::at_full_counts(plan), order))
    }

    fn run_plain(&self, plan: &PlanTree, order: Option<u64>) -> Diagnostics {
        // A plan that consists of several instances of a smaller plan is correct if the smaller plan is.
        if self.level == Level::Full
            && let Some(one) = instances::one_of(plan)
            && self.run_rules(one.view(plan).in_order(order)).is_empty()
        {
            return Diagnostics::default();
        }
        self.run_rules(View::from(plan).in_order(order))
    }

    /// Runs the rules of the level.
    fn run_rules(&self, view: View) -> Diagnostics {
        let plan = view.plan;
        let found = shape::check(view);
        if !found.is_empty() {
            // The other rules index the plan as this rule has validated it, so they do not run even if all findings are
            // allowed.
            return self.without_allowed(found);
        }
        for rule in [nodes::check, reductions::check, rows::check] {
            let found = self.without_allowed(rule(view));
            if !found.is_empty() {
                return found;
            }
        }
        let pairs = Pairs::of(plan);
        if self.level == Level::Basic {
            let findings = [layout::check(view), pairing::check(view, &pairs)].map(|found| self.without_allowed(found));
            return findings.into_iter().find(|found| !found.is_empty()).unwrap_or_default();
        }
        let Some(sizes) = model::sizes(view) else { return model::too_many_atoms(view).into() };
        let symmetry = Symmetry::of(view, &pairs);
        let (sizes, conservative) = match slices::sizes(view, symmetry.as_ref()) {
            Ok(uneven) => {
                let conservative = symmetry.as_ref().and_then(|_| uneven.conservative(plan, &sizes));
                (sizes.into_iter().chain(uneven.sizes).collect(), conservative)
            }
            Err(finding) => match self.without_allowed((*finding).into()) {
                left if left.is_empty() => (sizes, None),
                left => return left,
            },
        };
        // With symmetric ranks, the representatives are enough as long as no execution finds anything, conservative or
        // not.
        if let Some(symmetry) = &symmetry
            && [conservative.as_ref(), Some(&sizes)].into_iter().flatten().any(|sizes| {
                is_accepted(view, &pairs, sizes.iter().map(|size| Model::reduced(view, &pairs, *size, Some(symmetry))))
            })
            && matches!(loops::check(view, &pairs), loops::Verdict::Proved)
            && model::empty(view)
                .is_none_or(|size| without_iterations(&Model::reduced(view, &pairs, size, Some(symmetry))).is_empty())
        {
            return Diagnostics::default();
        }
        let sizes = sizes.into_iter();
        let mut models = sizes.map(|size| Model::of(view, &pairs, size));
        // If a property of the first model already implies that a rule has no findings, the rule does not run.
        let first = models.next();
        if !first.as_ref().is_some_and(Model::keeps_scratch_apart) {
            let found = self.without_allowed(layout::check(view));
            if !found.is_empty() {
                return found;
            }
        }
        if !first.as_ref().is_some_and(Model::is_balanced) {
            let found = self.without_allowed(pairing::check(view, &pairs));
            if !found.is_empty() {
                return found;
            }
        }
        let (mut later, mut undecided) = (Diagnostics::default(), Diagnostics::default());
        match loops::check(view, &pairs) {
            loops::Verdict::Proved => {}
            loops::Verdict::Deadlock { finding, at_once: true } => later.push(finding),
            loops::Verdict::Deadlock { finding, at_once: false } => {
                let found = self.without_allowed(finding.into());
                if !found.is_empty() {
                    return found;
                }
            }
            loops::Verdict::Undecided(finding) => undecided.push(finding),
        }
        let mut found = self.first_rule(run(first.into_iter().chain(models)));
        if !found.is_empty() && !model::rates(view).is_empty() {
            // The finding of the proof is reported as it occurs at the smallest size.
            let first_rule = search::smallest(view, &pairs, |verdict| self.first_rule(verdict));
            found = first_rule.unwrap_or_else(|tried| match self.without_allowed(later.clone()) {
                later if later.is_empty() => self.without_allowed(tried.unproved(found)),
                later => later,
            });
        }
        let mut found = [found, self.without_allowed(later), self.without_allowed(undecided), Diagnostics::default()];
        if found.iter().all(Diagnostics::is_empty)
            && let Some(size) = model::empty(view)
        {
            found[3] = self.without_allowed(without_iterations(&Model::of(view, &pairs, size)));
        }
        found.into_iter().find(|found| !found.is_empty()).unwrap_or_default()
    }

    /// Returns the findings of the first rule that has any that are not allowed.
    fn first_rule(&self, verdict: RuleFindings) -> Diagnostics {
        let findings = verdict.in_order().map(|found| self.without_allowed(found));
        findings.into_iter().find(|found| !found.is_empty()).unwrap_or_default()
    }

    /// Returns the findings that are not allowed.
    fn without_allowed(&self, found: Diagnostics) -> Diagnostics {
        let mut left = Diagnostics::default();
        left.extend(found.into_iter().filter(|finding| !self.allow.contains(&finding.code)));
        left
    }
}

/// Returns whether the checks accept a plan of which representative ranks are checked.
fn is_accepted<'p>(view: View<'p>, pairs: &'p Pairs, models: impl Iterator<Item = Model<'p>>) -> bool {
    let mut models = models.peekable();
    let Some(first) = models.peek() else { return false };
    if !first.keeps_scratch_apart() && !layout::check(view).is_empty() {
        return false;
    }
    if !first.is_balanced() && !pairing::check(view, pairs).is_empty() {
        return false;
    }
    run(models).is_empty()
}

/// Checks a plan, and accepts it if it returns no finding.
///
/// A finding points to the source location of its operation if the plan has it, otherwise to `rank R / thread block T /
/// operation I (name)`.
///
/// # Cost
/// An *atom* is one of the intervals into which the bounds of all operands cut the buffers, and an *access* is one read
/// or write of one atom by an operation, in each iteration of its loop that is executed: one iteration, and once more
/// two iterations for every rate of loops. Ranges with equal bounds make few atoms; n operations on n nested ranges
/// make n² accesses.
///
/// * The time is about linear in the operations, the ids of channels and semaphores, and the accesses; up to seven
///   times that if several thread blocks use a channel or semaphore unordered.
/// * Agents with equal vector clocks share one copy. A block sync over b blocks with different clocks of a agents takes
///   a b steps in the worst case. A thread block that executes no block sync reads again what it has acquired from
///   packets since the last one, at most once per operation and length of a range.
/// * Memory is 20 bytes per access, and some hundred bytes per operation. Plans of more than 2²⁶ accesses are rejected.
/// * A finding takes time in proportion to the plan, and at most a hundred findings of one rule are kept.
///
/// A plan whose thread-block groups cut chunks into unequal slices is executed once more for every way in which these
/// slices overlap: a few times, or, with packets that one group writes and another group reads, up to some hundreds.
/// With packets and symmetric ranks, conservative executions mostly replace these, a few or none.
///
/// If a plan consists of several instances of a smaller plan, the smaller plan is checked, and if ranks are symmetric,
/// only their representatives. `benches/hostile` measures plans that are made to take long.
///
/// # Panics
/// Never, whatever the plan contains.
pub fn check(plan: &PlanTree) -> Diagnostics {
    Checks::default().run(plan)
}

/// Maximum number of findings of one rule that are kept.
const MAX_FINDINGS: usize = 100;

#[cfg(test)]
mod tests;
