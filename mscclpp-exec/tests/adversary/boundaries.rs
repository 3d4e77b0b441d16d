//! Launch barriers: who needs one breaks without.

use mscclpp_core::check::{check, launch_boundaries};
use mscclpp_core::plan::PlanTree;
use mscclpp_exec::adversary::Adversary;

use super::testing;

/// Remote buffers 0, 1, 2 are the other rank's scratch, input, output; both ranks do the same.
fn both(ops: &str) -> PlanTree {
    testing::plan(&[&[ops], &[ops]])
}

#[track_caller]
fn needs(plan: &PlanTree, start: bool, end: bool) {
    let found = check(plan);
    assert!(found.is_empty(), "{found}");
    let facts = launch_boundaries(plan);
    assert_eq!((facts.can_start_without_barrier, facts.can_end_without_barrier), (!start, !end));
    let with = Adversary::new(plan).hunt(0..60).expect("it can be run");
    assert_eq!(with, None, "with barriers");
    let without = Adversary::new(plan).without_barriers().hunt(0..400).expect("it can be run");
    println!("{without:?}");
    assert_eq!(without.is_some(), start || end, "without barriers: {without:?}");
}

#[test]
fn relaxed_close_after_put_into_output_needs_end_barrier() {
    let put = |close: &str| both(&format!("rlxsignal.m#0; rlxwait.m#0; nop; put.m i0 > r2:0; nop; {close}"));
    needs(&put("signal.m#1; wait.m#1"), false, false);
    needs(&put("rlxsignal.m#1; rlxwait.m#1"), false, true);
    needs(&put("signal.m#1; rlxwait.m#1"), false, true);
}

#[test]
fn relaxed_close_after_put_into_scratch_needs_start_barrier() {
    let unread = |close: &str| {
        testing::plan(&[
            &[&format!("wait.m#1; nop; put.m i0 > r0:0; nop; {close}")],
            &[&format!("copy i0 > s0; nop; copy s0 > o0; nop; signal.m#1; nop; {close}")],
        ])
    };
    needs(&unread("signal.m#0; wait.m#0"), false, false);
    needs(&unread("rlxsignal.m#0; rlxwait.m#0"), true, false);
    // Who has begun again has flushed what it wrote.
    let open = testing::plan(&[
        &["rlxsignal.m#2; wait.m#1; nop; put.m i0 > r0:0; nop; rlxsignal.m#0; rlxwait.m#0"],
        &["rlxwait.m#2; nop; copy i0 > s0; nop; copy s0 > o0; nop; signal.m#1; nop; rlxsignal.m#0; rlxwait.m#0"],
    ]);
    needs(&open, false, false);
}
