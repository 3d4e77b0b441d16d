//! Programs with data races, and programs that only look like it.

use crate::Pairs;
use crate::model::{self, Model};
use crate::run::verdict;
use crate::testing::plan;
use mscclpp_plan::collective::CollectiveKind;
use mscclpp_plan::diag::{Code, Diagnostic, Diagnostics};
use mscclpp_plan::raw::PlanTree;

/// Returns the races within one launch.
fn check(plan: &PlanTree) -> Diagnostics {
    let (deadlocks, races) = verdict(plan).of_order();
    let mut found = deadlocks;
    found.extend(races.into_iter().filter(|finding| finding.code == Code::Race));
    found
}

/// Remote buffers 0, 1, 2 are the other rank's scratch, input, output.
#[track_caller]
fn fine(ranks: &[&[&str]]) {
    let plan = plan(ranks);
    let found = check(&plan);
    assert!(found.is_empty(), "{found}");
}

#[track_caller]
fn races(ranks: &[&[&str]]) -> Diagnostic {
    race_of(&plan(ranks))
}

#[track_caller]
fn race_of(plan: &PlanTree) -> Diagnostic {
    let found = check(plan);
    let first = found.iter().next().expect("there is a race");
    assert_eq!(first.code, Code::Race);
    first.clone()
}

const IDLE: &[&str] = &[""];

#[test]
fn operations_without_block_sync_race() {
    let race = races(&[&["copy i0+2 > s0+2; copy s1 > o0"], IDLE]);
    assert_eq!(
        race.message,
        "data race on scratch chunk 1 of rank 0: `copy` (rank 0, thread block 0) reads it and `copy` (rank 0, thread \
         block 0) writes it, unordered"
    );
    assert!(race.help.unwrap().contains("rank.barrier([block])"));
    races(&[&["ppkt.m i0 > r0:0; re i0 s5 > i0"], IDLE]);
    races(&[&["copy/0:2 i0 > s0; copy s0 > o0"], IDLE]);
    fine(&[&["copy i0+2 > s0+2; nop; copy s1 > o0"], IDLE]);
}

#[test]
fn equal_ranges_without_block_sync_are_ordered() {
    fine(&[&["copy i0 > s0; re s0 i1 > s0; put.m s0 > r0:0"], IDLE]);
    fine(&[
        &["ppkt.m i0 > r0:0; repkt i0 s1 > i0; ppkt.m i0 > r0:2"],
        &["ppkt.m i0 > r0:1; upkt s0 > o0; upkt s2 > o2"],
    ]);
    fine(&[&["glre.w w0:0 > s7; gstore.w s7 > w0:1"], IDLE]);
    fine(&[&["copy/0:2 i0 > s0; copy/0:2 s0 > o0"], IDLE]);
    races(&[&["copy i0 > s0; gstore.w s0 > w0:1"], IDLE]);
    let mut unaligned = plan(&[&["copy i0 > s0; put.m s0 > r0:0"], IDLE]);
    unaligned.buffer_alignment = 8;
    race_of(&unaligned);
}

#[test]
fn in_place_input_and_output_are_one_memory() {
    let mut plan = plan(&[&["ppkt.m i1 > r0:0; copy i5 > o1"], IDLE]);
    plan.collective.kind = CollectiveKind::AllReduce;
    assert!(check(&plan).is_empty());
    plan.collective.in_place = true;
    let race = race_of(&plan);
    assert!(race.message.contains("data race on input chunk 1 of rank 0"), "{}", race.message);
}

#[test]
fn signals_order_ranks_across_block_syncs() {
    let receiver: &[&str] = &["wait.m#0; nop; copy s0 > o0"];
    fine(&[&["put.m i0 > r0:0; nop; signal.m#0"], receiver]);
    let race = races(&[&["put.m i0 > r0:0; nop; signal.m#0"], &["wait.m#0; copy s0 > o0"]]);
    let help = race.help.unwrap();
    assert!(
        help.starts_with("separate `copy` (rank 1, thread block 0) from `wait` before it by a block sync"),
        "{help}"
    );
    let race = races(&[&["put.m i0 > r0:0; signal.m#0"], receiver]);
    let help = race.help.unwrap();
    assert!(
        help.starts_with("separate `put` (rank 0, thread block 0) from `signal` after it by a block sync"),
        "{help}"
    );
    let race = races(&[&["nop; signal.m#0; put.m i0 > r0:0"], receiver]);
    assert!(race.help.unwrap().starts_with("signal after the first access"));
    // A clock that the first thread acquired is released by the first thread, not by the second one.
    let hand_on: &[&str] = &["wait.m#1,2; sem_release#0", "sem_acquire#0; nop; copy s0 > o0"];
    fine(&[&["put.m i0 > r0:0; nop; signal.m#1; signal.m#2"], hand_on]);
    races(&[&["nop; signal.m#1; put.m i0 > r0:0; nop; signal.m#2"], hand_on]);
}

