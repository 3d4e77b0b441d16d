//! What a plan must keep, checked on the plan as it stands: one of our own lowering, or one from a file that a stranger
//! wrote.
//!
//! 1. `shape`: every number points at something that is there, every chunk lies in its buffer, and every operation has
//!    the references and channels that its kind demands (M0202 to M0206,
//!    and the recorder's own codes).
//!    After it `nodes`: between nodes, port channels only (M0225).
//! 2. `layout`: packets and plain data keep apart in scratch (M0219 to M0221).
//! 3. `pairing`: on every channel pair there are as many waits as signals, semaphores end where they began, and blocks
//!    come to their barriers equally often, for every message size (M0201, M0205, M0207).
//! 4. `deadlock`: every thread block runs to its end (M0208); `loops`: at every size of a message (M0223 where that cannot be
//!    decided).
//! 5. `race`: of two accesses to the same bytes of which one writes, one is over before the other begins (M0210); the
//!    same for those of the caller and of the next launch (M0211 to M0213).
//! 6. `dataflow`: every output holds what the collective promises, nothing uninitialised is read, and inputs survive
//!    unless in place (M0214 to M0218).
//!
//! A plan runs with one iteration of every loop, and with two; what that shows holds for every number of them
//! (`race::every`). Where it shows a mistake, `search` tells from which size on.
//!
//! A rule relies on those before it, so the first one with findings is the last one that is asked. Of a plan that is a smaller
//! one several times over, the smaller one is asked first (`instances`), and where all ranks do the same, some stand for all
//! (`symmetry`). [`limits`] stands apart: it binds only plans that are to run on a device, or on the reference system's executor.
//!
//! Nothing here is shared with lowering or the executors except the types of a plan: the rules would hardly find
//! mistakes in arithmetic that they use themselves.

mod access;
mod allow;
mod boundaries;
mod dataflow;
mod deadlock;
mod execution_trace;
mod instances;
mod layout;
pub mod limits;
mod loops;
mod machine;
mod model;
mod nodes;
mod pairing;
mod place;
mod race;
pub(crate) mod reference;
mod run;
mod search;
mod shape;
mod slices;
mod symmetry;
mod unproved;
mod view;
mod wrap;

use crate::diag::{Code, Diagnostics};
use crate::plan::PlanTree;
pub use allow::{AllowError, allowable_codes, parse_allow};
pub use boundaries::{LaunchBoundaries, launch_boundaries};
pub use dataflow::{ReductionOrder, reduction_order};
pub use execution_trace::{ExecutionTrace, execution_trace};
#[doc(hidden)]
pub use loops::proof_effort;
use model::Model;
use pairing::Pairs;
use run::{RuleFindings, run, without_iterations};
use symmetry::Symmetry;
use view::View;
pub use wrap::may_wrap_scratch;

/// How much is checked, and what is let pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checks {
    /// Which rules are asked.
    pub level: Level,
    /// Findings that the author has judged and lets pass.
    pub allow: Vec<Code>,
}

/// Which rules are asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// All of them.
    #[default]
    Full,
    /// `shape`, `nodes`, `layout` and `pairing`.
    Basic,
    /// None. The plan may hang or compute nonsense; executors still refuse what would leave its memory.
    Off,
}

impl Checks {
    /// Checks a plan as [`check`] does, with only the rules of this level and without what is allowed.
    pub fn run(&self, plan: &PlanTree) -> Diagnostics {
        if self.level == Level::Off {
            return Diagnostics::default();
        }
        // What is a smaller plan several times is right if that one is.
        if self.level == Level::Full
            && let Some(one) = instances::one_of(plan)
            && self.run_rules(one.view(plan)).is_empty()
        {
            return Diagnostics::default();
        }
        self.run_rules(plan.into())
    }

