//! Where block syncs are needed, and where not.

use super::super::data_sync;
use crate::collective::CollectiveKind;
use crate::plan::PlanTree;
use crate::testing::{plan, text};

fn mark(plan: &mut PlanTree) {
    let waits = super::Dependencies::of(plan);
    plan.ranks.iter_mut().enumerate().for_each(|(number, rank)| waits.mark(number, rank));
}

fn of(mut plan: PlanTree) -> String {
    mark(&mut plan);
    plan.ranks.iter_mut().for_each(data_sync::insert);
    text(&plan.ranks[0].blocks[0].ops)
}

/// Returns the operations of one block, with a `|` before each that gets a `nop`.
#[track_caller]
fn check(cases: &[&str]) {
    for case in cases {
        let ops = case.replace('|', "");
        let mut expected = plan(&[&[&case.replace('|', "nop; ")], &[""]]);
        expected.ranks.iter_mut().for_each(data_sync::insert);
        assert_eq!(of(plan(&[&[&ops], &[""]])), text(&expected.ranks[0].blocks[0].ops), "from: {ops}");
    }
}

#[test]
fn conflicting_operations_are_separated() {
    check(&[
        "copy i0 > s0; |copy s0 > o0",
        "copy i0 > s0; |put.m#0 s0 > r0:0",
        "put.m#0 s0 > r0:0; |copy i0 > s0",
        "get.m#0 r0:0 > s0; |re i0 s0 > i0",
        "copy i0 > s0; |copy i1 > s0",
        "copy i0 > s0+2; |copy s1 > o0",
        "upkt s0 > i0; |put.m#0 i0 > r0:0",
        "copy i0 > s0; put.p#0 i0 > r0:0; |put.p#0 s0 > r0:0; copy s0 > o0",
    ]);
}

#[test]
fn reads_and_other_chunks_are_not() {
    check(&[
        "put.m#0 i0 > r0:0; copy i0 > s0; copy i0 > o0",
        "copy i0 > s0; copy i1 > s1; put.m#0 s2 > r0:0",
        "copy i0 > s0; copy o0 > i1",
        "put.m#0 i0 > r0:0; get.m#0 r0:0 > i1",
    ]);
}

#[test]
fn one_sync_orders_all_accesses_before_it() {
    check(&[
        "copy i0 > s0; copy i1 > s1; |copy s0 > o0; copy s1 > o1",
        "copy i0 > s0; nop; copy s0 > o0",
        "copy i0 > s0; barrier#0=2; copy s0 > o0",
        "copy i0 > s0; signal.m#0; |copy s0 > o0",
        "copy i0 > s0; signal.m#0@before; copy s0 > o0",
        "copy i0 > s0; wait.m#0@after; copy s0 > o0",
    ]);
}

#[test]
fn packets_order_themselves() {
    check(&[
        "cpkt i0 > s0; upkt s0 > o0",
        "cpkt i0 > s0; rppkt.m#0 s0 > r0:0; upkt s0 > o0",
        "upkt s0 > o0; cpkt i0 > s0",
        "ppkt.m#0 i0 > r0:0; repkt i1 s0 s1 > i1; |ppkt.m#0 i1 > r0:1",
        "upkt s0 > i0; repkt i0 s1 > o0",
        "repkt i0 s0 > o0; upkt s1 > i0",
    ]);
}

#[test]
fn packet_slots_are_not_reused_by_other_threads() {
    check(&["upkt s0+2 > o0+2; |cpkt i0 > s0", "cpkt i0 > s0; |cpkt/0:2 i1 > s0"]);
}

#[test]
fn a_port_does_not_wait_for_packets() {
    check(&["cpkt i0 > s0; |ppkt.p#0 s0 > r0:0", "cpkt i0 > s0; rppkt.p#0 s0 > r0:0"]);
}

#[test]
fn packet_reductions_read_their_plain_source() {
    check(&["copy i1 > i0; |repkt i0 s0 > o0", "repkt i0 s0 > o0; |copy i1 > i0", "copy s0 > i0; repkt i1 s0 > i1"]);
}

#[test]
fn reads_are_tracked_after_later_reads() {
    // A 16-byte vector and an 8-byte packet of one element are assigned to different threads.
    check(&["ppkt.m#0 i0 > r0:0; |re i0 s0 > i0", "ppkt.m#0 i0 > r0:0; put.m#0 i0 > r0:1; |re i0 s0 > i0"]);
    // Equal vectors are assigned to one thread, which executes operations in order.
    check(&["put.m#0 i0 > r0:0; re i0 s0 > i0"]);
    // Unequal ranges and slices are not.
    check(&["put.m#0 i0+2 > r0:0+2; |re i0 s0 > i0", "put.m#0/0:2 i0 > r0:0; |re i0 s0 > i0"]);
    // A port reads at any time.
    check(&["put.p#0 i0 > r0:0; |re i0 s0 > i0"]);
}