#[test]
fn relaxed_signals_publish_nothing() {
    let race = races(&[&["put.m i0 > r0:0; nop; rlxsignal.m#0"], &["rlxwait.m#0; nop; copy s0 > o0"]]);
    assert!(race.help.unwrap().starts_with("a relaxed signal"));
    races(&[&["put.m i0 > r0:0; nop; signal.m#0"], &["rlxwait.m#0; nop; copy s0 > o0"]]);
    // But they order the read before the write.
    fine(&[
        &["copy s0 > o0; nop; rlxsignal.m#0; wait.m#1; nop; copy s0 > o1"],
        &["rlxwait.m#0; nop; put.m i0 > r0:0; nop; signal.m#1"],
    ]);
    races(&[&["copy s0 > o0; nop"], &["put.m i0 > r0:0"]]);
}

#[test]
fn blocks_of_a_rank_are_ordered_by_barriers_and_semaphores() {
    fine(&[&["re i0 s0 > i0; barrier#0=2", "barrier#0=2; put.m i0 > r0:0"], IDLE]);
    let race = races(&[&["re i0 s0 > i0", "put.m i0 > r0:0"], IDLE]);
    assert!(race.help.unwrap().contains("barrier"));
    fine(&[&["re i0 s0 > i0; nop; sem_release#0", "sem_acquire#0; nop; put.m i0 > r0:0"], IDLE]);
    races(&[&["re i0 s0 > i0; sem_release#0", "sem_acquire#0; nop; put.m i0 > r0:0"], IDLE]);
    // A group puts, one member signals: the accesses of the other members are unordered.
    let receiver: &[&str] = &["wait.m#0; nop; copy s0 > o0"];
    races(&[&["put.m/0:2 i0 > r0:0; nop; signal.m#0", "put.m/1:2 i0 > r0:0"], receiver]);
    fine(&[&["put.m/0:2 i0 > r0:0; barrier#0=2; signal.m#0", "put.m/1:2 i0 > r0:0; barrier#0=2"], receiver]);
    // Each slice is accessed by one thread block only.
    fine(&[&["copy/0:2 i0 > s0; copy/0:2 s0 > o0", "copy/1:2 i0 > s0; copy/1:2 s0 > o0"], IDLE]);
}

#[test]
fn initial_unit_releases_no_clock() {
    let blocks: &[&str] = &["re i0 s0 > i0; nop; sem_release#0", "sem_acquire#0; nop; put.m i0 > r0:0; sem_acquire#0"];
    let mut plan = plan(&[blocks, IDLE]);
    plan.ranks[0].semaphores[0] = 1;
    race_of(&plan);
    plan.ranks[0].blocks[1].ops = crate::testing::ops("sem_acquire#0,0; nop; put.m i0 > r0:0");
    // Of two threads, the second acquires the release, and the block does from the sync on.
    assert!(check(&plan).is_empty());
}

#[test]
fn ports_are_counted_once_per_thread_and_channel() {
    let ports = |block: &str| {
        let plan = plan(&[&[block], IDLE]);
        let pairs = Pairs::of(&plan);
        let size = model::sizes((&plan).into()).expect("a plan of few pieces")[0];
        Model::of((&plan).into(), &pairs, size).ports()
    };
    assert_eq!(ports("put.p#0 i0 > r0:0; put.p#0 i1 > r0:1; signal.p#0; flush.p#0; wait.p#0"), 1);
    assert_eq!(ports("signal.p#0,1; put.p#0 i0 > r0:0; signal.p#1"), 3);
}

