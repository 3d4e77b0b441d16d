//! Loops at every size, compared with executions of single sizes.

mod brute;
mod programs;
mod random;

use super::Verdict;
use super::family::{Condition, Run};
use super::proof::{Proof, prove, prove_with};
use super::rolled::Rolled;
use crate::check;
use crate::pairing::{self, Pairs};
use crate::testing::plan;
use mscclpp_plan::diag::Code;
use mscclpp_plan::raw::PlanTree;

/// Returns the proof of a plan; `None` if there is nothing to prove.
fn rolled(plan: &PlanTree) -> Option<Rolled<'_>> {
    Rolled::of(plan.into(), &Pairs::of(plan)).unwrap_or_else(|obstacle| panic!("{}", obstacle.message))
}

/// Returns how a plan's loops end: `None` if at every size, otherwise the bytes of a chunk of the smallest size that
/// deadlocks.
#[track_caller]
fn stuck_at(plan: &PlanTree) -> Option<u64> {
    let rolled = rolled(plan)?;
    match prove(&rolled) {
        Proof::Completes(_) => None,
        Proof::Deadlock { number, .. } => Some(rolled.trips.size(number).max(rolled.sizes.min) * rolled.sizes.grain),
        Proof::Undecided { number } => panic!("undecided from combination {number} on"),
    }
}

/// Returns the same for a plan in the notation of tests, with chunks in units of the alignment, 16 bytes, and these
/// semaphores on rank 0.
#[track_caller]
fn stuck(ranks: &[&[&str]], semaphores: &[i64]) -> Option<u64> {
    let mut plan = plan(ranks);
    for (slot, value) in plan.ranks[0].semaphores.iter_mut().zip(semaphores) {
        *slot = *value;
    }
    assert!(pairing::check((&plan).into(), &Pairs::of(&plan)).is_empty(), "signals and waits differ");
    stuck_at(&plan).map(|bytes| bytes / 16)
}

/// Sends windows, as many as there are credits, before it receives any: correct up to as many iterations.
fn eager(credits: usize) -> PlanTree {
    let [give, take] = ["signal.m#1; ", "wait.m#1; "].map(|op| op.repeat(credits));
    let block = format!("{give}loop 64x1 {{ wait.m#1; signal.m#0 }}; loop 64x1 {{ wait.m#0; signal.m#1 }}; {take} nop");
    plan(&[&[&block], &[&block]])
}

#[test]
fn credits_given_before_a_loop_are_used_up_at_the_size_that_needs_one_more() {
    for credits in [0, 1, 2, 4, 64, 1000, 4096] {
        assert_eq!(stuck_at(&eager(credits)), Some(64 * credits as u64 + 16), "{credits}");
    }
}

#[test]
fn credits_of_all_kinds_add_up() {
    let waits = "sem_acquire#1; loop 64x1 { sem_release#0 }";
    for (initial, released, expected) in [(0, 0, 1), (3, 0, 4), (0, 3, 4), (2, 3, 6), (1 << 12, 5, (1 << 12) + 6)] {
        let block = format!("loop 64x1 {{ sem_acquire#0 }}; sem_release#1; {} nop", "sem_acquire#0; ".repeat(released));
        let gives = format!("{} sem_release#3", "sem_release#0; ".repeat(released));
        let ranks: &[&[&str]] = &[&[&block, waits, &gives, "sem_acquire#3"], &[""]];
        assert_eq!(stuck(ranks, &[initial]), Some((expected - 1) * 4 + 1), "{initial} {released}");
    }
    // The maximum initial value of a semaphore.
    let ranks: &[&[&str]] = &[&["loop 64x1 { sem_acquire#0 }; sem_release#1", waits], &[""]];
    assert_eq!(stuck(ranks, &[i32::MAX.into()]), Some(4 * (1 << 31) - 4 + 1));
    // Released in time.
    let ranks: &[&[&str]] =
        &[&["loop 64x1 { sem_acquire#0 }; sem_release#1", "loop 64x1 { sem_release#0 }; sem_acquire#1"], &[""]];
    assert_eq!(stuck(ranks, &[1000]), None);
}

/// Single waits outside of loops, for signals of a loop.
#[test]
fn consecutive_waits_are_merged() {
    for (count, waits) in [(4096, "wait.m#1; "), (2048, "wait.m#1; wait.m#2; wait.m#1; ")] {
        let waits = waits.repeat(count);
        let signals = waits.replace("wait", "signal");
        let one = format!("{waits} loop 64x1 {{ wait.m#1; wait.m#2 }}");
        let two = format!("loop 64x1 {{ signal.m#1; signal.m#2 }}; {signals} nop");
        assert_eq!(stuck(&[&[&one], &[&two]], &[]), None);
        let late = format!("{waits} loop 64x1 {{ wait.m#1; wait.m#2; signal.m#3 }}");
        let two = format!("loop 64x1 {{ signal.m#1; signal.m#2 }}; loop 64x1 {{ wait.m#3 }}; {signals} nop");
        assert_eq!(stuck(&[&[&late], &[&two]], &[]), Some(1));
    }
}

