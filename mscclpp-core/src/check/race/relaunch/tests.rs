//! What the next launch and the caller may collide with.

use crate::check::run::{Verdict, verdict};
use crate::diag::{Code, Diagnostic};
use crate::plan::PlanTree;
use crate::testing::plan;

#[track_caller]
fn fine(plan: &PlanTree) {
    let Verdict { deadlocks, races: found, .. } = verdict(plan);
    assert!(deadlocks.is_empty(), "{deadlocks}");
    assert!(found.is_empty(), "{found}");
}

#[track_caller]
fn refused(plan: &PlanTree, code: Code) -> Diagnostic {
    let Verdict { deadlocks, races: found, .. } = verdict(plan);
    assert!(deadlocks.is_empty(), "{deadlocks}");
    assert!(!found.is_empty() && found.iter().all(|finding| finding.code == code), "{found}");
    found.iter().next().unwrap().clone()
}

/// Remote buffers 0, 1, 2 are the other rank's scratch, input, output; both ranks do the same.
fn both(ops: &str) -> PlanTree {
    plan(&[&[ops], &[ops]])
}

fn double(mut plan: PlanTree) -> PlanTree {
    plan.double_scratch = true;
    plan
}

#[test]
fn packets_are_overwritten_by_the_next_launch() {
    let one_shot = "ppkt.m i0 > r0:0; repkt i0 s0 > o0";
    let finding = refused(&both(one_shot), Code::Relaunch);
    assert_eq!(
        finding.message,
        "in the next launch, `ppkt` (rank 0, thread block 0) writes the packets of scratch chunk 0 of rank 1 while `repkt` (rank \
         1, thread block 0) may still be reading it in this one"
    );
    assert!(finding.help.unwrap().contains("double_scratch"));
    fine(&double(both(one_shot)));
    // The packet with the result is the acknowledgement.
    fine(&both("ppkt.m i0 > r0:0; repkt i0 s0 > i0; ppkt.m i0 > r0:1; upkt s1 > o0"));
    // Half of it is not.
    let half = "ppkt.m i0+2 > r0:0+2; repkt i0+2 s0+2 > o0+2; ppkt.m i0 > r0:2; upkt s2 > o2";
    refused(&both(half), Code::Relaunch);
    fine(&double(both(half)));
    fine(&both(&half.replace("ppkt.m i0 >", "nop; ppkt.m i0 >")));
    // Double scratch helps against one launch, not against several: nobody holds the first rank back.
    refused(&double(plan(&[&["ppkt.m i0 > r0:0"], &["upkt s0 > o0"]])), Code::Relaunch);
}

#[test]
fn a_handshake_at_either_end_is_enough_for_scratch() {
    let transfer = "put.m i0 > r0:0; nop; signal.m#0; wait.m#0; nop; copy s0 > o0";
    refused(&both(transfer), Code::Relaunch);
    fine(&both(&format!("{transfer}; nop; rlxsignal.m#1; rlxwait.m#1")));
    fine(&both(&format!("rlxsignal.m#1; rlxwait.m#1; nop; {transfer}")));
    // Without the block sync only one thread has waited.
    refused(&both(&format!("rlxsignal.m#1; rlxwait.m#1; {transfer}")), Code::Relaunch);
    // The signal comes before the copy.
    refused(
        &both(&format!("{}; rlxsignal.m#1; rlxwait.m#1; nop; copy s0 > o0", &transfer[..transfer.len() - 14])),
        Code::Relaunch,
    );
}

#[test]
fn buffers_of_others_need_a_handshake_at_both_ends() {
    let (open, close) = ("rlxsignal.m#0; rlxwait.m#0; nop", "nop; signal.m#0; wait.m#0");
    fine(&both(&format!("{open}; put.m i0 > r2:0; {close}")));
    let early = refused(&both(&format!("put.m i0 > r2:0; {close}")), Code::EarlyAccess);
    assert_eq!(
        early.message,
        "`put` (rank 0, thread block 0) writes output chunk 0 of rank 1 before rank 1 is known to have begun: its caller may \
         still use what is there"
    );
    let late = refused(&both(&format!("{open}; put.m i0 > r2:0")), Code::OpenEnd);
    assert_eq!(
        late.message,
        "`put` (rank 1, thread block 0) may still be writing output chunk 0 of rank 0 when the launch of rank 0 is over and its \
         caller goes on"
    );
    refused(&both(&format!("get.m#0 r1:0 > o0; {close}")), Code::EarlyAccess);
    refused(&both(&format!("{open}; get.m#0 r1:0 > o0")), Code::OpenEnd);
    // Of three ranks one may tell of another.
    let chain = plan(&[&["rlxsignal.m#0"], &["rlxwait.m#0; nop; put.m i0 > r2:0; nop; signal.m#0"]]);
    let mut chain = chain;
    chain.ranks[0].blocks[0].ops.extend(crate::testing::ops("wait.m#0"));
    fine(&chain);
}

