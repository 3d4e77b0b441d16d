//! `mscclpp check --fuzz`: runs a scaled-down plan under adversarial schedules and weak memory.

use std::fmt;

use mscclpp_core::plan::raw::PlanTree;
use mscclpp_fuzz::{Failure, Outcome, ScheduleFuzzer};
use serde_json::{Value, json};

use crate::exit;
use crate::progress::Progress;

/// Outcome of all runs.
pub(super) struct Fuzzed {
    /// Runs that ended with correct results, and those that reached the step limit.
    passed: u32,
    step_limit: u32,
    /// Seed and defect of the run that failed, which is the last one.
    failed: Option<(u32, Failure)>,
    /// Why the plan cannot be run at all.
    error: Option<String>,
}

impl Fuzzed {
    /// Runs a plan under a number of schedules, or until a run fails.
    pub(super) fn of(plan: &PlanTree, schedules: u32) -> Self {
        let progress = Progress::new(schedules.into());
        progress.doing(format!("fuzzing {}", plan.name));
        let fuzzer = ScheduleFuzzer::new(plan);
        let mut found = Self { passed: 0, step_limit: 0, failed: None, error: None };
        for seed in 0..schedules {
            match fuzzer.run(seed.into()) {
                Ok(Outcome::Passed { .. }) => found.passed += 1,
                Ok(Outcome::StepLimit) => found.step_limit += 1,
                Ok(Outcome::Failed(failure)) => {
                    found.failed = Some((seed, failure));
                    break;
                }
                Err(error) => {
                    found.error = Some(error.to_string());
                    break;
                }
            }
            progress.step();
        }
        found
    }

    /// Returns the outcome for a plan that the checks reject, which is not run.
    pub(super) fn rejected() -> Self {
        let error = Some("the checks reject the plan; `--level off` runs it unchecked".to_owned());
        Self { passed: 0, step_limit: 0, failed: None, error }
    }

    /// Returns the exit code for this result alone.
    pub(super) fn exit(&self) -> u8 {
        match self {
            Self { failed: Some(_), .. } => exit::FAILURE,
            // The result is unknown: no run ended.
            Self { passed: 0, .. } => exit::UNAVAILABLE,
            _ => exit::SUCCESS,
        }
    }

    pub(super) fn json(&self) -> Value {
        let failed = self.failed.as_ref().map(|(seed, failure)| json!({ "seed": seed, "how": failure.to_string() }));
        json!({ "passed": self.passed, "step_limit": self.step_limit, "failed": failed, "error": self.error })
    }
}

impl fmt::Display for Fuzzed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = |n: u32| if n == 1 { "" } else { "s" };
        let Self { passed, step_limit, .. } = *self;
        match (&self.failed, &self.error) {
            (Some((seed, failure)), _) => write!(f, "failed in schedule {seed}: {failure}"),
            (None, Some(why)) => write!(f, "not run in any schedule: {why}"),
            (None, None) => {
                write!(f, "passed {passed} schedule{}", plural(passed))?;
                match step_limit {
                    0 => Ok(()),
                    n => write!(f, "; {n} schedule{} reached the step limit", plural(n)),
                }
            }
        }
    }
}
