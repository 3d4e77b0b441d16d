//! What a plan must keep, checked on the plan as it stands: one of our own lowering, or one from a file that a stranger
//! wrote.
//!
//! 1. [`shape`]: every number points at something that is there, every chunk lies in its buffer, and every operation has
//!    the references and channels that its kind demands (M0202 to M0206,
//!    and the recorder's own codes).
//! 2. [`pairing`]: on every channel pair there are as many waits as signals, and semaphores end where they began, for
//!    every message size (M0201, M0207).
//! 3. [`deadlock`]: every thread block runs to its end (M0208).
//! 4. [`race`]: of two accesses to the same bytes of which one writes, one is over before the other begins (M0210).
//!
//! A rule relies on those before it, so the first one with findings is the last one that is asked. [`reference_limits`]
//! stands apart: it binds only plans that the reference system's executor is to run.
//!
//! Nothing here is shared with lowering or the executors except the types of a plan: the rules would hardly find
//! mistakes in arithmetic that they use themselves.

mod deadlock;
mod effect;
mod limits;
mod machine;
mod pairing;
mod place;
mod race;
mod shape;

pub use limits::reference_limits;

use crate::diag::{Code, Diagnostics};
use crate::plan::PlanTree;

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
    /// [`shape`] and [`pairing`].
    Basic,
    /// None. The plan may hang or compute nonsense; executors still refuse what would leave its memory.
    Off,
}

impl Checks {
    /// Checks a plan as [`check`] does, with only the rules of this level and without what is allowed.
    pub fn run(&self, plan: &PlanTree) -> Diagnostics {
        let rules = match self.level {
            Level::Full => RULES,
            Level::Basic => &RULES[..2],
            Level::Off => &[],
        };
        let mut left = Diagnostics::default();
        for (number, rule) in rules.iter().enumerate() {
            let found = rule(plan);
            // The other rules look things up as the first one has found them to be, allowed or not.
            let unsound = number == 0 && !found.is_empty();
            left.extend(found.into_iter().filter(|finding| !self.allow.contains(&finding.code)));
            if unsound || !left.is_empty() {
                break;
            }
        }
        left
    }
}

/// The rules, in the order in which they rely on each other.
const RULES: &[fn(&PlanTree) -> Diagnostics] = &[shape::check, pairing::check, deadlock::check, race::check];

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
    Checks::default().run(plan)
}

/// Findings of one rule that are kept; a plan with more is wrong enough.
const MOST_FINDINGS: usize = 100;