#[test]
fn port_put_reads_its_source_asynchronously() {
    let ack = "wait.p#0; nop; copy s0 > o0; nop; signal.p#0";
    let race = races(&[&["put.p#0 i0 > r0:0; nop; copy i1 > i0"], IDLE]);
    assert!(race.help.unwrap().starts_with("a port put reads its source asynchronously"));
    fine(&[&["put.p#0 i0 > r0:0; flush.p#0; nop; copy i1 > i0"], IDLE]);
    races(&[&["put.p#0 i0 > r0:0; flush.p#1; nop; copy i1 > i0"], IDLE]);
    fine(&[&["pws.p#0 i0 > r0:0; wait.p#0; nop; copy i1 > i0"], &[ack]]);
    fine(&[&["pwsf.p#0 i0 > r0:0; nop; copy i1 > i0"], &["wait.p#0"]]);
    races(&[&["pwsf.p#0 i0 > r0:0; copy i1 > i0"], &["wait.p#0"]]);
    // A flush acquires the read of the source, not the write of the destination.
    races(&[&["put.p#0 i0 > r0:0; flush.p#0; nop; signal.m#0"], &["wait.m#0; nop; copy s0 > o0"]]);
    // A put reads what the block had written before a sync.
    races(&[&["copy i0 > s0; put.p#0 s0 > r0:0"], IDLE]);
    fine(&[&["copy i0 > s0; nop; put.p#0 s0 > r0:0"], IDLE]);
    // A port processes the triggers of two blocks, or of two threads of one, in any order.
    let receiver = "wait.p#0; nop; copy s0 > o0";
    races(&[&["put.p#0 i0 > r0:0", "signal.p#0"], &[receiver]]);
    fine(&[&["put.p#0 i0 > r0:0; barrier#0=2", "barrier#0=2; signal.p#0"], &[receiver]]);
    races(&[&["put.p#0 i0 > r0:0; signal.p#1,0"], &["wait.p#1; nop; wait.p#0; nop; copy s0 > o0"]]);
    fine(&[&["put.p#0 i0 > r0:0; nop; signal.p#1,0"], &["wait.p#1; nop; wait.p#0; nop; copy s0 > o0"]]);
    // One channel keeps its order, two do not.
    fine(&[&["put.p#0 i0 > r0:0; put.p#0 i1 > r0:0; signal.p#0"], &[ack.trim_end_matches("; nop; signal.p#0")]]);
    races(&[&["put.p#0 i0 > r0:0; put.p#1 i1 > r0:0; signal.p#0"], &[ack.trim_end_matches("; nop; signal.p#0")]]);
    races(&[&["put.p#1 i0 > r0:0; signal.p#0"], &[ack.trim_end_matches("; nop; signal.p#0")]]);
}

#[test]
fn flush_does_not_order_the_destination() {
    let put = "wait.m#3; nop; put.p#0 i0 > r0:0; flush.p#0; nop";
    // Not for the rank that flushes: its own accesses there may be earlier.
    let race = races(&[&[&format!("{put}; put.m i1 > r0:0")], &["signal.m#3"]]);
    assert!(race.message.ends_with("not that the data has arrived"), "{}", race.message);
    assert!(race.help.unwrap().starts_with("signal on the same port channel after the put"));
    races(&[&[&format!("{put}; get.m#0 r0:0 > o0")], &["signal.m#3"]]);
    races(&[&[&format!("{put}; put.p#1 i1 > r0:0")], &["signal.m#3"]]);
    // Nor for the ranks that acquire from it, relaxed or not, by packets or not.
    races(&[&[&format!("{put}; rlxsignal.m#0")], &["signal.m#3; rlxwait.m#0; nop; copy i1 > s0"]]);
    races(&[&[&format!("{put}; signal.m#0")], &["signal.m#3; wait.m#0; nop; copy i1 > s0"]]);
    races(&[&[&format!("{put}; signal.p#1")], &["signal.m#3; wait.p#1; nop; copy i1 > s0"]]);
    races(&[&[&format!("{put}; ppkt.m i1 > r0:4")], &["signal.m#3; upkt s4 > o0; nop; copy i1 > s0"]]);
    // A signal of the channel orders both sides, for all ranks that acquire it.
    let receiver = "signal.m#3; wait.p#0; nop; copy i1 > s0; nop; signal.m#1";
    fine(&[&[&format!("{put}; signal.p#0; wait.m#1; nop; get.m#0 r0:0 > o0")], &[receiver]]);
    // So does a packet that the channel carried: its source was read.
    let packets = "cpkt i0 > s4; nop; ppkt.p#0 s4 > r0:5; wait.m#1; nop; cpkt i1 > s4";
    fine(&[&[packets], &["upkt s5 > o0; nop; signal.m#1"]]);
    races(&[&[packets], &["nop; signal.m#1; upkt s5 > o0"]]);
}