#[test]
fn ports_read_their_sources_late() {
    let open = "rlxsignal.m#0; rlxwait.m#0; nop";
    let finding = refused(&both(&format!("{open}; pws.p#0 i0 > r2:0; wait.p#0")), Code::OpenEnd);
    assert!(finding.message.contains("port may still be reading input chunk 0 of rank 0"), "{}", finding.message);
    assert!(finding.help.unwrap().starts_with("flush the channel"));
    fine(&both(&format!("{open}; pwsf.p#0 i0 > r2:0; wait.p#0")));
    fine(&both(&format!("{open}; pws.p#0 i0 > r2:0; wait.p#0; nop; signal.m#1; wait.m#1")));
    fine(&both(&format!("{open}; pws.p#0 i0 > r2:0; wait.p#0; flush.p#0")));
}

#[test]
fn what_one_rank_does_to_its_own_buffers_is_its_own() {
    fine(&both("copy i0 > o0"));
    fine(&both("copy i0 > s0; copy s0 > o0"));
    fine(&plan(&[&["copy i0 > s0; barrier#0=2", "barrier#0=2; copy s0 > o0"], &[""]]));
}

/// Two ranks, three blocks each: phase one in one range, phase two chunk by chunk.
fn two_phases(ops: [&str; 3]) -> PlanTree {
    plan(&[&ops, &ops])
}

#[test]
fn short_packets_tell_of_short_reads_behind_longer_packets() {
    // A block sends two chunks, then reduces one and sends it back; the answers cover both.
    let blocks = ["ppkt.m i2+2 > r0:0+2; respkt.m i0 s0 > i0 r0:2", "respkt.m i1 s1 > i1 r0:3; upkt s2+2 > o2+2", ""];
    fine(&two_phases(blocks));
    // One of the answers does not wait for what it seems to answer.
    let blocks = ["ppkt.m i2+2 > r0:0+2; ppkt.m i0 > r0:2; upkt s0 > i0", blocks[1], ""];
    refused(&two_phases(blocks), Code::Relaunch);
    // The answer comes before the read.
    let blocks = ["ppkt.m i2+2 > r0:0+2; ppkt.m i4 > r0:2; repkt i0 s0 > i0", blocks[1], ""];
    refused(&two_phases(blocks), Code::Relaunch);
    // The answer is shorter than what was read before: of the other threads it tells nothing.
    let blocks = ["ppkt.m i2+4 > r0:0+4; upkt s0+4 > o2+4; ppkt.m i0 > r0:4", "upkt s4 > o0", ""];
    refused(&two_phases(blocks), Code::Relaunch);
    // An answer that is read in part only.
    let blocks = ["ppkt.m i2+4 > r0:0+4; upkt s0+4 > o4+4; ppkt.m i0+4 > r0:4+4", "upkt s4+3 > o0+3", ""];
    refused(&two_phases(blocks), Code::Relaunch);
}

#[test]
fn packets_forwarded_in_parts_tell_who_has_begun() {
    // Round a ring of four: what rank 1 sends goes on with a chunk of rank 2, and without it to rank 0, which writes to rank
    // 1's scratch first thing and must know that rank 1 has begun the launch before.
    let ring = |forward: &str, rest: &str| {
        let third = format!("rppkt.m {forward} > r0:4; upkt {rest} > o1; upkt s7 > o0");
        double(plan(&[
            &["ppkt.m i1 > r0:5; upkt s4 > o0; ppkt.m i0 > r0:6"],
            &["ppkt.m i0 > r0:0; upkt s6 > o0; ppkt.m i1 > r0:6; upkt s5 > o1"],
            &["cpkt i0 > s1; rppkt.m s0+2 > r0:2+2; upkt s6 > o0; ppkt.m i1 > r0:7"],
            &[&third],
        ]))
    };
    fine(&ring("s2", "s3"));
    // The chunk that comes from rank 2 tells nothing of rank 1.
    let finding = refused(&ring("s3", "s2"), Code::Relaunch);
    assert!(finding.message.contains("of rank 1"), "{}", finding.message);
    // One launch further apart is not one launch.
    let mut single = ring("s2", "s3");
    single.double_scratch = false;
    refused(&single, Code::Relaunch);
}