#[test]
fn trip_counts_that_no_size_has_do_not_count() {
    // Three more iterations for every further grain: with four credits two grains are too many, not four iterations.
    let block = "signal.m#1; signal.m#1; signal.m#1; signal.m#1; loop 16x3 { wait.m#1; signal.m#0 }; \
                 loop 16x3 { wait.m#0; signal.m#1 }; wait.m#1; wait.m#1; wait.m#1; wait.m#1";
    assert_eq!(stuck(&[&[block], &[block]], &[]), Some(2));
}

#[test]
fn messages_without_data_make_no_iteration() {
    // The loop's signal unblocks block 0, which otherwise waits for one that waits for it.
    let ranks: &[&[&str]] =
        &[&["wait.m#0; signal.m#1; loop 64x1 { wait.m#0 }"], &["loop 64x1 { signal.m#0 }; wait.m#1; signal.m#0"]];
    assert_eq!(stuck(ranks, &[]), Some(0));
    let mut plan = plan(ranks);
    plan.min_message_size = 1;
    assert_eq!(stuck_at(&plan), None);
}

#[test]
fn sizes_beyond_the_limits_of_messages_do_not_count() {
    let mut plan = eager(4);
    let limit = 8 * 4 * 64;
    plan.max_message_size = limit;
    assert_eq!(stuck_at(&plan), None);
    plan.max_message_size = limit + 1;
    assert_eq!(stuck_at(&plan), Some(4 * 64 + 16));
    (plan.min_message_size, plan.max_message_size) = (1 << 20, 1 << 30);
    assert_eq!(stuck_at(&plan), Some(1 << 17));
}

#[test]
fn loop_with_one_iteration_beside_a_long_loop_is_analyzed() {
    let ranks: &[&[&str]] = &[
        &[
            "loop 64x1 { sem_acquire#1 }; loop 1024x1 { sem_release#2 }",
            "loop 1024x1 { sem_acquire#2 }; loop 64x1 { sem_release#1 }",
        ],
        &[""],
    ];
    assert_eq!(stuck(ranks, &[0, 3]), Some(3 * 4 + 1));
    assert_eq!(stuck(ranks, &[0, 17]), Some(17 * 4 + 1));
}

#[test]
fn consecutive_loops_are_accepted_in_either_direction() {
    let send = "loop 64x1 { signal.m#0 }";
    let receive = "loop 64x1 { wait.m#0 }";
    let [first, last] = [format!("{send}; {receive}"), format!("{receive}; {send}")];
    assert_eq!(stuck(&[&[&first], &[&first]], &[]), None);
    assert_eq!(stuck(&[&[&first], &[&last]], &[]), None);
    assert_eq!(stuck(&[&[&last], &[&last]], &[]), Some(1));
}

#[test]
fn waiter_that_takes_two_signals_per_iteration_is_tracked_across_two_loops() {
    let twice = "loop 64x1 { sem_acquire#0,0 }; sem_release#1";
    let in_a_row = "loop 64x1 { sem_release#0 }; loop 64x1 { sem_release#0 }; sem_acquire#1";
    assert_eq!(stuck(&[&[twice, in_a_row], &[""]], &[]), None);
    // The second loop begins only after the waiter has ended.
    let late = "loop 64x1 { sem_release#0 }; sem_acquire#1; loop 64x1 { sem_release#0 }";
    assert_eq!(stuck(&[&[twice, late], &[""]], &[5]), Some(5 * 4 + 1));
    assert_eq!(stuck(&[&[twice, late], &[""]], &[4]), Some(4 * 4 + 1));
}

#[test]
fn barriers_in_loops_are_reached_in_every_iteration() {
    let block = "loop 64x1 { barrier#0=2 }; barrier#1=2; loop 64x1 { barrier#0=2; barrier#0=2 }";
    assert_eq!(stuck(&[&[block, block]], &[]), None);
    let other = "loop 64x1 { barrier#0=2; barrier#0=2 }; barrier#1=2; loop 64x1 { barrier#0=2 }";
    assert_eq!(stuck(&[&[block, other]], &[]), Some(1));
    // Equally often in all, one loop after the other or in one.
    let both = "loop 64x1 { barrier#0=2; barrier#0=2 }";
    let apart = "loop 64x1 { barrier#0=2 }; loop 64x1 { barrier#0=2 }";
    assert_eq!(stuck(&[&[both, apart]], &[]), None);
    // One block has a barrier in the middle of its loop that the other has at the end.
    let [one, two] = ["loop 64x1 { sem_acquire#0; barrier#0=2 }", "loop 64x1 { barrier#0=2; sem_release#0 }"];
    for initial in 0..3 {
        assert_eq!(stuck(&[&[one, two]], &[initial]), (initial == 0).then_some(1), "{initial}");
    }
}

