//! Conflicts with the next launch and the caller.

use crate::run::verdict;
use crate::testing::plan;
use mscclpp_core::dsl::Program;
use mscclpp_core::spec::AlgoSpec;
use mscclpp_plan::collective::CollectiveKind;
use mscclpp_plan::diag::{Code, Diagnostic};
use mscclpp_plan::raw::PlanTree;
use mscclpp_plan::types::BlockSync;

#[track_caller]
fn fine(plan: &PlanTree) {
    let (deadlocks, found) = verdict(plan).of_order();
    assert!(deadlocks.is_empty(), "{deadlocks}");
    assert!(found.is_empty(), "{found}");
}

#[track_caller]
fn refused(plan: &PlanTree, code: Code) -> Diagnostic {
    let (deadlocks, found) = verdict(plan).of_order();
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
    let finding = refused(&both(one_shot), Code::CrossLaunchRace);
    assert_eq!(
        finding.message,
        "race between launches: in the next launch, `ppkt` (rank 0, thread block 0) writes the packets of scratch \
         chunk 0 of rank 1 while `repkt` (rank 1, thread block 0) of this launch may still be reading it"
    );
    assert!(finding.help.unwrap().contains("double_scratch"));
    fine(&double(both(one_shot)));
    // The packet with the result is the acknowledgement.
    fine(&both("ppkt.m i0 > r0:0; repkt i0 s0 > i0; ppkt.m i0 > r0:1; upkt s1 > o0"));
    // Half of it is not.
    let half = "ppkt.m i0+2 > r0:0+2; repkt i0+2 s0+2 > o0+2; ppkt.m i0 > r0:2; upkt s2 > o2";
    refused(&both(half), Code::CrossLaunchRace);
    fine(&double(both(half)));
    fine(&both(&half.replace("ppkt.m i0 >", "nop; ppkt.m i0 >")));
    // Double scratch helps against one launch, not against several: the first rank does not wait.
    refused(&double(plan(&[&["ppkt.m i0 > r0:0"], &["upkt s0 > o0"]])), Code::CrossLaunchRace);
}

#[test]
fn a_handshake_at_either_end_is_enough_for_scratch() {
    let transfer = "put.m i0 > r0:0; nop; signal.m#0; wait.m#0; nop; copy s0 > o0";
    refused(&both(transfer), Code::CrossLaunchRace);
    fine(&both(&format!("{transfer}; nop; rlxsignal.m#1; rlxwait.m#1")));
    fine(&both(&format!("rlxsignal.m#1; rlxwait.m#1; nop; {transfer}")));
    // Without the block sync only one thread has waited.
    refused(&both(&format!("rlxsignal.m#1; rlxwait.m#1; {transfer}")), Code::CrossLaunchRace);
    // The signal is before the copy.
    refused(
        &both(&format!("{}; rlxsignal.m#1; rlxwait.m#1; nop; copy s0 > o0", &transfer[..transfer.len() - 14])),
        Code::CrossLaunchRace,
    );
}

#[test]
fn buffers_of_others_need_a_handshake_at_both_ends() {
    let (open, close) = ("rlxsignal.m#0; rlxwait.m#0; nop", "nop; signal.m#0; wait.m#0");
    fine(&both(&format!("{open}; put.m i0 > r2:0; {close}")));
    let early = refused(&both(&format!("put.m i0 > r2:0; {close}")), Code::EarlyAccess);
    assert_eq!(
        early.message,
        "`put` (rank 0, thread block 0) writes output chunk 0 of rank 1 before rank 1 has started the launch: its \
         caller may still be using the buffer"
    );
    let late = refused(&both(&format!("{open}; put.m i0 > r2:0")), Code::LateAccess);
    assert_eq!(
        late.message,
        "`put` (rank 1, thread block 0) may still be writing output chunk 0 of rank 0 after the launch of rank 0 has \
         finished"
    );
    refused(&both(&format!("get.m#0 r1:0 > o0; {close}")), Code::EarlyAccess);
    refused(&both(&format!("{open}; get.m#0 r1:0 > o0")), Code::LateAccess);
    // Of three ranks one may release the clock of another.
    let chain = plan(&[&["rlxsignal.m#0"], &["rlxwait.m#0; nop; put.m i0 > r2:0; nop; signal.m#0"]]);
    let mut chain = chain;
    chain.ranks[0].blocks[0].ops.extend(crate::testing::ops("wait.m#0"));
    fine(&chain);
}