#[test]
fn port_sends_packets_that_an_ordered_block_has_found() {
    let sender: &[&str] = &["ppkt.m i0 > r0:0; ppkt.m i1 > r0:1; upkt s0 > o0"];
    fine(&[&["upkt s0 > o0; upkt s1 > o1; nop; ppkt.p#0 s0 > r0:0"], sender]);
    fine(&[&["upkt s0 > o0; nop; sem_release#0", "upkt s1 > o1; sem_acquire#0; nop; ppkt.p#0 s0 > r0:0"], sender]);
    // A second read of the block, which the port does not wait for, takes nothing from the first.
    let twice = "upkt s0 > o0; nop; sem_release#0; nop; upkt s0 > o1";
    let port = "sem_acquire#0; nop; ppkt.p#0 s0 > r0:0";
    let sends: &[&str] = &["ppkt.m i0 > r0:0; upkt s0 > o0"];
    fine(&[&[twice, port], sends]);
    fine(&[&[port, twice], sends]);
    // Packets that only an unordered block has found may still be in flight, whatever the numbers of the blocks.
    let (finds, sends) = ("upkt s0 > o0", "upkt s1 > o1; nop; ppkt.p#0 s0 > r0:0");
    races(&[&[finds, sends], sender]);
    races(&[&[sends, finds], sender]);
    // So may packets that were written together with some that were found.
    let sender: &[&str] = &["ppkt.m i0+2 > r0:0+2; nop; rlxsignal.m#0; upkt s4+2 > o0+2"];
    fine(&[&["rlxwait.m#0; upkt s0+2 > o0+2; nop; ppkt.p#0 s0+2 > r0:4+2"], sender]);
    races(&[&["rlxwait.m#0; upkt s0 > o0; nop; ppkt.p#0 s0+2 > r0:4+2"], sender]);
}

#[test]
fn multicast_to_its_own_source_keeps_readers() {
    let other: &[&str] = &["upkt s0 > o0"];
    for next in ["", "; nop; cpkt i1 > s0"] {
        let own = format!("cpkt i0 > s0; gstorepkt.w s0 > w0:0{next}");
        for blocks in [[own.as_str(), "upkt s0 > o0"], ["upkt s0 > o0", own.as_str()]] {
            match next {
                "" => fine(&[&blocks, other]),
                _ => drop(races(&[&blocks, other])),
            }
        }
    }
    // A reader of one packet acquires nothing of those who wrote the others.
    let write = |read| {
        [
            "copy o0 > s7; nop; cpkt i0 > s0; barrier#0=3",
            "cpkt i1 > s1; barrier#0=3",
            "barrier#0=3; gstorepkt.w s0+2 > w0:0+2",
            read,
        ]
    };
    fine(&[&write("upkt s0+2 > o2+2"), other]);
    races(&[&write("upkt s1 > o0"), other]);
}

#[test]
fn port_carries_triggers_of_other_blocks_that_happen_before() {
    // Whether or not the last put has been posted yet.
    fine(&[
        &["put.p#0 i0 > r0:0; nop; sem_release#0; put.p#0 i1 > r0:1", "sem_acquire#0; nop; signal.p#0"],
        &["wait.p#0; nop; copy s0 > o0"],
    ]);
}

