//! The fuzzer fails defective plans, and no plan that the checker accepts.
//!
//! `conformance/tests/fuzz.rs` tests the same with the reference plans.

mod boundaries;
mod faults;
mod flush;
mod loops;
mod malformed;
mod order;
mod regressions;
pub(crate) mod runs;
pub(crate) mod small;

use crate::corpus::{self, shipped};
use mscclpp_core::check::launch_boundaries;
use mscclpp_fuzz::ScheduleFuzzer;
use runs::{limit, run_all};

#[test]
fn builtin_algorithms_pass() {
    let plans = shipped(&[(2, 2), (3, 3), (4, 4), (5, 5), (8, 8), (4, 2), (6, 3), (6, 2), (2, 1)], 2);
    let (broken, fuzzed, runs) = run_all(&plans, limit(500));
    println!("{fuzzed} plans, {runs} runs");
    assert!(broken.is_empty(), "{} broken\n{}", broken.len(), broken.join("\n"));
}

/// Plans that need no launch barrier pass without any, and some of those that need one fail.
#[test]
fn builtin_algorithms_pass_without_barriers_they_do_not_need() {
    let plans = shipped(&[(2, 2), (3, 3), (4, 4), (4, 2)], 1);
    let (mut free, mut follow, mut lines, mut broken) = (0, 0, Vec::new(), Vec::new());
    for corpus::Named { name, plan } in &plans {
        let facts = launch_boundaries(plan);
        lines.push(format!("{name}: {facts:?}"));
        if corpus::size(plan) > limit(300) || !facts.can_start_without_barrier || !facts.can_end_without_barrier {
            continue;
        }
        free += 1;
        let found =
            ScheduleFuzzer::new(plan).without_barriers().find_failure(0..runs::seeds(4)).expect("it can be run");
        broken.extend(found.map(|(seed, failure)| format!("{name}, seed {seed}: {failure}")));
        if facts.sizes_may_follow {
            follow += 1;
            let fuzzer = ScheduleFuzzer::new(plan).without_barriers().sizes_follow();
            let found = fuzzer.find_failure(0..runs::seeds(4)).expect("it can be run");
            broken.extend(found.map(|(seed, failure)| format!("{name}, several sizes, seed {seed}: {failure}")));
        }
    }
    println!("{}\n{free} of {} fuzzed, {follow} of them with other sizes", lines.join("\n"), plans.len());
    assert!(broken.is_empty(), "{} broken\n{}", broken.len(), broken.join("\n"));
    assert!(free > 0 && follow > 0);
}