    /// Asks the rules.
    fn run_rules(&self, view: View) -> Diagnostics {
        let plan = view.plan;
        let found = shape::check(view);
        if !found.is_empty() {
            // The other rules look things up as this one finds them to be, so they are not asked even if all is allowed.
            return self.without_allowed(found);
        }
        let found = self.without_allowed(nodes::check(view));
        if !found.is_empty() {
            return found;
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
        // Where all ranks do the same, some stand for all as long as nothing is found, be it in conservative runs or in others.
        if let Some(symmetry) = &symmetry
            && [conservative.as_ref(), Some(&sizes)].into_iter().flatten().any(|sizes| {
                is_right(view, &pairs, sizes.iter().map(|size| Model::reduced(view, &pairs, *size, Some(symmetry))))
            })
            && matches!(loops::check(view, &pairs), loops::Verdict::Proved)
            && model::empty(view)
                .is_none_or(|size| without_iterations(&Model::reduced(view, &pairs, size, Some(symmetry))).is_empty())
        {
            return Diagnostics::default();
        }
        let sizes = sizes.into_iter();
        let mut models = sizes.map(|size| Model::of(view, &pairs, size));
        // What the first model shows at a glance need not be looked at closely.
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
        let mut found = self.told(run(first.into_iter().chain(models)));
        if !found.is_empty() && !model::rates(view).is_empty() {
            // What the proof has found is told as it comes up at the smallest size.
            let told = search::smallest(view, &pairs, |verdict| self.told(verdict));
            found = told.unwrap_or_else(|tried| match self.without_allowed(later.clone()) {
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

    /// The findings of the first rule that has any left.
    fn told(&self, verdict: RuleFindings) -> Diagnostics {
        let RuleFindings { deadlocks, races, results } = verdict;
        let findings = [deadlocks, races, results].map(|found| self.without_allowed(found));
        findings.into_iter().find(|found| !found.is_empty()).unwrap_or_default()
    }

    /// What is not allowed of some findings.
    fn without_allowed(&self, found: Diagnostics) -> Diagnostics {
        let mut left = Diagnostics::default();
        left.extend(found.into_iter().filter(|finding| !self.allow.contains(&finding.code)));
        left
    }
}

/// Whether nothing is found in a plan of which some ranks stand for all.
fn is_right<'p>(view: View<'p>, pairs: &'p Pairs, models: impl Iterator<Item = Model<'p>>) -> bool {
    let mut models = models.peekable();
    let Some(first) = models.peek() else { return false };
    if !first.keeps_scratch_apart() && !layout::check(view).is_empty() {
        return false;
    }
    if !first.is_balanced() && !pairing::check(view, pairs).is_empty() {
        return false;
    }
    let RuleFindings { deadlocks, races, results } = run(models);
    [deadlocks, races, results].iter().all(Diagnostics::is_empty)
}

/// Checks a plan. Accepts it if no finding comes back.
///
/// A finding points at the source of its operation where the plan knows it, else at
/// `rank R / thread block T / operation I (name)`.
///
/// # Cost
/// Let a *piece* be what remains of the buffers where all ranges are cut that operations touch, and an *access* an
/// operation's reading or writing of one piece, in each iteration of its loop that is looked at: one, and once more two for
/// every rate of loops. Ranges that begin and end alike make few pieces; n operations on n nested ranges make n² accesses.
///
/// * Time is about linear in operations, ids of channels and semaphores, and accesses; up to three times that, where it
///   turns out that several thread blocks use a channel or semaphore in no order.
/// * What agents know of each other is kept once for all that know the same. A block sync over b blocks that know different
///   things of a agents takes a b steps in the worst case. A thread block that goes on without a block sync looks again at
///   what it has heard from packets since the last one, at most once per operation and length of a range.
/// * Memory is 20 bytes per access, and some hundred bytes per operation. Plans of more than 2²⁶ accesses are refused.
/// * A finding takes time in proportion to the plan, and at most a hundred of one rule are kept.
///
/// A plan whose thread-block groups cut chunks into unequal slices runs once more for every way in which these meet: a few times,
/// or, with packets that are written by one group and read by another one, up to some hundreds. With packets, and where all ranks
/// do the same, conservative runs mostly take the place of these, a few or none.
///
/// Of a plan that is a smaller one several times over, the smaller one is looked at, and where all ranks do the same, some
/// of them. `benches/hostile` measures plans that are made to take long.
///
/// # Panics
/// Never, whatever the plan says.
pub fn check(plan: &PlanTree) -> Diagnostics {
    Checks::default().run(plan)
}

/// Findings of one rule that are kept; a plan with more is wrong enough.
const MOST_FINDINGS: usize = 100;

#[cfg(test)]
mod tests;
