//! Executions of a plan for what is no rule.

use super::deadlock;
use super::machine::{AbstractMachine, Observer};
use super::model::{self, Model};
use super::pairing::{self, Pairs};
use super::shape;
use super::view::View;

/// Calls a function with the model of a plan at the first of its sizes; `None` if the rules before an execution have findings.
pub(super) fn with_first_model<R>(view: View, then: impl FnOnce(&Model) -> Option<R>) -> Option<R> {
    if !shape::check(view).is_empty() {
        return None;
    }
    let pairs = Pairs::of(view.plan);
    if !pairing::check(view, &pairs).is_empty() {
        return None;
    }
    then(&Model::of(view, &pairs, model::sizes(view)?.into_iter().next()?))
}

/// Executes a plan with an observer, and returns whether every thread block runs to its end.
pub(super) fn runs_to_its_end<'m, 'p>(model: &'m Model<'p>, observer: &mut impl Observer<'p>) -> bool {
    let mut machine = AbstractMachine::new(model);
    machine.run(observer);
    deadlock::check(&machine).is_none()
}