#[test]
fn ports_read_their_sources_late() {
    let open = "rlxsignal.m#0; rlxwait.m#0; nop";
    let finding = refused(&both(&format!("{open}; pws.p#0 i0 > r2:0; wait.p#0")), Code::LateAccess);
    assert!(finding.message.contains("port may still be reading input chunk 0 of rank 0"), "{}", finding.message);
    assert!(finding.help.unwrap().starts_with("flush the channel"));
    fine(&both(&format!("{open}; pwsf.p#0 i0 > r2:0; wait.p#0")));
    fine(&both(&format!("{open}; pws.p#0 i0 > r2:0; wait.p#0; nop; signal.m#1; wait.m#1")));
    fine(&both(&format!("{open}; pws.p#0 i0 > r2:0; wait.p#0; flush.p#0")));
}

/// A program of one input and one output chunk per rank.
fn recorded(ranks: u32, program: impl Fn(&Program)) -> PlanTree {
    let spec = AlgoSpec::new("test", CollectiveKind::Test { input: 1, output: 1 }, ranks);
    let p = Program::new(spec);
    program(&p);
    mscclpp_core::lower::lower(&p.finish().expect("a program")).expect("a plan")
}

/// Rank 0 puts into rank 2 over a port channel once rank 2 has started, and flushes.
fn put_and_flush(p: &Program) {
    let (to, from) = (p.rank(0).port_channel(p.rank(2)), p.rank(2).port_channel(p.rank(0)));
    from.signal(0);
    to.wait(0).sync(BlockSync::After);
    to.put(p.rank(2).output().chunk(0), p.rank(0).input().chunk(0), 0);
    to.flush(0);
}

/// A rank signals another one over a memory channel.
fn tell(p: &Program, from: usize, to: usize) {
    let (out, back) = (p.rank(from).memory_channel(p.rank(to)), p.rank(to).memory_channel(p.rank(from)));
    out.signal(0).sync(BlockSync::Before);
    back.wait(0).sync(BlockSync::After);
}

/// A rank signals another one over a port channel.
fn tell_by_port(p: &Program, from: usize, to: usize) {
    let (out, back) = (p.rank(from).port_channel(p.rank(to)), p.rank(to).port_channel(p.rank(from)));
    out.signal(0).sync(BlockSync::Before);
    back.wait(0).sync(BlockSync::After);
}

#[test]
fn flushed_put_reported_by_third_rank_is_rejected() {
    let by_memory_then_port = recorded(4, |p| {
        put_and_flush(p);
        tell(p, 0, 1);
        tell_by_port(p, 1, 2);
    });
    let finding = refused(&by_memory_then_port, Code::LateAccess);
    assert_eq!(
        finding.message,
        "`put` (rank 0, thread block 0)'s port may still be writing output chunk 0 of rank 2 after the launch of rank \
         2 has finished; the flush after the put guarantees that its source was read, not that the data has arrived"
    );
    assert_eq!(
        finding.help.as_deref(),
        Some("signal on the same port channel after the put, and wait for the signal on the receiving rank")
    );
    // The receiver's neighbor acquires by port, and releases by memory.
    refused(&recorded(4, |p| (put_and_flush(p), tell_by_port(p, 0, 3), tell(p, 3, 2)).2), Code::LateAccess);
    // By three hops, and by another port channel between the same two ranks.
    let hops = |p: &Program| (put_and_flush(p), tell(p, 0, 1), tell_by_port(p, 1, 3), tell(p, 3, 2)).3;
    refused(&recorded(4, hops), Code::LateAccess);
    refused(&recorded(4, |p| (put_and_flush(p), tell_by_port(p, 0, 2)).1), Code::LateAccess);
    refused(&recorded(4, |p| (put_and_flush(p), tell(p, 0, 2)).1), Code::LateAccess);
}

#[test]
fn put_reported_by_its_receiver_is_accepted() {
    let answered = recorded(4, |p| {
        let (to, from) = (p.rank(0).port_channel(p.rank(2)), p.rank(2).port_channel(p.rank(0)));
        from.signal(0);
        to.wait(0).sync(BlockSync::After);
        to.put(p.rank(2).output().chunk(0), p.rank(0).input().chunk(0), 0);
        to.signal(0);
        from.wait(0).sync(BlockSync::After);
        // From here on all ranks may acquire that the data has arrived, and that its source was read.
        tell(p, 2, 3);
        tell_by_port(p, 3, 1);
        tell(p, 1, 0);
    });
    fine(&answered);
}

