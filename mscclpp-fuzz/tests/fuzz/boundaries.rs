//! Launch barriers: plans that need one fail without it.

use mscclpp_core::check::{check, launch_boundaries};
use mscclpp_core::plan::raw::PlanTree;
use mscclpp_fuzz::ScheduleFuzzer;

use crate::testing;

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
    let with = ScheduleFuzzer::new(plan).find_failure(0..60).expect("it can be run");
    assert_eq!(with, None, "with barriers");
    let without = ScheduleFuzzer::new(plan).without_barriers().find_failure(0..400).expect("it can be run");
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
    // A rank that has started again has flushed its writes.
    let open = testing::plan(&[
        &["rlxsignal.m#2; wait.m#1; nop; put.m i0 > r0:0; nop; rlxsignal.m#0; rlxwait.m#0"],
        &["rlxwait.m#2; nop; copy i0 > s0; nop; copy s0 > o0; nop; signal.m#1; nop; rlxsignal.m#0; rlxwait.m#0"],
    ]);
    needs(&open, false, false);
}

/// Checks whether launches of other sizes may follow, with the checker and with the fuzzer.
#[track_caller]
fn follow(plan: &PlanTree, may: bool) {
    let found = check(plan);
    assert!(found.is_empty(), "{found}");
    assert_eq!(launch_boundaries(plan).sizes_may_follow, may);
    assert_eq!(ScheduleFuzzer::new(plan).find_failure(0..100).expect("it can be run"), None, "where they meet");
    let fuzzer = ScheduleFuzzer::new(plan).launches(4).sizes_follow();
    let found = fuzzer.find_failure(0..if may { 200 } else { 2000 }).expect("it can be run");
    println!("{found:?}");
    assert_eq!(found.is_some(), !may, "where they do not: {found:?}");
}

#[test]
fn launch_of_another_size_uses_other_addresses() {
    let transfer = "put.m i0 > r0:0; nop; signal.m#1; wait.m#1; nop; copy s0 > o0";
    follow(&both(&format!("rlxsignal.m#0; rlxwait.m#0; nop; {transfer}")), true);
    follow(&both(&format!("{transfer}; nop; signal.m#0; wait.m#0")), true);
    let looped = "loop 64x1 { put.m i0 > r0:0; nop; signal.m#1 }; loop 64x1 { wait.m#1; nop; copy s0 > o0 }";
    follow(&both(&format!("rlxsignal.m#0; rlxwait.m#0; nop; {looped}")), true);
    // The begin of the second half differs, too.
    let mut one_shot = both("ppkt.m i0 > r0:7; repkt i0 s7 > o0");
    one_shot.double_scratch = true;
    follow(&one_shot, false);
    // A read of one chunk orders nothing of the chunks that have its address at another size.
    let per_chunk = "ppkt.m i0 > r0:0; ppkt.m i1 > r0:1; upkt s0 > o0; ppkt.m i2 > r0:2; upkt s1 > o1; ppkt.m i3 > r0:3; \
                     upkt s2 > o2; upkt s3 > o3";
    let per_chunk = both(per_chunk);
    let found =
        ScheduleFuzzer::new(&per_chunk).launches(4).sizes_follow().find_failure(0..2000).expect("it can be run");
    assert!(found.is_some() && !launch_boundaries(&per_chunk).sizes_may_follow, "{found:?}");
}