#[test]
fn packets_order_their_readers() {
    // The result packet is the acknowledgement: the first block's read of its input happens before.
    let sums: &str = "repkt i0 s0 > i0; ppkt.m i0 > r0:1";
    fine(&[&["ppkt.m i0 > r0:0", "upkt s1 > i0"], &[sums]]);
    races(&[&["ppkt.m i0 > r0:0", "upkt s1 > i0"], &["ppkt.m i1 > r0:1; upkt s0 > o0"]]);
    // A packet orders, but does not publish plain data that was written before it.
    races(&[&["put.m i1 > r0:5; nop; ppkt.m i0 > r0:0"], &["upkt s0 > o0; nop; copy s5 > o1"]]);
    // A rank unpacks its own multicast packet.
    let own: &str = "cpkt i0 > s0; gstorepkt.w s0 > w0:1; upkt s1 > o0";
    fine(&[&[own], &["upkt s1 > o0"]]);
    // Two writers of one packet.
    races(&[&["ppkt.m i0 > r0:0", "ppkt.m i1 > r0:0"], &["upkt s0 > o0"]]);
    // Of several puts in one operation, those after the packet may still be executing.
    fine(&[&["ppkt.m i0 i1 > r0:0 r0:1", "upkt s2 > i0"], &["repkt i0 s0 > o0; ppkt.m o0 > r0:2"]]);
    races(&[&["ppkt.m i0 i1 > r0:0 r0:1", "upkt s2 > i1"], &["repkt i0 s0 > o0; ppkt.m o0 > r0:2"]]);
    fine(&[&["ppkt.m i0 i1 > r0:0 r0:1", "upkt s2 > i1"], &["repkt i0 s0 s1 > o0; ppkt.m o0 > r0:2"]]);
    // Which of two packets at one address is read is unspecified.
    races(&[&["ppkt.m i0 > r0:0; nop; ppkt.m i1 > r0:0; nop; signal.m#0"], &["upkt s0 > o0; wait.m#0"]]);
    races(&[
        &["ppkt.m i0 > r0:0; upkt s0 > o0; nop; ppkt.m i1 > r0:0; upkt s1 > o0"],
        &["ppkt.m i0 > r0:0; ppkt.m i0 > r0:1; upkt s0 > o0"],
    ]);
    // A port puts packets without waiting for them.
    races(&[&["cpkt i0 > s0; ppkt.p#0 s0 > r0:0"], &["upkt s0 > o0"]]);
    fine(&[&["cpkt i0 > s0; nop; ppkt.p#0 s0 > r0:0"], &["upkt s0 > o0"]]);
    fine(&[&["cpkt i0 > s0; rppkt.p#0 s0 > r0:0"], &["upkt s0 > o0"]]);
}

#[test]
fn packets_overwrite_arrived_packets() {
    // The first packet may arrive after the second, unless an agent has found it or its write is visible.
    let second = |word: &str| format!("{word}wait.m#0; nop; cpkt i1 > s0; nop; signal.m#1; upkt s0 > o0");
    let first = |word: &str| format!("ppkt.m i0 > r0:0; nop; {word}signal.m#0; wait.m#1");
    races(&[&[&first("rlx")], &[&second("rlx")]]);
    fine(&[&[&first("")], &[&second("")]]);
    let found = "upkt s0 > o1; rlxwait.m#0; nop; cpkt i1 > s0; nop; signal.m#1";
    fine(&[&[&first("rlx")], &[found]]);
}

#[test]
fn switch_channels_touch_every_member() {
    let race = races(&[&["gstore.w i0 > w0:3"], &["copy s3 > o0"]]);
    assert!(race.message.contains("scratch chunk 3 of rank 1"), "{}", race.message);
    fine(&[&["gstore.w i0 > w0:3; nop; signal.m#0"], &["wait.m#0; nop; copy s3 > o0"]]);
    races(&[&["glre.w w0:3 > o0"], &["copy i0 > s3"]]);
    races(&[&["glres.w w0:3 > w0:3"], &["glres.w w0:3 > w0:3"]]);
    fine(&[&["glres.w w0:3 > w0:3"], &["glres.w w0:4 > w0:4"]]);
}

#[test]
fn loops_synchronized_per_window_do_not_race() {
    let pipeline = |initial: i64, release: &str| {
        let writer = "loop 64x1 { sem_acquire#0; nop; copy i0 > s0; nop; sem_release#1 }".to_owned();
        let reader = format!("loop 64x1 {{ sem_acquire#1; nop; copy s0 > o0; nop; {release} }}");
        let mut plan = plan(&[&[&writer, &reader], IDLE]);
        plan.ranks[0].semaphores[0] = initial;
        plan
    };
    assert!(check(&pipeline(1, "sem_release#0")).is_empty());
    assert!(check(&pipeline(8, "sem_release#0")).is_empty());
    // Without the handshake the reader runs ahead of the writer.
    races(&[&["loop 64x1 { copy i0 > s0 }", "loop 64x1 { copy s0 > o0 }"], IDLE]);
    races(&[&["loop 64x1 { copy i0 > s0 }; loop 128x1 { copy s0 > o0 }"], IDLE]);
    fine(&[&["loop 64x1 { copy i0 > s0 }; loop 64x1 { copy s0 > o0 }"], IDLE]);
}

