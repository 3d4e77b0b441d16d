//! The rules for which a plan runs in the abstract: `deadlock`, `race` and `dataflow`, all in one run.

use super::dataflow::Dataflow;
use super::deadlock;
use super::machine::{Machine, Watch};
use super::model::Model;
use super::race::{Races, relaunch};
use crate::diag::{Diagnostic, Diagnostics};

/// What the rules have found. Each relies on those before it to have found nothing.
#[derive(Default)]
pub(super) struct Verdict {
    pub(super) deadlocks: Diagnostics,
    pub(super) races: Diagnostics,
    pub(super) results: Diagnostics,
}

/// Runs a plan that the rules before have accepted, at some sizes.
pub(super) fn run<'p>(models: impl Iterator<Item = Model<'p>>) -> Verdict {
    let mut verdict = Verdict::default();
    for model in models {
        let uneven = model.size.is_uneven();
        let mut machine = Machine::new(&model);
        // One size that shows a race is enough.
        let races = verdict.races.is_empty().then(|| Races::new(&model));
        let mut rules = Rules { races, dataflow: Dataflow::of(&model) };
        machine.run(&mut rules);
        if let Some(finding) = deadlock::check(&machine) {
            verdict.deadlocks.push(finding);
            return verdict;
        }
        if let Some(races) = rules.races {
            verdict.races.extend(at_size(uneven, relaunch::findings(races)));
        }
        if let Some(dataflow) = rules.dataflow
            && verdict.results.is_empty()
        {
            verdict.results.extend(at_size(uneven, dataflow.findings(&model)));
        }
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

    fn met(&mut self, agents: &[usize]) {
        if let Some(races) = &mut self.races {
            races.met(agents);
        }
    }
}

/// What the rules find in a plan, whatever the rules before them say.
#[cfg(test)]
pub(super) fn verdict(plan: &crate::plan::PlanTree) -> Verdict {
    let pairs = super::Pairs::of(plan);
    let sizes = super::model::sizes(plan).expect("a plan of few pieces");
    run(sizes.into_iter().map(|size| Model::of(plan, &pairs, size)))
}
