//! Plans that fail only when loops make many iterations.

use mscclpp_core::check::check;
use mscclpp_core::plan::raw::PlanTree;
use mscclpp_fuzz::{Failure, Outcome, ScheduleFuzzer};

use crate::testing;

/// Schedules of `mscclpp check --fuzz`.
const SEEDS: u64 = 200;

/// Both ranks send all their windows, then receive; the given number of windows may be in flight.
fn eager(credits: usize) -> PlanTree {
    let (give, take) = ("signal.m#1; ".repeat(credits), "; wait.m#1".repeat(credits));
    let block = format!(
        "{give}loop 64x1 {{ wait.m#1; nop; put.m i0 > r0:0; nop; signal.m#0 }}; \
         loop 64x1 {{ wait.m#0; nop; copy s0 > o0; nop; signal.m#1 }}{take}"
    );
    testing::plan(&[&[&block], &[&block]])
}

/// The same between two blocks of a rank: each first fills its window of scratch, then drains the other's.
fn eager_units(units: i64) -> PlanTree {
    let block = |fill, empty, mine, other| {
        format!(
            "loop 64x1 {{ sem_acquire#{mine}; nop; copy i{fill} > s{fill}; nop; sem_release#{} }}; \
             loop 64x1 {{ sem_acquire#{}; nop; copy s{empty} > o{empty}; nop; sem_release#{other} }}",
            mine + 1,
            other + 1
        )
    };
    let mut plan = testing::plan(&[&[&block(0, 1, 0, 2), &block(1, 0, 2, 0)], &[]]);
    plan.ranks[0].semaphores = vec![units, 0, units, 0];
    plan
}

#[test]
fn credits_that_run_out_are_found() {
    for credits in [1, 4, 40, 300] {
        let plan = eager(credits as usize);
        for (what, plan) in [("credits", plan), ("units", eager_units(credits))] {
            assert!(!check(&plan).is_empty(), "{credits} {what}");
            let found = ScheduleFuzzer::new(&plan).find_failure(0..SEEDS).expect("it can be run");
            println!("{credits} {what}: {found:?}");
            assert!(matches!(found, Some((_, Failure::Stalled { .. }))), "{credits} {what}: {found:?}");
        }
    }
}

#[test]
fn trips_selects_the_trip_count() {
    let plan = eager(40);
    for trips in [1, 2, 39, 40] {
        for seed in 0..3 {
            let outcome = ScheduleFuzzer::new(&plan).iterations(trips).run(seed).expect("it can be run");
            assert_eq!(outcome, Outcome::Passed { unordered: 0 }, "{trips}");
        }
    }
    for trips in [41, 42, 120] {
        let outcome = ScheduleFuzzer::new(&plan).iterations(trips).run(0).expect("it can be run");
        assert!(matches!(outcome, Outcome::Failed(Failure::Stalled { .. })), "{trips}: {outcome:?}");
    }
}