#[test]
fn race_is_reported_once_and_findings_are_limited() {
    let many = (0..8).map(|i| format!("copy/0:2 i{i} > s{i}; copy s{i} > o{i}")).collect::<Vec<_>>().join("; ");
    assert_eq!(check(&plan(&[&[&many], IDLE])).len(), 8);
    assert_eq!(check(&plan(&[&["loop 64x1 { copy i0 > s0 }", "loop 64x1 { copy s0 > o0 }"], IDLE])).len(), 1);
}

#[test]
fn packets_of_an_element_order_that_element() {
    // Data put in one range is put back in the same range by two blocks, each of which processes one chunk.
    let mine: &[&str] = &["ppkt.m i2+2 > r0:0+2", "upkt s4+2 > i2+2"];
    fine(&[mine, &["repkt i2 s0 > i2; ppkt.m i2 > r0:4", "repkt i3 s1 > i3; ppkt.m i3 > r0:5"]]);
    // Forwarded once more.
    fine(&[mine, &["rppkt.m s0 > r0:4", "upkt s1 > i3; ppkt.m i3 > r0:5"]]);
    // The reverse: put chunk by chunk, and back in one range.
    fine(&[
        &["ppkt.m i2 > r0:0", "ppkt.m i3 > r0:1", "upkt s4+2 > i2+2"],
        &["repkt i2+2 s0+2 > i2+2; ppkt.m i2+2 > r0:4+2"],
    ]);
    // One of the two has not waited for the packets that its packet seems to acknowledge.
    races(&[mine, &["repkt i2 s0 > i2; ppkt.m i2 > r0:4", "ppkt.m i3 > r0:5"]]);
    // Both have waited, but for each other's chunk.
    races(&[mine, &["repkt i2 s0 > i2; ppkt.m i2 > r0:5", "repkt i3 s1 > i3; ppkt.m i3 > r0:4"]]);
    // The packet releases what its thread did before, not what it does next.
    races(&[&["ppkt.m i3 > r0:0; ppkt.m i2 > r0:1", "upkt s4 > i2"], &["upkt s0 > o0; ppkt.m o0 > r0:4"]]);
}

/// Returns all findings of the race rule, for the plan and with the assumption that its ordered counters are unordered.
#[track_caller]
fn all_fine(plan: &PlanTree) {
    let (deadlocks, races) = verdict(plan).of_order();
    assert!(deadlocks.is_empty() && races.is_empty(), "{deadlocks}{races}");
}

#[track_caller]
fn refused(plan: &PlanTree) -> Code {
    let (deadlocks, races) = verdict(plan).of_order();
    deadlocks.iter().chain(races.iter()).next().expect("a finding").code
}

#[test]
fn blocks_use_one_channel_one_after_the_other() {
    let handshake = "rlxsignal.m#0; rlxwait.m#0; nop";
    let put = |chunk| format!("put.m i{chunk} > r2:{chunk}; nop; signal.m#0; wait.m#0; nop");
    let both = |blocks: [&str; 2]| plan(&[&blocks, &blocks]);
    let first = format!("{handshake}; {}; barrier#0=2", put(0));
    all_fine(&both([&first, &format!("barrier#0=2; {}", put(1))]));
    // A semaphore does as well, and so does a clock that only one thread has acquired.
    let release = first.replace("barrier#0=2", "sem_release#0");
    all_fine(&both([&release, &format!("sem_acquire#0; nop; {}", put(1))]));
    all_fine(&both([&release, &format!("sem_acquire#0; {}", put(1).replace("put.m i1 > r2:1; nop; ", ""))]));
    // And the other rank, by other channels.
    let told = format!("{handshake}; {}; signal.m#1", put(0));
    let (second, echo) = (format!("wait.m#2; nop; {}", put(1)), "wait.m#1; rlxsignal.m#2");
    let three = [&told[..], &second, echo];
    all_fine(&plan(&[&three, &three]));
    // Unordered, either takes the first signal.
    assert_eq!(refused(&both([&first.replace("; barrier#0=2", ""), &put(1)])), Code::Deadlock);
    let early = first.replace("wait.m#0; nop; barrier#0=2", "barrier#0=2; wait.m#0; nop");
    assert_eq!(refused(&both([&early, &format!("barrier#0=2; {}", put(1))])), Code::Deadlock);
    // Ordered, but the second block takes the signal of the first part.
    let swapped = format!("{handshake}; put.m i0 > r2:0; nop; signal.m#0; barrier#0=2; copy o0 > s0");
    let waits = format!("barrier#0=2; {}; wait.m#0", put(1).replace("; nop", ""));
    assert_eq!(refused(&both([&swapped, &waits])), Code::Race);
}

