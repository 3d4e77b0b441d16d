//! The second witness of `mscclpp check`: an adversary that runs the plan in the worst orders that the machine allows.

use std::fmt;

use mscclpp_core::plan::PlanTree;
use mscclpp_exec::adversary::{Adversary, Failure, Outcome};
use serde_json::{Value, json};

use crate::exit;
use crate::progress::Progress;

/// What became of the runs.
pub(super) struct Fuzzed {
    /// Runs that ended, and those that were given up because they took too long.
    ended: u32,
    undecided: u32,
    /// The run that broke the plan, which is the last one.
    broken: Option<(u32, Failure)>,
    /// Why it cannot be run at all.
    impossible: Option<String>,
}

impl Fuzzed {
    /// Runs a plan in so many schedules, or until one of them breaks it.
    pub(super) fn of(plan: &PlanTree, schedules: u32) -> Self {
        let progress = Progress::new(schedules.into());
        progress.doing(format!("running {} against its interests", plan.name));
        let adversary = Adversary::new(plan);
        let mut found = Self { ended: 0, undecided: 0, broken: None, impossible: None };
        for seed in 0..schedules {
            match adversary.attack(seed.into()) {
                Ok(Outcome::Withstood { .. }) => found.ended += 1,
                Ok(Outcome::Undecided) => found.undecided += 1,
                Ok(Outcome::Broken(failure)) => {
                    found.ended += 1;
                    found.broken = Some((seed, failure));
                    break;
                }
                Err(error) => {
                    found.impossible = Some(error.to_string());
                    break;
                }
            }
            progress.step();
        }
        found
    }

    /// The exit code that stands for it alone.
    pub(super) fn exit(&self) -> u8 {
        match self {
            Self { broken: Some(_), .. } => exit::NO,
            // Nothing is known: no run came to an end.
            Self { ended: 0, .. } => exit::UNABLE,
            _ => exit::DONE,
        }
    }

    pub(super) fn json(&self) -> Value {
        let broken = self.broken.as_ref().map(|(seed, failure)| json!({ "seed": seed, "how": failure.to_string() }));
        json!({ "ended": self.ended, "undecided": self.undecided, "broken": broken, "impossible": self.impossible })
    }
}

impl fmt::Display for Fuzzed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = |n: u32| if n == 1 { "" } else { "s" };
        let Self { ended, undecided, .. } = *self;
        match (&self.broken, &self.impossible) {
            (Some((seed, failure)), _) => write!(f, "broken in schedule {seed}: {failure}"),
            (None, Some(why)) => write!(f, "not run in any schedule: {why}"),
            (None, None) => {
                write!(f, "not broken in {ended} schedule{}", plural(ended))?;
                match undecided {
                    0 => Ok(()),
                    n => write!(f, "; {n} schedule{} took too long and said nothing", plural(n)),
                }
            }
        }
    }
}
