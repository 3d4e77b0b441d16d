//! Every rule of fusion, each with the pair next to it that must not fuse.

use crate::collective::CollectiveKind;
use crate::plan::PlanTree;
use crate::testing::{plan, text};

fn fused(ops: &str) -> String {
    of(plan(&[&[ops], &[""]]))
}

fn of(mut plan: PlanTree) -> String {
    let fusion = super::Fusion::of(&plan);
    plan.ranks.iter_mut().enumerate().for_each(|(number, rank)| fusion.fuse(number, rank));
    text(&plan.ranks[0].blocks[0].ops)
}

#[track_caller]
fn check(cases: &[(&str, &str)]) {
    for (ops, expected) in cases {
        assert_eq!(fused(ops), *expected, "from: {ops}");
    }
}

/// Pairs that are unchanged.
#[track_caller]
fn stay(cases: &[&str]) {
    for ops in cases {
        assert_eq!(fused(ops), *ops);
    }
}

#[test]
fn adjacent_block_syncs_are_merged() {
    check(&[
        ("nop; nop; nop", "nop"),
        ("nop; barrier#0=2", "barrier#0=2"),
        ("barrier#0=2; nop", "barrier#0=2"),
        ("nop; loop 16x1 { nop; copy i0 > s0 }", "loop 16x1 { nop; copy i0 > s0 }"),
        ("nop; loop 16x1 { wait.m#0@both; copy i0 > s0 }", "loop 16x1 { wait.m#0@both; copy i0 > s0 }"),
        ("loop 16x1 { copy i0 > s0; nop }; nop", "loop 16x1 { copy i0 > s0; nop }"),
        ("loop 16x1 { copy i0 > s0; signal.m#0@after }; nop", "loop 16x1 { copy i0 > s0; signal.m#0@after }"),
    ]);
    stay(&["barrier#0=2; barrier#0=2", "nop; copy i0 > s0", "copy i0 > s0; nop"]);
}

#[test]
fn loop_absorbs_a_sync_at_an_end_with_its_own_sync() {
    stay(&[
        "nop; loop 16x1 { copy i0 > s0; nop }",
        "loop 16x1 { nop; copy i0 > s0 }; nop",
        "wait.m#0@after; loop 16x1 { get.m#0 r0:0 > i0; barrier#0=2 }",
        "loop 16x1 { wait.m#0@before; copy i0 > s0 }; signal.m#0@before",
    ]);
}

#[test]
fn block_syncs_make_sync_attributes_redundant() {
    check(&[
        ("nop; signal.m#0@both", "nop; signal.m#0@after"),
        ("barrier#0=2; wait.m#0@both", "barrier#0=2; wait.m#0@after"),
        ("wait.m#0@both; nop", "wait.m#0@before; nop"),
        ("wait.m#0@both; barrier#0=2", "wait.m#0@before; barrier#0=2"),
        ("flush.p#0@both; signal.p#0@both", "flush.p#0@before; signal.p#0@both"),
        ("sem_acquire#0@after; sem_release#0@both", "sem_acquire#0; sem_release#0@both"),
        ("wait.m#0@after; loop 16x1 { nop; copy i0 > s0 }", "wait.m#0; loop 16x1 { nop; copy i0 > s0 }"),
        (
            "loop 16x1 { copy i0 > s0; wait.m#0@after }; signal.m#1@both",
            "loop 16x1 { copy i0 > s0; wait.m#0@after }; signal.m#1@after",
        ),
    ]);
    stay(&["wait.m#0@after; signal.m#0@after", "wait.m#0@after; copy i0 > s0"]);
}

#[test]
fn synchronizing_operations_are_merged() {
    check(&[
        ("sem_acquire#0@before; sem_acquire#0,1@after", "sem_acquire#0,0,1@both"),
        ("sem_release#2; sem_release#1", "sem_release#2,1"),
        ("signal.m#1@before; signal.m#0@after; signal.m#2", "signal.m#1,0,2@both"),
        ("wait.p#1; wait.p#0", "wait.p#1,0"),
        ("rlxwait.m#1; rlxwait.m#0", "rlxwait.m#1,0"),
        ("flush.p#0; flush.p#1; flush.p#0", "flush.p#0,1"),
    ]);
    stay(&[
        "signal.m#0; signal.m#0",
        "signal.m#0; signal.p#1",
        "signal.m#0; rlxsignal.m#1",
        "signal.m#0; wait.m#1",
        "sem_acquire#0; sem_release#1",
    ]);
}