#[test]
fn members_of_a_group_signal_on_one_channel_in_order() {
    let (first, second) =
        ("put.m/0:2 i0 > r0:0; nop; signal.m#0; barrier#0=2", "put.m/1:2 i0 > r0:0; barrier#0=2; signal.m#0");
    let all = "wait.m#0; wait.m#0; nop; copy s0 > o0";
    fine(&[&[first, second], &[all]]);
    // The first signal releases the first part only.
    fine(&[&[first, second], &["wait.m#0; nop; copy/0:2 s0 > o0; wait.m#0"]]);
    races(&[&[first, second], &["wait.m#0; nop; copy s0 > o0; wait.m#0"]]);
    races(&[&[first, second], &["wait.m#0; nop; copy/1:2 s0 > o0; wait.m#0"]]);
    // Without the barrier either may be first.
    let apart = [first.replace("; barrier#0=2", ""), second.replace("barrier#0=2", "nop")];
    fine(&[&[&apart[0], &apart[1]], &[all]]);
    let race = races(&[&[&apart[0], &apart[1]], &["wait.m#0; nop; copy/0:2 s0 > o0; wait.m#0"]]);
    assert!(race.help.unwrap().starts_with("several threads signal on a channel"));
    // Two blocks that wait, ordered.
    let waits: &[&str] =
        &["wait.m#0; nop; copy/0:2 s0 > o0; barrier#0=2", "barrier#0=2; wait.m#0; nop; copy/1:2 s0 > o0"];
    fine(&[&[first, second], waits]);
    races(&[&[&apart[0], &apart[1]], waits]);
    // Ports keep the order of their triggers, if they are ordered.
    let port = |text: &str| {
        text.replace(".m", ".p").replacen("/0:2 i0 > r0:0", "#0 i0 > r0:0", 1).replacen(
            "/1:2 i0 > r0:0",
            "#0 i1 > r0:1",
            1,
        )
    };
    let read =
        |count: usize| vec!["wait.p#0"; count].join("; ") + "; nop; copy s0 > o0" + &"; wait.p#0".repeat(2 - count);
    fine(&[&[&port(first), &port(second)], &[&read(1)]]);
    races(&[&[&port(&apart[0]), &port(&apart[1])], &[&read(1)]]);
    fine(&[&[&port(&apart[0]), &port(&apart[1])], &[&read(2)]]);
}

#[test]
fn signal_of_any_block_shows_that_its_rank_has_started() {
    let put = |open: &str| {
        format!(
            "{open}; nop; put.m i0 > r2:0; nop; signal.m#1{}",
            if open.matches("wait").count() == 1 { "; rlxwait.m#0" } else { "" }
        )
    };
    let begun: &[&str] = &["rlxsignal.m#0; wait.m#1", "rlxsignal.m#0"];
    all_fine(&plan(&[&[&put("rlxwait.m#0")], begun]));
    // An initial unit releases no clock.
    let mut plan = plan(&[&[&put("rlxwait.m#0").replace("rlxwait.m#0", "nop")], &["wait.m#1"]]);
    assert_eq!(refused(&plan), Code::EarlyAccess);
    plan.ranks[0].semaphores[0] = 1;
    assert_eq!(refused(&plan), Code::EarlyAccess);
}

#[test]
fn every_thread_of_an_operation_is_compared_with_the_waits_before() {
    // The first thread has waited before, the second one may still take that signal from it.
    let waits = "wait.m#0; wait.m#0,0; nop; signal.m#1";
    let signals = "signal.m#0; nop; signal.m#0,0; wait.m#1";
    assert_eq!(refused(&plan(&[&[waits], &[signals]])), Code::Deadlock);
    all_fine(&plan(&[&[&waits.replacen("; ", "; nop; ", 1)], &[signals]]));
}

