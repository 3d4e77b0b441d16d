//! Plans that run to their end, and plans that deadlock.

use crate::run::verdict;
use crate::testing::plan;
use mscclpp_plan::diag::{Code, Diagnostics, Site};
use mscclpp_plan::raw::PlanTree;

fn check(plan: &PlanTree) -> Diagnostics {
    verdict(plan).deadlocks
}

#[track_caller]
fn runs(ranks: &[&[&str]]) {
    let found = check(&plan(ranks));
    assert!(found.is_empty(), "{found}");
}

/// Returns the message, and the whole finding.
#[track_caller]
fn stuck(plan: &PlanTree) -> (String, String) {
    let found = check(plan);
    assert_eq!(found.len(), 1, "{found}");
    let finding = found.iter().next().unwrap();
    assert_eq!(finding.code, Code::Deadlock, "{found}");
    (finding.message.clone(), finding.to_string())
}

#[test]
fn matched_handshakes_complete() {
    runs(&[&["signal.m#0; wait.m#0"], &["signal.m#0; wait.m#0"]]);
    runs(&[&["signal.m#0,1; wait.m#0,1"], &["wait.m#1; signal.m#1; wait.m#0; signal.m#0"]]);
    runs(&[&["pwsf.p#0 i0 > r0:0; wait.p#0"], &["wait.p#0; signal.p#0"]]);
}

#[test]
fn barriers_and_semaphores_of_a_rank_complete() {
    runs(&[&["sem_acquire#0; barrier#0=2", "sem_release#0; barrier#0=2; nop"], &[""]]);
    runs(&[&["barrier#0=2; barrier#0=2", "barrier#0=2; barrier#0=2"], &[""]]);
    runs(&[&["sem_acquire#0,1", "sem_release#1", "sem_release#0"], &[""]]);
}

#[test]
fn packets_can_be_read_once_written() {
    runs(&[&["ppkt.m i0 > r0:0; upkt s1 > o0"], &["upkt s0 > o0; ppkt.m i0 > r0:1"]]);
    runs(&[&["rppkt.m s0 > r0:0", "cpkt i0 > s0"], &["repkt i0 s0 > i0"]]);
    runs(&[&["cpkt i0 > s0; gstorepkt.w s0 > w0:1; upkt s1 > o0"], &["upkt s1 > o0"]]);
    runs(&[&["repkt i0 s0 > i0", "recpkt i1 s1 > i1 s0", "cpkt i2 > s1"], &[""]]);
    runs(&[&["cpkt i0 > s0; ppkt.p#0 s0 > r0:0"], &["upkt s0 > o0"]]);
    // Two members of a group write halves, a third reads the whole.
    runs(&[&["cpkt/0:2 i0 > s0", "cpkt/1:2 i0 > s0", "upkt s0 > o0; upkt/2:3 s0 > o0"], &[""]]);
}

#[test]
fn wait_for_cycle_is_reported_completely() {
    let (message, finding) = stuck(&plan(&[&["wait.m#0; signal.m#0"], &["nop; wait.m#0; signal.m#0"]]));
    assert_eq!(
        message,
        "deadlock: `wait` (rank 0, thread block 0) waits for a signal of rank 1 on memory channel 0; 2 thread blocks \
         form a wait-for cycle"
    );
    for part in [
        "after its own wait, `signal` (rank 1, thread block 0) provides it at rank 1 / thread block 0 / \
         operation 2 (signal)",
        "`wait` (rank 1, thread block 0) waits for a signal of rank 0 on memory channel 0 at rank 1 / thread block 0 / operation 1 (wait)",
        "after its own wait, `signal` (rank 0, thread block 0) provides it at rank 0 / thread block 0 / \
         operation 1 (signal)",
        "--> rank 0 / thread block 0 / operation 0 (wait)",
        "rank 0 has 4 memory channels to rank 1, and channels between two ranks are paired in the order of their creation",
    ] {
        assert!(finding.contains(part), "{part}\nis not in\n{finding}");
    }
}

#[test]
fn block_that_waits_for_itself_is_reported() {
    let (message, _) = stuck(&plan(&[&["sem_acquire#0; sem_release#0"], &[""]]));
    assert_eq!(
        message,
        "deadlock: `sem_acquire` (rank 0, thread block 0) waits for a unit of semaphore 0, which this thread block \
         provides only after its own wait"
    );
    let (message, _) = stuck(&plan(&[&["upkt s0 > o0; cpkt i0 > s0"], &[""]]));
    assert!(message.contains("the packets of scratch chunk 0"), "{message}");
}

