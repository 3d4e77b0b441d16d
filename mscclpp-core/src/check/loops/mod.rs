//! Loops, for every size of a message.

use crate::check::place::Placed;
use crate::diag::{Code, Diagnostic, Diagnostics, Site};
use crate::plan::PlanTree;

mod family;
mod packets;
mod proof;
pub(super) mod rates;
pub(super) mod rolled;
#[cfg(test)]
mod tests;

use proof::{Proof, prove};
use rolled::Rolled;

/// What stands in the way of a verdict for all sizes.
pub(super) struct Obstacle<'p> {
    at: Option<Placed<'p>>,
    message: String,
    help: &'static str,
}

fn too_many_combinations<'p>(_plan: &'p PlanTree, at: Option<Placed<'p>>) -> Obstacle<'p> {
    let message = "the plan's loops make too many different combinations of iterations before they repeat".to_owned();
    Obstacle { at, message, help: "take units and spans whose quotients have a small common multiple" }
}
