//! Counters that several thread blocks use one after the other, some of them in loops.

use super::random::brute_force;
use super::{found, plan};
use mscclpp_plan::diag::Code;

/// Both ranks have these blocks.
fn codes(blocks: [&str; 2]) -> Vec<Code> {
    found(&plan(&[&blocks, &blocks])).into_iter().map(|(code, _)| code).collect()
}

#[track_caller]
fn right(blocks: [&str; 2]) {
    assert_eq!(brute_force(&plan(&[&blocks, &blocks]), 26), Some(None));
    assert_eq!(codes(blocks), []);
}

const FIRST: &str = "rlxsignal.m#0; wait.m#0; barrier#0=2";
const SECOND: &str = "barrier#0=2; loop 64x1 { put.m i0 > r2:0; nop; signal.m#0; wait.m#0; nop }; copy o0 > s0";

#[test]
fn channel_that_blocks_use_in_turn_is_tracked_through_a_loop() {
    right([FIRST, SECOND]);
    // In loops of two rates, and outside of loops again.
    right([&FIRST.replace("rlxsignal.m#0; wait.m#0", "loop 32x1 { rlxsignal.m#0; wait.m#0 }"), SECOND]);
    right([
        &format!("{FIRST}; barrier#0=2; put.m i1 > r2:1; nop; signal.m#0; wait.m#0; nop; copy o0+2 > s0+2"),
        &SECOND.replace("copy o0 > s0", "barrier#0=2"),
    ]);
}

#[test]
fn channel_that_blocks_use_in_turn_needs_every_part_of_the_handshake() {
    let both = |one: &str, other: &str| codes([&FIRST.replace(one, other), &SECOND.replace(one, other)]);
    let second = |one: &str, other: &str| codes([FIRST, &SECOND.replace(one, other)]);
    // The copy reads what the peer has put.
    assert_eq!(second("; signal", "; rlxsignal"), [Code::Race; 2]);
    assert_eq!(second("signal.m#0; wait", "signal.m#0; rlxwait"), [Code::Race; 2]);
    assert_eq!(second("put.m i0 > r2:0; nop; signal.m#0", "signal.m#0; put.m i0 > r2:0; nop"), [Code::Race; 2]);
    assert_eq!(second("put.m i0 > r2:0; nop", "put.m i0 > r2:0"), [Code::Race; 2]);
    assert_eq!(both("rlxsignal.m#0; wait.m#0; ", ""), [Code::EarlyAccess; 2]);
    assert_eq!(second("wait.m#0; ", ""), [Code::UnmatchedWait; 2]);
    // The two blocks are unordered.
    let no_barrier = ["rlxsignal.m#0; wait.m#0", &SECOND.replace("barrier#0=2; ", "")];
    for blocks in [no_barrier, ["barrier#0=2; rlxsignal.m#0; wait.m#0", SECOND]] {
        assert!(codes(blocks).contains(&Code::Deadlock));
    }
    // The peer makes another number of iterations.
    let ranks = [[FIRST, SECOND], [FIRST, &SECOND.replace("64x1", "32x1")]];
    let found = found(&plan(&[&ranks[0], &ranks[1]]));
    assert_eq!(found.into_iter().map(|(code, _)| code).collect::<Vec<_>>(), [Code::UnmatchedWait; 2]);
}

/// The order of the iterations of two loops of one rate is not tracked.
#[test]
fn channel_that_blocks_use_in_loops_of_one_rate_is_rejected() {
    let first = FIRST.replace("rlxsignal.m#0; wait.m#0", "loop 64x1 { rlxsignal.m#0; wait.m#0 }");
    assert_eq!(codes([&first, SECOND]), [Code::Undecided; 2]);
}

#[test]
fn semaphore_that_blocks_use_in_turn_is_tracked_after_a_loop() {
    let blocks = [
        "loop 32x1 { copy i0 > s0; nop; sem_release#0 }; copy i1 > s1; nop; sem_release#0",
        "loop 32x1 { sem_acquire#0 }; nop; sem_release#1",
        "sem_acquire#1; sem_acquire#0; nop; copy s1 > o1; copy s0 > o0",
    ];
    super::right(&blocks, 0);
    // An initial unit satisfies the first wait, so that the last one is not for the last copy.
    assert_eq!(found_with(&blocks, 1), [Code::Race]);
    let ahead = [blocks[0], blocks[1], "sem_acquire#1; nop; copy s1 > o1; sem_acquire#0"];
    assert_eq!(found_with(&ahead, 0), [Code::Race]);
}

fn found_with(blocks: &[&str], initial: i64) -> Vec<Code> {
    let mut plan = plan(&[blocks, &[""]]);
    plan.ranks[0].semaphores[0] = initial;
    found(&plan).into_iter().map(|(code, _)| code).collect()
}

/// An order of two blocks by every iteration of a loop does not exist if the loop has none.
#[test]
fn loop_orders_nothing_for_messages_without_data() {
    let blocks = [
        "sem_acquire#3; nop; sem_release#1; loop 32x1 { sem_release#0 }",
        "loop 32x1 { sem_acquire#0 }; nop; sem_acquire#3",
        "sem_release#3; sem_acquire#1; sem_release#3",
    ];
    let mut plan = plan(&[&blocks, &[""]]);
    let told = found(&plan);
    assert_eq!(told.iter().map(|(code, _)| *code).collect::<Vec<_>>(), [Code::Deadlock]);
    assert!(told[0].1.ends_with(", for messages without data"), "{}", told[0].1);
    plan.min_message_size = 1;
    assert_eq!(found(&plan), []);
}
