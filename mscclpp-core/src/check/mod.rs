//! What a plan must keep, checked on the plan as it stands: one of our own lowering, or one from a file that a stranger
//! wrote.
//!
//! 1. [`shape`]: every number points at something that is there, every chunk lies in its buffer, and every operation has
//!    the references and channels that its kind demands (M0202 to M0206,
//!    and the recorder's own codes).
//! 2. [`pairing`]: on every channel pair there are as many waits as signals, and semaphores end where they began, for
//!    every message size (M0201, M0207).
//! 3. [`deadlock`]: every thread block runs to its end (M0208).
//!
//! A rule relies on those before it, so the first one with findings is the last one that is asked. [`reference_limits`]
//! stands apart: it binds only plans that the reference system's executor is to run.
//!
//! Nothing here is shared with lowering or the executors except the types of a plan: the rules would hardly find
//! mistakes in arithmetic that they use themselves.

mod deadlock;
mod effect;
mod limits;
mod pairing;
mod place;
mod shape;

pub use limits::reference_limits;

use crate::diag::Diagnostics;
use crate::plan::PlanTree;

/// Checks a plan. Accepts it if no finding comes back.
///
/// A finding points at the source of its operation where the plan knows it, else at
/// `rank R / thread block T / operation I (name)`.
///
/// # Cost
/// Linear in the operations, except that loops are run a few times over.
///
/// # Panics
/// Never, whatever the plan says.
pub fn check(plan: &PlanTree) -> Diagnostics {
    let rules = [shape::check, pairing::check, deadlock::check];
    rules.iter().map(|rule| rule(plan)).find(|found| !found.is_empty()).unwrap_or_default()
}

/// Findings of one rule that are kept; a plan with more is wrong enough.
const MOST_FINDINGS: usize = 100;