#[test]
fn packets_of_a_window_are_waited_for_in_its_iteration() {
    // A window is returned for each window.
    let [one, two] = ["loop 64x1 { ppkt.m i0 > r0:0; upkt s1 > o0 }", "loop 64x1 { upkt s0 > o0; ppkt.m i0 > r0:1 }"];
    assert_eq!(stuck(&[&[one], &[two]], &[]), None);
    let [one, two] = ["loop 64x1 { upkt s0 > o0; ppkt.m i0 > r0:1 }", "loop 64x1 { upkt s1 > o0; ppkt.m i0 > r0:0 }"];
    assert_eq!(stuck(&[&[one], &[two]], &[]), Some(1));
    // All windows are sent before the first is returned, and only as many of them may be in flight.
    let sends = "loop 64x1 { wait.m#0; ppkt.m i0 > r0:0 }; loop 64x1 { upkt s1 > o0 }; wait.m#0; wait.m#0";
    let echo = "signal.m#0; signal.m#0; loop 64x1 { upkt s0 > o0; ppkt.m i0 > r0:1; signal.m#0 }";
    assert_eq!(stuck(&[&[sends], &[echo]], &[]), None);
    let late = "signal.m#0; signal.m#0; loop 64x1 { upkt s0 > o0 }; loop 64x1 { ppkt.m i0 > r0:1; signal.m#0 }";
    assert_eq!(stuck(&[&[sends], &[late]], &[]), Some(2 * 4 + 1));
    // Those of a whole loop, and those of no loop.
    let whole = "loop 64x1 { ppkt.m i0 > r0:0 }; upkt s1 > o0";
    assert_eq!(stuck(&[&[whole], &["upkt s0 > o0; ppkt.m i0 > r0:1"]], &[]), None);
    assert_eq!(
        stuck(&[&["loop 64x1 { upkt s1 > o0 }; ppkt.m i0 > r0:0"], &["upkt s0 > o0; ppkt.m i0 > r0:1"]], &[]),
        Some(1)
    );
}

/// Returns the obstacle of a plan.
fn obstacle(ranks: &[&[&str]]) -> Option<String> {
    let plan = plan(ranks);
    let pairs = Pairs::of(&plan);
    Rolled::of((&plan).into(), &pairs).err().map(|obstacle| obstacle.message)
}

#[test]
fn packets_in_partially_overlapping_windows_are_rejected() {
    let writer = "loop 64x2 { ppkt.m i0+2 > r0:0+2 }; wait.m#0";
    for (reader, right) in [
        ("loop 64x2 { upkt s0+2 > o0+2 }", true),
        ("loop 64x2 { upkt/0:2 s0+2 > o0+2 }", false),
        ("loop 128x2 { upkt s0+2 > o0+2 }", false),
        ("loop 32x1 { upkt s0 > o0 }", false),
        ("upkt s1 > o0", true),
        ("upkt/1:2 s0+2 > o0+2", true),
        ("upkt/1:3 s0+2 > o0+2", true),
    ] {
        let reader = format!("{reader}; signal.m#0");
        assert_eq!(obstacle(&[&[writer], &[&reader]]).is_none(), right, "{reader}");
    }
    let sync = "loop 64x1 { signal.m#0 }";
    let other = "loop 64x1 { wait.m#0 }";
    for (writers, reader, right) in [
        (["cpkt/0:3 i0+2 > s0+2; cpkt/1:3 i0+2 > s0+2", "cpkt/2:3 i0+2 > s0+2"], "upkt s1 > o1", true),
        (["cpkt/0:3 i0+2 > s0+2", "cpkt/2:3 i0+2 > s0+2"], "upkt s1 > o1", false),
        (["cpkt/0:3 i0+2 > s0+2", "cpkt/2:3 i0+2 > s0+2"], "upkt/2:3 s0+2 > o0+2", true),
        (["cpkt/0:2 i0+2 > s0+2", "cpkt i1 > s1"], "upkt/0:3 s0+2 > o0+2", true),
        (["cpkt i0 > s0", "cpkt i3 > s3"], "upkt s0+2 > o0+2", false),
    ] {
        let ranks: &[&[&str]] = &[&[writers[0], writers[1], reader, sync], &[other]];
        assert_eq!(obstacle(ranks).is_none(), right, "{writers:?} {reader}");
    }
}