#[test]
fn lists_of_pairs_are_merged() {
    check(&[
        ("get.m#0 r0:0 > i0; get.m#1 r1:1 > o1", "get.m#0,1 r0:0 r1:1 > i0 o1"),
        ("put.m#0 i0 > r0:0; put.m#0 i3 > r1:1", "put.m#0,0 i0 i3 > r0:0 r1:1"),
        ("put.p#0 i0 > r0:0; put.p#0 s3 > r1:1", "put.p#0,0 i0 s3 > r0:0 r1:1"),
        ("ppkt.m#0 i0 > r0:0; ppkt.m#1 i1 > r0:1", "ppkt.m#0,1 i0 i1 > r0:0 r0:1"),
        ("pws.p#0 i0 > r0:0; pws.p#1 i1 > r0:1", "pws.p#0,1 i0 i1 > r0:0 r0:1"),
        ("pwsf.p#0 i0 > r0:0; pwsf.p#1 i1 > r0:1", "pwsf.p#0,1 i0 i1 > r0:0 r0:1"),
        ("rppkt.m#0 s0 > r0:0; rppkt.m#1 s0 > r0:1", "rppkt.m#0,1 s0 > r0:0 r0:1"),
        ("put.m#0/0:2 i0 > r0:0; put.m#0/0:2 i1 > r0:1", "put.m#0,0/0:2 i0 i1 > r0:0 r0:1"),
    ]);
    stay(&[
        "get.m#0 r0:0 > i0; get.m#1 r1:1+2 > o1+2",
        "put.m#0 i0 > r0:0; put.p#0 i1 > r0:1",
        "put.m#0/0:2 i0 > r0:0; put.m#0/1:2 i1 > r0:1",
        "put.m#0 i0 > r0:0; put.m#0/0:1 i1 > r0:1",
        "rppkt.m#0 s0 > r0:0; rppkt.m#1 s1 > r0:1",
        "put.m#0 i0 > r0:0; ppkt.m#0 i1 > r0:1",
        "copy i0 > s0; copy i1 > s1",
    ]);
}

#[test]
fn memory_puts_have_one_source_buffer() {
    stay(&["put.m#0 i0 > r0:0; put.m#0 s0 > r0:1", "ppkt.m#0 i0 > r0:0; ppkt.m#0 o0 > r0:1"]);
}

#[test]
fn signals_of_one_channel_stay_in_order() {
    stay(&["pws.p#0 i0 > r0:0; pws.p#0 i1 > r0:1", "pwsf.p#0 i0 > r0:0; pwsf.p#0 i1 > r0:1"]);
}

#[test]
fn reductions_accumulate() {
    check(&[
        ("re i0 s0 > i0; re i0 s1 s2 > i0", "re i0 s0 s1 s2 > i0"),
        ("repkt i0 s0 > i0; repkt i0 s1 > i0", "repkt i0 s0 s1 > i0"),
        ("rre.m#0 i0 r0:0 > i0; rre.m#1 i0 r1:1 > i0", "rre.m#0,1 i0 r0:0 r1:1 > i0"),
    ]);
    // The first one may read its accumulator elsewhere: out of place, the sum is stored once.
    check(&[
        ("re i0 s0 > o0; re o0 s1 > o0; re o0 s2 > o0", "re i0 s0 s1 s2 > o0"),
        ("repkt i0 s0 > o0; repkt o0 s1 > o0", "repkt i0 s0 s1 > o0"),
        ("rre.m#0 i0 r0:0 > o0; rre.m#1 o0 r1:1 > o0; put.m#0 o0 > r0:0", "rres.m#0,1,0 i0 r0:0 r1:1 > o0 r0:0"),
    ]);
    stay(&[
        "re i0 s0 > i0; re~max i0 s1 > i0",
        "re i0 s0 > i0; re i1 s1 > i1",
        "re/0:2 i0 s0 > i0; re i0 s1 > i0",
        "re i0 s0 > i0; repkt i0 s1 > i0",
    ]);
}

#[test]
fn reduction_elsewhere_or_of_its_own_result_is_not_fused() {
    stay(&["re i0 i1 > o0; re i0 i2 > o0", "re i0 s0 > i0; re i0 i0 > i0", "re i0+2 s0+2 > i0+2; re i0+2 i1+2 > i0+2"]);
}

#[test]
fn in_place_the_output_is_a_result_too() {
    let mut plan = plan(&[&["re i0 s0 > i0; re i0 o0 > i0"], &[""]]);
    plan.collective.kind = CollectiveKind::AllReduce;
    assert_eq!(of(plan.clone()), "re i0 s0 o0 > i0");
    plan.collective.in_place = true;
    assert_eq!(of(plan), "re i0 s0 > i0; re i0 o0 > i0");
}

