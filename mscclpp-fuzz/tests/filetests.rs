//! The runner `fuzz` of the file tests (`mscclpp-core/filetests`): the schedule fuzzer finds no failure of a plan that is accepted,
//! and one of a plan that is not.

#[path = "../../mscclpp-core/tests/filetests/common.rs"]
pub(crate) mod common;

use common::tests;
use mscclpp_fuzz::ScheduleFuzzer;

/// Schedules of a right plan.
const SCHEDULES: u64 = 50;

/// Schedules in which a wrong plan has to fail at least once.
const MAX_SCHEDULES: u64 = 2000;

#[test]
fn fuzzer_and_comments_agree() {
    let mut wrong = Vec::new();
    for test in tests("fuzz") {
        let plan = test.plan();
        let schedules = if test.is_accepted() { SCHEDULES } else { MAX_SCHEDULES };
        match ScheduleFuzzer::new(&plan).find_failure(0..schedules) {
            Ok(failure) if failure.is_none() == test.is_accepted() => {}
            other => wrong.push(format!("{}: {other:?}", test.name)),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
