//! The rules that follow the abstract execution of a plan: `deadlock`, `race` and `dataflow`, all in one execution.

use super::dataflow::Dataflow;
use super::deadlock;
use super::machine::{AbstractMachine, Observer};
use super::model::{self, CounterUse, Model};
use super::race::{Disordered, RaceDetector, cross_launch};
use super::requirements::LaunchBoundaries;
use mscclpp_plan::diag::{Diagnostic, Diagnostics};
use mscclpp_plan::parallel;

/// The findings of the rules. Each rule relies on the rules before it to have found nothing.
#[derive(Default)]
pub(super) struct RuleFindings {
    pub(super) deadlocks: Diagnostics,
    /// Waits that compete for signals. Which of them receives a signal depends on the schedule, and so do the races that follow.
    pub(super) competing: Diagnostics,
    pub(super) races: Diagnostics,
    pub(super) results: Diagnostics,
}

impl RuleFindings {
    /// Returns the findings of each rule, in the order in which they rely on each other.
    pub(super) fn in_order(self) -> [Diagnostics; 4] {
        [self.deadlocks, self.competing, self.races, self.results]
    }

    /// Returns whether no rule has findings.
    pub(super) fn is_empty(&self) -> bool {
        [&self.deadlocks, &self.competing, &self.races, &self.results].iter().all(|found| found.is_empty())
    }

    /// Returns the findings about deadlocks and about the order of operations.
    #[cfg(test)]
    pub(super) fn of_order(self) -> (Diagnostics, Diagnostics) {
        (self.deadlocks, if self.competing.is_empty() { self.races } else { self.competing })
    }
}

/// Minimum number of accesses for which two executions use two threads: they share nothing that changes, and differ in
/// length.
const MIN_PARALLEL_ACCESSES: usize = 1 << 15;

/// Number of executions after which no counter is assumed to be ordered any more, if one was not. A clock that one wait
/// did not acquire may leave another counter unordered, though hardly ever more than once. Which counters are unordered
/// in the end does not depend on the order of the executions, as long as this number is not reached: a wrong assumption
/// only adds to clocks, so a counter that an execution finds to be unordered is unordered without that assumption, too.
const MAX_RUNS: usize = 6;

/// Executes a plan that the earlier rules have accepted, at some sizes.
///
/// Large plans use two threads: for two sizes, or for races and results. All executions of a size are equal.
pub(super) fn run<'p>(mut models: impl Iterator<Item = Model<'p>>) -> RuleFindings {
    let mut verdict = RuleFindings::default();
    while let Some(model) = models.next() {
        // One size that shows a race is enough.
        let (races, results) = (verdict.races.is_empty(), verdict.results.is_empty());
        let worth = model.effect_count() >= MIN_PARALLEL_ACCESSES;
        let runs = match worth.then(|| models.next()).flatten() {
            Some(other) => {
                let (second, first) = parallel::both(
                    true,
                    || check_at_size(&other, races, results),
                    || check_at_size(&model, races, results),
                );
                [Some(first), Some(second)]
            }
            None if worth && results => {
                let (second, first) =
                    parallel::both(true, || check_at_size(&model, false, true), || check_at_size(&model, races, false));
                [Some(RuleFindings { results: second.results, ..first }), None]
            }
            None => [Some(check_at_size(&model, races, results)), None],
        };
        for RuleFindings { deadlocks, competing, races, results } in runs.into_iter().flatten() {
            if !deadlocks.is_empty() {
                return RuleFindings { deadlocks, ..verdict };
            }
            if verdict.competing.is_empty() {
                verdict.competing = competing;
            }
            if verdict.races.is_empty() {
                verdict.races = races;
            }
            if verdict.results.is_empty() {
                verdict.results = results;
            }
        }
    }
    verdict
}

/// Returns the findings about threads that compete for a counter where messages have no data, so that no loop makes an
/// iteration: an order by loops exists at no other size.
pub(super) fn without_iterations(model: &Model) -> Diagnostics {
    let mut traffic = model.counters.iter().chain(&model.releases);
    if traffic.all(CounterUse::is_private) {
        return Diagnostics::default();
    }
    let mut found = Diagnostics::default();
    let RuleFindings { competing, races, .. } = check_at_size(model, true, false);
    found.extend(if competing.is_empty() { races } else { competing }.into_iter().map(|mut finding| {
        finding.message += ", for messages without data";
        finding
    }));
    found
}