/// Plans with a semaphore that deadlock at one size below their limit, by the condition of a run without which the
/// deadlock is not found. No plan is known that needs [`Condition::Copies`].
const NEEDED: &[(Condition, &str, i64)] = &[
    (Condition::Take, "loop 64x1 { sem_acquire#0 }; loop 64x1 { sem_acquire#0; sem_release#0,0 }", 5),
    (Condition::Leave, "loop 64x1 { sem_acquire#0; sem_release#0 }", 0),
    (Condition::Room, "loop 64x1 { sem_acquire#0 }; loop 64x1 { sem_release#0 }", 5),
];

#[test]
fn every_condition_of_a_run_finds_a_deadlock() {
    for (condition, ops, initial) in NEEDED {
        let mut plan = plan(&[&[ops], &[""]]);
        plan.ranks[0].semaphores[0] = *initial;
        plan.max_message_size = 8 * stuck_at(&plan).expect("they wait forever");
        let rolled = rolled(&plan).expect("there are loops");
        assert!(matches!(prove(&rolled), Proof::Deadlock { .. }), "{condition:?}");
        let without = prove_with(&rolled, |family, last| {
            let mut run = Run::new(&rolled, family, last);
            run.without = Some(*condition);
            run
        });
        assert!(matches!(without, Proof::Completes(_)), "{condition:?}: {without:?}");
    }
}

/// Returns the findings of the checks, as code and message.
fn findings(plan: &PlanTree) -> Vec<(Code, String)> {
    check(plan).into_iter().map(|finding| (finding.code, finding.message)).collect()
}

#[test]
fn finding_names_the_smallest_size_and_the_cycle() {
    let (code, message) = findings(&eager(100)).remove(0);
    assert_eq!(code, Code::Deadlock);
    assert_eq!(
        message,
        "deadlock: `wait` (rank 0, thread block 0) waits for a signal of rank 1 on memory channel 1; 2 thread blocks \
         form a wait-for cycle, first with 101 iterations of a loop, for chunks of more than 6400 bytes"
    );
    let mut limited = eager(100);
    limited.max_message_size = 8 * 6400;
    assert_eq!(findings(&limited), []);
}

/// An execution at the first size that deadlocks would take more steps than the limit.
#[test]
fn deadlock_beyond_the_step_limit_of_reports_is_found() {
    let ranks: &[&[&str]] =
        &[&["loop 64x1 { sem_acquire#0 }; sem_release#1", "sem_acquire#1; loop 64x1 { sem_release#0 }"]];
    let mut plan = plan(ranks);
    plan.ranks[0].semaphores[0] = 1 << 20;
    let Verdict::Deadlock { finding, at_once } = super::check((&plan).into(), &Pairs::of(&plan)) else {
        panic!("it waits forever")
    };
    assert!(!at_once);
    assert_eq!(
        finding.message,
        "`sem_acquire` (rank 0, thread block 0) waits forever, first with 1048577 iterations of a loop, for chunks of \
         more \
         than 67108864 bytes"
    );
}

#[test]
fn loops_of_too_many_combinations_are_rejected() {
    let body = "{ sem_release#0; sem_acquire#0 }";
    let ops = [257, 263, 269, 271, 277].map(|prime| format!("loop {}x1 {body}", 16 * prime)).join("; ");
    let (code, message) = findings(&plan(&[&[&ops], &[""]])).remove(0);
    assert_eq!(code, Code::Undecided, "{message}");
    assert!(message.ends_with("too many combinations before they repeat"), "{message}");
}

#[test]
fn packets_that_are_written_in_other_windows_are_rejected() {
    let ranks: &[&[&str]] =
        &[&["loop 64x2 { ppkt.m i0+2 > r0:0+2 }; wait.m#0"], &["loop 64x1 { upkt s0 > o0 }; nop; signal.m#0"]];
    let (code, message) = findings(&plan(ranks)).remove(0);
    assert_eq!(code, Code::Undecided, "{message}");
    assert!(
        message.contains(
            "`upkt` (rank 1, thread block 0) reads packets of `ppkt` (rank 0, thread block 0), whose windows"
        )
    );
}

/// Which of two thread blocks receives a unit is unspecified if units run out at some size.
#[test]
fn two_waiters_of_a_loop_compete_for_every_initial_value() {
    let block = "loop 64x1 { sem_acquire#0,0; sem_release#0,0 }";
    for initial in [1, 2, 1000] {
        let mut plan = plan(&[&[block, block], &[""]]);
        plan.ranks[0].semaphores[0] = initial;
        let found = findings(&plan);
        assert!(found.iter().any(|(code, _)| *code == Code::Deadlock), "{initial}: {found:?}");
    }
    // As many as there ever are.
    let mut plan = plan(&[&["sem_acquire#0; sem_release#0", "sem_acquire#0; sem_release#0"], &[""]]);
    plan.ranks[0].semaphores[0] = 2;
    assert_eq!(findings(&plan), []);
}
