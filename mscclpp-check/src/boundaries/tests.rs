//! Which plans need a launch barrier, and where.

use super::{LaunchBoundaries, launch_boundaries};
use crate::testing::plan;
use mscclpp_plan::raw::PlanTree;

/// Remote buffers 0, 1, 2 are the other rank's scratch, input, output; both ranks do the same.
fn both(ops: &str) -> PlanTree {
    plan(&[&[ops], &[ops]])
}

fn double(mut plan: PlanTree) -> PlanTree {
    plan.double_scratch = true;
    plan
}

/// Start, end, sizes, puts.
fn facts(plan: &PlanTree) -> [bool; 4] {
    let facts = launch_boundaries(plan);
    assert!(facts.sizes_may_follow_in_fixed_halves == facts.sizes_may_follow || plan.double_scratch);
    assert!(facts.accesses_follow_begin || !facts.can_start_without_barrier);
    let LaunchBoundaries { can_start_without_barrier, can_end_without_barrier, .. } = facts;
    [can_start_without_barrier, can_end_without_barrier, facts.sizes_may_follow, facts.puts_arrive_in_launch]
}

const OPEN: &str = "rlxsignal.m#0; rlxwait.m#0; nop";
const CLOSE: &str = "nop; signal.m#0; wait.m#0";
const RELAXED_CLOSE: &str = "nop; rlxsignal.m#0; rlxwait.m#0";

#[test]
fn local_plan_needs_no_barrier() {
    assert_eq!(facts(&both("copy i0 > o0")), [true; 4]);
    assert_eq!(facts(&both("copy i0 > s0; copy s0 > o0")), [true; 4]);
}

#[test]
fn relaxed_close_after_put_into_output_needs_end_barrier() {
    let put = |open: &str, close: &str| both(&format!("{open}; put.m i0 > r2:0; {close}"));
    assert_eq!(facts(&put(OPEN, CLOSE)), [true; 4]);
    assert_eq!(facts(&put(OPEN, RELAXED_CLOSE)), [true, false, true, true]);
    // One end of the handshake is enough to make it relaxed.
    assert_eq!(facts(&put(OPEN, "nop; signal.m#0; rlxwait.m#0")), [true, false, true, true]);
    // An access that only reads need not be visible to its owner.
    assert_eq!(facts(&both(&format!("{OPEN}; get.m#0 r1:0 > o0; {RELAXED_CLOSE}"))), [true; 4]);
    // What a rank wrote itself is visible to its caller.
    assert_eq!(facts(&both(&format!("copy i0 > o0; {RELAXED_CLOSE}"))), [true; 4]);
}

#[test]
fn missing_handshakes_need_barriers() {
    // A plan that the checks reject needs a barrier where they reject it.
    assert_eq!(facts(&both(&format!("put.m i0 > r2:0; {CLOSE}"))), [false, true, true, true]);
    assert_eq!(facts(&both(&format!("{OPEN}; put.m i0 > r2:0"))), [true, false, true, true]);
    let transfer = "put.m i0 > r0:0; nop; signal.m#0; wait.m#0; nop; copy s0 > o0";
    assert_eq!(facts(&both(transfer)), [false, true, false, true]);
    // Accesses to scratch happen before a barrier at the end; accesses before the peer has started do not.
    assert!(launch_boundaries(&both(transfer)).accesses_follow_begin);
    assert!(!launch_boundaries(&both(&format!("put.m i0 > r2:0; {CLOSE}"))).accesses_follow_begin);
    assert!(!launch_boundaries(&both("copy i0+2 > s0+2; copy s1 > o0")).accesses_follow_begin);
    // Plans with races and plans that cannot be executed need it everywhere.
    assert_eq!(facts(&both("copy i0+2 > s0+2; copy s1 > o0")), [false; 4]);
    assert_eq!(facts(&plan(&[&["wait.m#0"], &[""]])), [false; 4]);
    assert_eq!(facts(&plan(&[&["copy i0 > o9"], &[""]])), [false; 4]);
}

#[test]
fn scratch_written_by_a_peer_is_visible_to_the_next_launch() {
    // No operation reads what the peer wrote to scratch; the next launch overwrites it.
    let unread = |close: &str| {
        plan(&[
            &[&format!("wait.m#1; nop; put.m i0 > r0:0; {close}")],
            &[&format!("copy i0 > s0; nop; copy s0 > o0; nop; signal.m#1; {close}")],
        ])
    };
    assert_eq!(facts(&unread(CLOSE)), [true; 4]);
    assert_eq!(facts(&unread(RELAXED_CLOSE)), [false, true, false, true]);
    // A rank that has started again has ended its kernel before: then a relaxed signal is enough.
    let begun = plan(&[
        &[&format!("rlxsignal.m#2; wait.m#1; nop; put.m i0 > r0:0; {RELAXED_CLOSE}")],
        &[&format!("rlxwait.m#2; nop; copy i0 > s0; nop; copy s0 > o0; nop; signal.m#1; {RELAXED_CLOSE}")],
    ]);
    assert_eq!(facts(&begun), [true; 4]);
}

