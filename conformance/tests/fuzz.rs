//! The fuzzer breaks the invalid plans of MSCCL++, and none that the checker accepts.

#[path = "../../mscclpp-fuzz/tests/fuzz/runs.rs"]
mod runs;

use crate::corpus::{Named, faulty, fragments, reference};
use mscclpp_core::check::{check, launch_boundaries};
use mscclpp_fuzz::ScheduleFuzzer;
use runs::{limit, run_all, seeds};

#[test]
#[cfg_attr(not(reference_plans), ignore = "MSCCLPP_CONFORMANCE does not name a directory of reference plans")]
fn accepted_reference_plans_pass_the_fuzzer() {
    let plans = reference();
    let (broken, fuzzed, runs) = run_all(&plans, limit(700));
    println!("{fuzzed} plans, {runs} runs");
    assert!(broken.is_empty(), "{} broken\n{}", broken.len(), broken.join("\n"));
}

/// The reference's simulator, the checker and the fuzzer agree: relaxed closing handshakes are correct where there is a
/// launch barrier, and only there; everything else that the simulator reports is an error.
#[test]
#[cfg_attr(not(reference_plans), ignore = "MSCCLPP_CONFORMANCE does not name a directory of reference plans")]
fn invalid_reference_plans_fail_the_fuzzer() {
    for (Named { name, plan }, faults) in faulty() {
        let sound = faults.iter().all(|fault| fault.ends_with("relaxed-only"));
        let found = check(&plan);
        let broken =
            ScheduleFuzzer::new(&plan).find_failure(0..seeds(60)).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(broken.is_none(), sound, "{name}: {faults:?}, but {broken:?}");
        assert!(found.is_empty() == sound, "{name}: {faults:?}, but {found}");
        if sound {
            let facts = launch_boundaries(&plan);
            let free = facts.can_start_without_barrier && facts.can_end_without_barrier;
            let broken =
                ScheduleFuzzer::new(&plan).without_barriers().find_failure(0..seeds(200)).expect("it was run before");
            assert!(!free && broken.is_some(), "{name}: {faults:?}, but {facts:?} and {broken:?}");
        }
    }
}

/// Fragments that the checker accepts have the same result in every order, whatever the result is.
#[test]
#[cfg_attr(not(reference_plans), ignore = "MSCCLPP_CONFORMANCE does not name a directory of reference plans")]
fn accepted_fragments_pass_the_fuzzer() {
    let fragments = fragments();
    let accepted: Vec<Named> = fragments.into_iter().filter(|named| check(&named.plan).is_empty()).collect();
    let (broken, fuzzed, runs) = run_all(&accepted, limit(700));
    println!("{fuzzed} plans, {runs} runs");
    assert!(broken.is_empty(), "{} broken\n{}", broken.len(), broken.join("\n"));
}