#[test]
fn reductions_send_their_results() {
    check(&[
        ("re i0 s0 > o0; put.m#0 o0 > r0:0; put.m#1 o0 > r1:0", "res.m#0,1 i0 s0 > o0 r0:0 r1:0"),
        ("rre.m#0 i0 r0:0 > i0; put.m#1 i0 > r1:0; put.m#2 i0 > r2:0", "rres.m#0,1,2 i0 r0:0 > i0 r1:0 r2:0"),
        ("repkt i0 s0 > i0; ppkt.m#0 i0 > r0:0; ppkt.m#1 i0 > r0:1", "respkt.m#0,1 i0 s0 > i0 r0:0 r0:1"),
        ("repkt i0 s0 > i0; cpkt i0 > s1", "recpkt i0 s0 > i0 s1"),
        ("repkt i0 s0 > i0; cpkt i0 > s1; ppkt.m#0 i0 > r0:0", "recspkt.m#0 i0 s0 > i0 s1 r0:0"),
        (
            "repkt i0 s0 > i0; cpkt i0 > s1; rppkt.m#0 s1 > r0:0; ppkt.m#1 i0 > r0:1",
            "recspkt.m#0,1 i0 s0 > i0 s1 r0:0 r0:1",
        ),
    ]);
    stay(&[
        "re i0 s0 > o0; put.p#0 o0 > r0:0",
        "re i0 s0 > o0; put.m#0 i0 > r0:0",
        "re/0:2 i0 s0 > o0; put.m#0 o0 > r0:0",
        "re i0 s0 > o0; ppkt.m#0 o0 > r0:0",
        "repkt i0 s0 > i0; put.m#0 i0 > r0:0",
        "repkt i0 s0 > i0; rppkt.m#0 s1 > r0:0",
        "respkt.m#0 i0 s0 > i0 r0:0; cpkt i0 > s1",
        "copy i0 > o0; put.m#0 o0 > r0:0",
    ]);
    check(&[("repkt i0 s0 > i0; cpkt i0 > s1; cpkt i0 > s2", "recpkt i0 s0 > i0 s1; cpkt i0 > s2")]);
}

#[test]
fn switch_reductions_broadcast_their_results() {
    check(&[
        // The window is scratch of this rank as well: the broadcast writes what the reduction would have written.
        ("glre.w#0 w0:3 > s3; gstore.w#0 s3 > w0:3", "glres.w#0 w0:3 > w0:3"),
        // No operation reads scratch chunk 7; the broadcast's destination is the window, not the chunk that was read.
        ("glre.w#0 w0:0 > s7; gstore.w#0 s7 > w0:1", "glres.w#0 w0:0 > w0:1"),
    ]);
    stay(&[
        "glre.w#0 w0:0 > o0; gstore.w#0 o0 > w0:1",
        "glre.w#0 w0:0 > s7; gstore.w#0 s7 > w0:1; copy s7 > o0",
        "glre.w#0 w0:0 > s7; gstore.w#0 s6 > w0:0",
        "glre.w#0 w0:0 > s7; gstore.w#1 s7 > w1:0",
        "glre.w#0 w0:0+2 > s6+2; gstore.w#0 s6 > w0:0",
    ]);
}

#[test]
fn read_of_another_rank_keeps_the_store_of_a_switch_reduction() {
    // Remote buffer 0 of rank 1 is rank 0's scratch.
    let ops = "glre.w#0 w0:0 > s7; gstore.w#0 s7 > w0:1";
    assert_eq!(of(plan(&[&[ops], &["get.m#0 r0:7 > o0"]])), ops);
    assert_eq!(of(plan(&[&[ops], &["get.m#0 r0:6 > o0"]])), "glres.w#0 w0:0 > w0:1");
}

#[test]
fn bodies_fuse_too() {
    check(&[
        ("loop 16x1 { put.m#0 i0 > r0:0; put.m#0 i1 > r0:1 }", "loop 16x1 { put.m#0,0 i0 i1 > r0:0 r0:1 }"),
        ("nop; loop 16x1 { nop; nop; copy i0 > s0 }", "loop 16x1 { nop; copy i0 > s0 }"),
    ]);
}

#[test]
fn long_runs_keep_all_operations() {
    let puts: Vec<String> = (0..500).map(|i| format!("put.m#0 i{i} > r0:{i}")).collect();
    let mut plan = plan(&[&[&puts.join("; ")], &[""]]);
    let fusion = super::Fusion::of(&plan);
    plan.ranks.iter_mut().enumerate().for_each(|(number, rank)| fusion.fuse(number, rank));
    let ops = &plan.ranks[0].blocks[0].ops;
    assert_eq!((ops.len(), ops[0].srcs.len(), ops[0].dsts.len(), ops[0].ids.len()), (1, 500, 500, 500));
    assert_eq!((ops[0].srcs[499].index, ops[0].dsts[499].index), (499, 499));
}