#[test]
fn conflict_keeps_the_reads_of_the_conflicting_operation() {
    check(&["copy s0 > o0; |copy i0 > o0; copy s1 > i0", "copy s0 > o0+2; |copy i0 > o0; |upkt s1 > i0"]);
}

#[test]
fn unaligned_chunks_move_vectors_to_other_threads() {
    let mut plan = plan(&[&["put.m#0 i0 > r0:0; re i0 s0 > i0"], &[""]]);
    plan.buffer_alignment = 8;
    assert_eq!(of(plan), "put.m#0 i0 > r0:0; nop; re i0 s0 > i0");
}

#[test]
fn input_and_output_are_one_memory_in_place() {
    let blocks: &[&[&str]] = &[&["copy i1 > o0; copy i0+2 > o2+2"], &[""]];
    let mut plan = plan(blocks);
    plan.collective.kind = CollectiveKind::AllReduce;
    assert_eq!(of(plan.clone()), blocks[0][0]);
    plan.collective.in_place = true;
    assert_eq!(of(plan.clone()), "copy i1 > o0; nop; copy i0+2 > o2+2");
    // In an all-gather of parts of 4 chunks, input chunk j is output chunk j on rank 0, and 4 + j on rank 1.
    plan.collective.kind = CollectiveKind::AllGather;
    plan.collective.chunk_factor = 4;
    plan.ranks[1] = plan.ranks[0].clone();
    assert_eq!(of(plan.clone()), "copy i1 > o0; nop; copy i0+2 > o2+2");
    mark(&mut plan);
    assert_eq!(text(&plan.ranks[1].blocks[0].ops), blocks[0][0]);
}

#[test]
fn switch_operations_are_tracked() {
    check(&[
        "copy i0 > s0; |gstore.w#0 s0 > w0:1",
        // Multicast instructions have equal mappings.
        "glre.w#0 w0:0 > s7; gstore.w#0 s7 > w0:1",
        "glre.w#0 w0:0 > s7; |gstore.w#0 s6+2 > w0:1+2",
        "glre.w#0 w0:0 > o0; |put.m#0 o0 > r0:0",
        "gstore.w#0 i0 > w0:1; |copy s1 > o0",
        "copy i0 > s1; |glres.w#0 w0:1 > w0:1",
        "glres.w#0 w0:1 > w0:1; glres.w#0 w0:2 > w0:2",
    ]);
}

#[test]
fn loop_counts_as_one_operation() {
    check(&[
        "loop 16x1 { copy i0 > s0 }; |put.m#0 s0 > r0:0",
        "copy i0 > s0; |loop 16x1 { copy s0 > o0 }",
        "loop 16x1 { copy i0 > s0; |copy s0 > o0 }; copy i0 > o1",
        // The loop's last access to s7 is a read, but it wrote it as well.
        "loop 16x1 { glre.w#0 w0:0 > s7; gstore.w#0 s7 > w0:1 }; |copy s7 > o0",
    ]);
}

#[test]
fn loop_with_a_sync_counts_as_two_operations() {
    check(&[
        // Operations before its last sync happen before the operations after it, in the last iteration too.
        "loop 16x1 { copy i0 > s0; |put.m#0 s0 > r0:0 }; copy s0 > o0",
        "loop 16x1 { copy i0 > s0; nop; put.m#0 s0 > r0:0 }; copy s0 > o0",
        "loop 16x1 { copy i0 > s0; nop; put.m#0 s0 > r0:0 }; |copy i0 > s0",
        "loop 16x1 { ppkt.m#0 i0 > r0:4; nop; copy i1 > s1 }; re i0 i2 > i0",
        "loop 16x1 { nop; ppkt.m#0 i0 > r0:4 }; |re i0 i2 > i0",
        // Operations after its first sync need no sync with earlier ones.
        "ppkt.m#0 i0 > r0:4; loop 16x1 { nop; re i0 i1 > i0 }",
        "ppkt.m#0 i0 > r0:4; |loop 16x1 { re i0 i1 > i0; nop }",
        // But a loop may have no iteration.
        "ppkt.m#0 i0 > r0:4; loop 16x1 { nop; copy i4 > s4; nop }; |re i0 i1 > i0",
    ]);
}
