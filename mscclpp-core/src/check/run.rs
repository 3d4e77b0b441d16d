//! The rules for which a plan runs in the abstract: `deadlock`, `race` and `dataflow`, all in one run.

use super::dataflow::Dataflow;
use super::deadlock;
use super::machine::{Machine, Watch};
use super::model::{self, Model};
use super::race::{Races, relaunch};
use crate::diag::{Diagnostic, Diagnostics};
use crate::parallel;

/// What the rules have found. Each relies on those before it to have found nothing.
#[derive(Default)]
pub(super) struct Verdict {
    pub(super) deadlocks: Diagnostics,
    pub(super) races: Diagnostics,
    pub(super) results: Diagnostics,
}

/// Effects from which on two runs are worth two threads: they share nothing that is changed, and differ in length.
const WORTH: usize = 1 << 15;

/// Runs a plan that the rules before have accepted, at some sizes.
///
/// Large ones run on two threads: two sizes at once, or races apart from results. All runs of a size are the same.
pub(super) fn run<'p>(mut models: impl Iterator<Item = Model<'p>>) -> Verdict {
    let mut verdict = Verdict::default();
    while let Some(model) = models.next() {
        // One size that shows a race is enough.
        let (races, results) = (verdict.races.is_empty(), verdict.results.is_empty());
        let worth = model.effect_count() >= WORTH;
        let runs = match worth.then(|| models.next()).flatten() {
            Some(other) => {
                let (second, first) =
                    parallel::both(true, || seen(&other, races, results), || seen(&model, races, results));
                [Some(first), Some(second)]
            }
            None if worth && results => {
                let (second, first) = parallel::both(true, || seen(&model, false, true), || seen(&model, races, false));
                [Some(Verdict { results: second.results, ..first }), None]
            }
            None => [Some(seen(&model, races, results)), None],
        };
        for Verdict { deadlocks, races, results } in runs.into_iter().flatten() {
            if !deadlocks.is_empty() {
                return Verdict { deadlocks, ..verdict };
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

/// What the rules find at one size: those about races and those about results only if asked.
fn seen(model: &Model, races: bool, results: bool) -> Verdict {
    let uneven = model.size.is_uneven();
    let mut verdict = Verdict::default();
    if !Races::fits(model) {
        verdict.races.push(model::too_fine(model.view));
        return verdict;
    }
    let mut rules =
        Rules { races: races.then(|| Races::new(model)), dataflow: if results { Dataflow::of(model) } else { None } };
    let mut machine = Machine::new(model);
    machine.run(&mut rules);
    if let Some(finding) = deadlock::check(&machine) {
        verdict.deadlocks.push(finding);
        return verdict;
    }
    if let Some(races) = rules.races {
        verdict.races.extend(at_size(uneven, relaunch::findings(races)));
    }
    if let Some(dataflow) = rules.dataflow {
        verdict.results.extend(at_size(uneven, dataflow.findings(model)));
    }
    verdict
}

/// Findings, with the sizes at which they come up if those are not all.
fn at_size(uneven: bool, found: Diagnostics) -> impl Iterator<Item = Diagnostic> {
    found.into_iter().map(move |mut finding| {
        if uneven {
            finding.message += ", at sizes that do not divide into equal parts for all members of a group";
        }
        finding
    })
}

/// All that look on.
struct Rules<'m, 'p> {
    races: Option<Races<'m, 'p>>,
    dataflow: Option<Dataflow<'p>>,
}

impl<'p> Watch<'p> for Rules<'_, 'p> {
    fn done(&mut self, model: &Model<'p>, agent: usize, step: usize) {
        if let Some(races) = &mut self.races {
            races.done(model, agent, step);
        }
        if let Some(dataflow) = &mut self.dataflow {
            dataflow.done(model, agent, step);
        }
    }

    fn met(&mut self, barrier: u32, agents: &[usize]) {
        if let Some(races) = &mut self.races {
            races.met(barrier, agents);
        }
    }
}

/// What the rules find in a plan, whatever the rules before them say.
#[cfg(test)]
pub(super) fn verdict(plan: &crate::plan::PlanTree) -> Verdict {
    let pairs = super::Pairs::of(plan);
    let sizes = super::model::sizes(plan.into()).expect("a plan of few pieces");
    run(sizes.into_iter().map(|size| Model::of(plan.into(), &pairs, size)))
}