#[test]
fn signal_follows_the_wait_that_received_the_last_one() {
    // The second block's signal answers a signal that rank 1 sends after it has waited for the first block's.
    let (second, waits) = ("wait.m#0; nop; signal.m#0", "wait.m#0; nop; copy s0 > o0; nop; signal.m#0; wait.m#0");
    let early = "wait.m#0; barrier#0=2; put.m i0 > r0:0; barrier#0=2; signal.m#0";
    let answers = format!("signal.m#0; {waits}");
    fine(&[&[early, &format!("barrier#0=2; barrier#0=2; {second}")], &[&answers]]);
    // Without the wait for rank 1's answer, either may be first.
    races(&[&[early, "barrier#0=2; signal.m#0; barrier#0=2; wait.m#0"], &[&answers]]);
    // A signal that rank 1 sends before it waits is no answer.
    let ahead = "signal.m#0; signal.m#0; wait.m#0; nop; copy s0 > o0; wait.m#0";
    races(&[&[early, &format!("barrier#0=2; barrier#0=2; {second}")], &[ahead]]);
    // Initial units satisfy the first waits, which acquire no signal.
    let units = |initial: i64, acquires: &str| {
        let blocks: &[&str] = &[
            "copy i0 > s0; nop; sem_release#0",
            &format!("{acquires}; nop; copy s0 > o0; nop; sem_release#1"),
            "sem_acquire#1; sem_release#0",
        ];
        let mut plan = plan(&[blocks, IDLE]);
        plan.ranks[0].semaphores[0] = initial;
        check(&plan).is_empty()
    };
    assert!(units(0, "sem_acquire#0"));
    assert!(!units(1, "sem_acquire#0"));
    assert!(units(1, "sem_acquire#0; sem_acquire#0"));
}

#[test]
fn several_signaling_threads_in_loops_release_no_clock() {
    // With one iteration the wait would acquire all signals, with more it does not.
    let member = |part: u32| format!("loop 64x1 {{ put.m/{part}:2 i0 > r0:0; nop; signal.m#0 }}");
    let reader = |inside: &str, after: &str| format!("loop 64x1 {{ wait.m#0; wait.m#0; nop; {inside} }}; nop; {after}");
    races(&[&[&member(0), &member(1)], &[&reader("copy s0 > o0", "nop")]]);
    fine(&[&[&member(0), &member(1)], &[&reader("nop", "copy s0 > o0")]]);
}

#[test]
fn accesses_that_are_ordered_but_not_published_are_not_called_unordered() {
    let writer = "put.m i0 > r0:2; nop; rlxsignal.m#0";
    for (reader, does) in [("copy s2 > o0", "reads"), ("copy i0 > s2", "writes")] {
        let found = crate::check(&plan(&[&[writer], &[&format!("wait.m#0; nop; {reader}")]]));
        let message = &found.iter().next().expect("a finding").message;
        assert_eq!(
            *message,
            format!(
                "data race on scratch chunk 2 of rank 1: `copy` (rank 1, thread block 0) {does} it before the write by \
                 `put` (rank 0, thread block 0) is visible to rank 1"
            )
        );
    }
}

/// Returns the help of the first finding.
#[track_caller]
fn help(ranks: &[&[&str]]) -> String {
    let found = crate::check(&plan(ranks));
    let first = found.iter().next().expect("a finding");
    assert_eq!(first.code, Code::Race, "{first}");
    first.help.clone().unwrap_or_default()
}

#[test]
fn help_names_operations_of_the_program() {
    let reader = "upkt s0 > o0; nop; copy s2 > o2";
    let text = help(&[&["put.m i2 > r0:2; nop; ppkt.m i0 > r0:0"], &[reader]]);
    assert!(text.starts_with("a packet publishes only its own data"), "{text}");
    let text = help(&[&["put.m i0 > r0:2; nop; rlxsignal.m#0"], &["wait.m#0; nop; copy s2 > o0"]]);
    assert!(text.starts_with("a relaxed signal"), "{text}");
    // A handshake that is not relaxed would not help: the packet comes after it.
    let ready = "rlxsignal.m#0; rlxwait.m#0; nop";
    let text =
        help(&[&[&format!("{ready}; put.m i2 > r0:2; nop; ppkt.m i0 > r0:0")], &[&format!("{ready}; {reader}")]]);
    assert!(text.starts_with("neither a relaxed signal nor a packet"), "{text}");
    let text = help(&[&["ppkt.m i0 > r0:0", "ppkt.m i1 > r0:0"], &["upkt s0 > o0"]]);
    assert!(text.starts_with("write the second packet to separate scratch"), "{text}");
}