/// Returns the findings of the rules at one size; those about races and those about results only on request.
fn check_at_size(model: &Model, races: bool, results: bool) -> RuleFindings {
    let uneven = model.size.is_uneven();
    let mut verdict = RuleFindings::default();
    let fits = RaceDetector::fits(model);
    let watched = if races && fits { RaceDetector::new(model, &Disordered::default()) } else { None };
    if !fits || races && watched.is_none() {
        verdict.races.push(model::too_many_atoms(model.view));
        return verdict;
    }
    let mut rules = Rules { races: watched, dataflow: if results { Dataflow::of(model) } else { None } };
    let mut machine = AbstractMachine::new(model);
    machine.run(&mut rules);
    if let Some(finding) = deadlock::check(&machine) {
        verdict.deadlocks.push(finding);
        return verdict;
    }
    if let Some(races) = rules.races {
        let races = confirmed(model, races);
        verdict.competing.extend(at_size(uneven, cross_launch::competing_waits(&races)));
        verdict.races.extend(at_size(uneven, cross_launch::findings(races)));
    }
    if let Some(dataflow) = rules.dataflow {
        verdict.results.extend(at_size(uneven, dataflow.findings(model)));
    }
    verdict
}

/// Returns the result of executing a model, repeated while an assumed order of a counter turns out to be wrong.
fn confirmed<'m, 'p>(model: &'m Model<'p>, mut races: RaceDetector<'m, 'p>) -> RaceDetector<'m, 'p> {
    let mut disordered = Disordered::default();
    for run in 1.. {
        if !disordered.add(races.disordered(), run == MAX_RUNS, model) {
            break;
        }
        let mut rules = Rules { races: RaceDetector::new(model, &disordered), dataflow: None };
        AbstractMachine::new(model).run(&mut rules);
        let Some(again) = rules.races else { break };
        races = again;
    }
    races
}

/// Returns what a plan needs at the boundaries of its launches, at one size.
pub(super) fn boundaries(model: &Model) -> LaunchBoundaries {
    if !RaceDetector::fits(model) {
        return LaunchBoundaries::default();
    }
    let mut rules = Rules { races: RaceDetector::new(model, &Disordered::default()), dataflow: None };
    let mut machine = AbstractMachine::new(model);
    machine.run(&mut rules);
    match rules.races {
        Some(races) if deadlock::check(&machine).is_none() => cross_launch::boundaries(confirmed(model, races)),
        _ => LaunchBoundaries::default(),
    }
}

/// Returns findings, with the sizes at which they occur if those are not all.
fn at_size(uneven: bool, found: Diagnostics) -> impl Iterator<Item = Diagnostic> {
    found.into_iter().map(move |mut finding| {
        if uneven {
            finding.message += ", at message sizes that do not divide equally among the members of a group";
        }
        finding
    })
}

/// All observers of an execution.
struct Rules<'m, 'p> {
    races: Option<RaceDetector<'m, 'p>>,
    dataflow: Option<Dataflow<'p>>,
}

impl<'p> Observer<'p> for Rules<'_, 'p> {
    fn on_step(&mut self, model: &Model<'p>, agent: usize, step: usize) {
        if let Some(races) = &mut self.races {
            races.on_step(model, agent, step);
        }
        if let Some(dataflow) = &mut self.dataflow {
            dataflow.on_step(model, agent, step);
        }
    }

    fn on_barrier(&mut self, barrier: u32, agents: &[usize]) {
        if let Some(races) = &mut self.races {
            races.on_barrier(barrier, agents);
        }
    }
}

/// Returns the findings of these rules in a plan, without the rules before them.
#[cfg(test)]
pub(super) fn verdict(plan: &mscclpp_plan::raw::PlanTree) -> RuleFindings {
    let pairs = super::Pairs::of(plan);
    let sizes = super::model::sizes(plan.into()).expect("a plan of few pieces");
    run(sizes.into_iter().map(|size| Model::of(plan.into(), &pairs, size)))
}