#[test]
fn flushed_put_into_scratch_may_arrive_in_next_launch() {
    let (open, close) = ("rlxsignal.m#0; rlxwait.m#0; nop", "nop; signal.m#1; wait.m#1");
    // The receiver accesses its scratch first, while the put of the previous launch may still be in flight to it.
    let flushed = format!("{open}; copy i1 > s0; nop; put.p#0 i0 > r0:1; flush.p#0; {close}");
    fine(&both(&flushed));
    let reused = |close: &str| {
        plan(&[
            &[&format!("wait.m#1; nop; put.p#0 i0 > r0:0; flush.p#0{close}")],
            &[&format!(
                "copy i0 > s0; nop; copy s0 > o0; nop; signal.m#1{}",
                if close.is_empty() { "" } else { "; wait.m#2" }
            )],
        ])
    };
    let finding = refused(&reused("; nop; signal.m#2"), Code::CrossLaunchRace);
    assert!(finding.message.ends_with("not that the data has arrived"), "{}", finding.message);
    assert_eq!(
        finding.help.as_deref(),
        Some("signal on the same port channel after the put, and wait for the signal on the receiving rank")
    );
    refused(&double(reused("; nop; signal.m#2")), Code::CrossLaunchRace);
    let mut heard = reused("; signal.p#0");
    heard.ranks[1].blocks[0].ops.pop();
    heard.ranks[1].blocks[0].ops.extend(crate::testing::ops("wait.p#0"));
    fine(&heard);
}

#[test]
fn puts_of_one_channel_follow_each_other_across_launches() {
    // Nothing reads the data that is put: a later launch's put arrives after it.
    let dead = |second: &str| plan(&[&[&format!("put.p#0 i0 > r0:0; flush.p#0{second}")], &[""]]);
    fine(&dead(""));
    fine(&dead("; nop; put.p#0 i1 > r0:0; flush.p#0"));
    fine(&double(dead("")));
    // Of two channels either put may be last.
    let ops = "put.p#0 i0 > r0:0; signal.p#0; wait.m#1; nop; put.p#1 i1 > r0:0; flush.p#1";
    refused(&plan(&[&[ops], &["wait.p#0; nop; signal.m#1"]]), Code::CrossLaunchRace);
    fine(&plan(&[&[&ops.replace("p#1", "p#0")], &["wait.p#0; nop; signal.m#1"]]));
}

#[test]
fn accesses_to_own_buffers_are_not_reported() {
    fine(&both("copy i0 > o0"));
    fine(&both("copy i0 > s0; copy s0 > o0"));
    fine(&plan(&[&["copy i0 > s0; barrier#0=2", "barrier#0=2; copy s0 > o0"], &[""]]));
}

/// Two ranks, three blocks each: phase one in one range, phase two chunk by chunk.
fn two_phases(ops: [&str; 3]) -> PlanTree {
    plan(&[&ops, &ops])
}

#[test]
fn short_packets_order_short_reads_after_longer_packets() {
    // A block sends two chunks, then reduces one and sends it back; the answers cover both.
    let blocks = ["ppkt.m i2+2 > r0:0+2; respkt.m i0 s0 > i0 r0:2", "respkt.m i1 s1 > i1 r0:3; upkt s2+2 > o2+2", ""];
    fine(&two_phases(blocks));
    // One of the answers does not wait for the packets that it seems to acknowledge.
    let blocks = ["ppkt.m i2+2 > r0:0+2; ppkt.m i0 > r0:2; upkt s0 > i0", blocks[1], ""];
    refused(&two_phases(blocks), Code::CrossLaunchRace);
    // The answer is before the read.
    let blocks = ["ppkt.m i2+2 > r0:0+2; ppkt.m i4 > r0:2; repkt i0 s0 > i0", blocks[1], ""];
    refused(&two_phases(blocks), Code::CrossLaunchRace);
    // The answer is shorter than the earlier read: it orders nothing of the other threads.
    let blocks = ["ppkt.m i2+4 > r0:0+4; upkt s0+4 > o2+4; ppkt.m i0 > r0:4", "upkt s4 > o0", ""];
    refused(&two_phases(blocks), Code::CrossLaunchRace);
    // An answer that is read in part only.
    let blocks = ["ppkt.m i2+4 > r0:0+4; upkt s0+4 > o4+4; ppkt.m i0+4 > r0:4+4", "upkt s4+3 > o0+3", ""];
    refused(&two_phases(blocks), Code::CrossLaunchRace);
}

#[test]
fn packets_forwarded_in_parts_show_that_ranks_have_started() {
    // A ring of four: data of rank 1 is forwarded with a chunk of rank 2, and without it to rank 0, whose first access
    // is a write to rank 1's scratch, which must happen after rank 1 has started the previous launch.
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
    // The chunk of rank 2 does not order rank 1.
    let finding = refused(&ring("s3", "s2"), Code::CrossLaunchRace);
    assert!(finding.message.contains("of rank 1"), "{}", finding.message);
    // One launch further apart is not one launch.
    let mut single = ring("s2", "s3");
    single.double_scratch = false;
    refused(&single, Code::CrossLaunchRace);
}