#[test]
fn root_of_the_chain_is_reported_rather_than_its_waiters() {
    let (message, finding) =
        stuck(&plan(&[&["barrier#0=2", "wait.m#0; barrier#0=2"], &["upkt s5 > o0; signal.m#0", ""]]));
    assert_eq!(
        message,
        "`upkt` (rank 1, thread block 0) waits for the packets of scratch chunk 5, but no remaining operation \
         provides it (3 thread blocks are blocked in total)"
    );
    assert!(finding.contains("--> rank 1 / thread block 0 / operation 0 (upkt)"), "{finding}");
}

#[test]
fn barriers_in_different_orders_deadlock() {
    let (message, _) = stuck(&plan(&[&["barrier#0=2; barrier#1=2", "barrier#1=2; barrier#0=2"], &[""]]));
    assert!(message.contains("the other thread blocks of barrier 0; 2 thread blocks"), "{message}");
}

#[test]
fn half_of_a_packet_range_is_not_enough() {
    let (message, _) = stuck(&plan(&[&["cpkt/0:2 i0+2 > s0+2", "upkt s0+2 > o0+2"], &[""]]));
    assert!(message.contains("the packets of scratch chunk 1"), "{message}");
}

#[test]
fn port_does_not_create_packets() {
    let (message, _) = stuck(&plan(&[&["ppkt.p#0 s0 > r0:0; cpkt i0 > s0"], &["upkt s0 > o0"]]));
    assert!(
        message.contains("`ppkt` (rank 0, thread block 0) needs the packets of scratch chunk 0, which"),
        "{message}"
    );
}

#[test]
fn loops_without_enough_signals_deadlock() {
    let blocks: &[&str] = &[
        "loop 64x1 { sem_acquire#0; copy i0 > s0; sem_release#1 }",
        "loop 64x1 { sem_acquire#1; copy s0 > o0; sem_release#0 }",
    ];
    let mut pipelined = plan(&[blocks, &[""]]);
    pipelined.ranks[0].semaphores[0] = 2;
    assert!(check(&pipelined).is_empty());
    pipelined.ranks[0].semaphores[0] = 0;
    let (message, _) = stuck(&pipelined);
    assert!(message.contains("2 thread blocks form a wait-for cycle"), "{message}");
    // Enough for two iterations, and the third signal never arrives.
    let mut dry = plan(&[&["loop 64x1 { sem_acquire#0 }; loop 64x1 { sem_release#0 }"], &[""]]);
    dry.ranks[0].semaphores[0] = 2;
    let found = crate::check(&dry);
    assert_eq!(found.iter().map(|finding| finding.code).collect::<Vec<_>>(), [Code::Deadlock], "{found}");
}

#[test]
fn findings_have_the_source_location_of_the_plan() {
    let mut plan = plan(&[&["wait.m#0; signal.m#0"], &["wait.m#0; signal.m#0"]]);
    let place =
        mscclpp_plan::origin::SourceLocation { file: "ring.rs".into(), line: 6, column: 9, ..Default::default() };
    plan.ranks[0].blocks[0].ops[0].origin = plan.origins.add(place.clone());
    let found = check(&plan);
    assert_eq!(found.iter().next().unwrap().site, Site::Source(place));
}

#[test]
fn empty_loop_and_empty_plan_complete() {
    runs(&[&["loop 64x1 {  }; signal.m#0"], &["wait.m#0"]]);
    runs(&[&[], &[]]);
}

/// Block 1 releases units only after block 0 has acquired all that it needs: more than there are, at large sizes.
#[test]
fn high_initial_units_run_out_at_large_sizes() {
    for initial in [0, 1, 13, 14, 15, 20, 100, 1000] {
        // The third block's loop makes ten iterations for each of the others'.
        let ops = [
            "loop 640x1 { sem_acquire#0 }; sem_release#1",
            "sem_acquire#1; loop 640x1 { sem_release#0 }",
            "loop 64x1 { nop }",
        ];
        let mut plan = plan(&[&ops, &[""]]);
        plan.ranks[0].semaphores[0] = initial;
        let found = crate::check(&plan);
        assert_eq!(found.iter().map(|finding| finding.code).collect::<Vec<_>>(), [Code::Deadlock], "{initial}");
    }
}

/// Loops that would make millions of iterations are not executed that often.
#[test]
fn large_trip_counts_are_not_executed() {
    let mut plan = plan(&[&["loop 16x1 { nop }", "loop 17179869184x1 { nop }"], &[""]]);
    let codes = |plan: &PlanTree| crate::check(plan).iter().map(|finding| finding.code).collect::<Vec<_>>();
    assert_eq!(codes(&plan), []);
    plan.ranks[0].blocks[0].ops[0].body.as_mut().unwrap().num_chunks = u32::MAX;
    plan.ranks[0].blocks[1].ops[0].body.as_mut().unwrap().unit = 1 << 60;
    assert_eq!(codes(&plan), []);
}