#[test]
fn packets_that_were_read_are_visible() {
    let acknowledged = "ppkt.m i0 > r0:0; repkt i0 s0 > i0; ppkt.m i0 > r0:1; upkt s1 > o0";
    assert!(launch_boundaries(&both(acknowledged)).can_start_without_barrier);
    assert!(launch_boundaries(&both(acknowledged)).can_end_without_barrier);
    let one_shot = double(both("ppkt.m i0 > r0:0; repkt i0 s0 > o0"));
    // Double scratch separates launches of one size, not those of two.
    assert_eq!(facts(&one_shot), [true, true, false, true]);
    assert!(launch_boundaries(&one_shot).sizes_may_follow_in_fixed_halves);
}

#[test]
fn sizes_may_follow_where_all_scratch_is_free() {
    let opened = |ops: &str| both(&format!("{OPEN}; {ops}"));
    let transfer = "put.m i0 > r0:0; nop; signal.m#1; wait.m#1; nop; copy s0 > o0";
    assert_eq!(facts(&opened(transfer)), [true; 4]);
    assert_eq!(facts(&both(&format!("{transfer}; {CLOSE}"))), [true; 4]);
    // Two blocks use separate chunks, but one block's chunk has the address of the other one's at another size.
    let chunk = |k: u32| {
        format!(
            "rlxsignal.m#{k}; rlxwait.m#{k}; nop; put.m i{k} > r0:{k}; nop; signal.m#{k}; wait.m#{k}; nop; copy s{k} > o{k}"
        )
    };
    let blocks = [chunk(0), chunk(2)];
    let blocks: Vec<&str> = blocks.iter().map(String::as_str).collect();
    let apart = plan(&[&blocks, &blocks]);
    assert!(launch_boundaries(&apart).can_start_without_barrier);
    // A rank starts when both its blocks have ended, so its signal is for both.
    assert!(launch_boundaries(&apart).sizes_may_follow);
    // The acknowledgement of one chunk does not order others.
    let per_chunk = "ppkt.m i0 > r0:0; ppkt.m i1 > r0:1; upkt s0 > o0; ppkt.m i2 > r0:2; upkt s1 > o1; ppkt.m i3 > r0:3; \
                     upkt s2 > o2; upkt s3 > o3";
    let per_chunk = launch_boundaries(&both(per_chunk));
    assert!(!per_chunk.sizes_may_follow);
    // Plain data and packets share scratch.
    let mixed = format!("{OPEN}; cpkt i0 > s4; upkt s4 > o1; {transfer}");
    assert_eq!(facts(&both(&mixed)), [true, true, false, true]);
}

#[test]
fn put_that_is_only_flushed_may_arrive_after_its_launch() {
    let put = |rest: &str| plan(&[&[&format!("wait.p#1; nop; put.p#0 i0 > r0:0; flush.p#0{rest}")], &["signal.p#1"]]);
    assert_eq!(facts(&put("")), [true, true, true, false]);
    let mut heard = put("; signal.p#0");
    heard.ranks[1].blocks[0].ops.extend(crate::testing::ops("wait.p#0"));
    assert_eq!(facts(&heard), [true; 4]);
    let to_output = plan(&[&["wait.p#1; nop; put.p#0 i0 > r2:0; flush.p#0"], &["signal.p#1"]]);
    assert_eq!(facts(&to_output), [true, false, true, false]);
    assert!(launch_boundaries(&to_output).accesses_follow_begin);
    let mut heard_of_it = plan(&[&["put.p#0 i0 > r2:0; signal.p#0; flush.p#0"], &["wait.p#0"]]);
    assert!(!launch_boundaries(&heard_of_it).accesses_follow_begin);
    heard_of_it.ranks[0].blocks[0].ops.splice(0..0, crate::testing::ops("wait.p#1; nop"));
    heard_of_it.ranks[1].blocks[0].ops.splice(0..0, crate::testing::ops("signal.p#1"));
    assert!(launch_boundaries(&heard_of_it).accesses_follow_begin);
}
