//! Fuzzing of many plans.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its own part of this")]

use mscclpp_core::check::check;
use mscclpp_fuzz::{Outcome, ScheduleFuzzer};

use crate::corpus::{Named, size};

/// Returns a number from the environment.
pub fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Returns the seeds per plan: `MSCCLPP_NUM_SEEDS`, or the default.
pub fn seeds(default: u64) -> u64 {
    number("MSCCLPP_NUM_SEEDS", default)
}

/// Fuzzes every plan that the checker accepts; prints the failures, and the numbers of plans and runs.
pub fn run_all(plans: &[Named], operations: usize) -> (Vec<String>, usize, u64) {
    let (mut broken, mut fuzzed, mut runs) = (Vec::new(), 0, 0);
    for Named { name, plan } in plans {
        if size(plan) > operations {
            continue;
        }
        let found = check(plan);
        if !found.is_empty() {
            broken.push(format!("{name} is refused: {found}"));
            continue;
        }
        fuzzed += 1;
        for seed in 0..seeds(2) {
            runs += 1;
            let fuzzer = ScheduleFuzzer::new(plan);
            // Engines between nodes let puts overtake each other.
            let fuzzer = if seed % 2 == 1 { fuzzer.reorders_puts() } else { fuzzer };
            match fuzzer.run(seed).unwrap_or_else(|error| panic!("{name}: {error}")) {
                Outcome::Passed { unordered: 0 } => {}
                Outcome::Passed { unordered } => {
                    broken.push(format!("{name}, seed {seed}: {unordered} accesses that nothing orders"));
                    break;
                }
                Outcome::Failed(failure) => {
                    broken.push(format!("{name}, seed {seed}: {failure}"));
                    break;
                }
                Outcome::StepLimit => broken.push(format!("{name}, seed {seed}: undecided")),
            }
        }
    }
    (broken, fuzzed, runs)
}

/// Operations of the largest plan that is fuzzed.
pub fn limit(default: usize) -> usize {
    usize::try_from(number("MSCCLPP_OPERATIONS", default as u64)).unwrap_or(usize::MAX)
}
