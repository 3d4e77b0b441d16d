//! Waits and barriers an iteration ahead: a loop's iteration needs a wait of the previous one, or of before the loop.

use super::random::brute_force;
use super::{found, plan};
use mscclpp_plan::diag::Code;

fn codes(blocks: &[&str]) -> (Option<Option<(u64, String)>>, Vec<Code>) {
    let plan = plan(&[blocks, &[""]]);
    (brute_force(&plan, 26), found(&plan).into_iter().map(|(code, _)| code).collect())
}

#[track_caller]
fn right(blocks: &[&str]) {
    assert_eq!(codes(blocks), (Some(None), Vec::new()));
}

/// Expects a race that occurs at some size.
#[track_caller]
fn races(blocks: &[&str]) {
    let (seen, codes) = codes(blocks);
    assert!(seen.flatten().is_some());
    assert_eq!(codes, [Code::Race]);
}

const FILL: &str = "loop 32x1 { copy i0 > s0; nop; sem_release#0 }; sem_release#0";

#[test]
fn wait_an_iteration_ahead_is_for_the_iteration() {
    right(&[FILL, "sem_acquire#0; nop; loop 32x1 { copy s0 > o0; sem_acquire#0; nop }"]);
    right(&[FILL, "sem_acquire#0; loop 32x1 { nop; copy s0 > o0; sem_acquire#0 }"]);
    right(&[FILL, "sem_acquire#0; barrier#0=1; loop 32x1 { copy s0 > o0; barrier#0=1; sem_acquire#0; nop }"]);
    // Two iterations ahead.
    let fill = format!("{FILL}; sem_release#0");
    right(&[&fill, "sem_acquire#0; sem_acquire#0; nop; loop 32x1 { copy s0 > o0; nop; sem_acquire#0; nop }"]);
    // Before the wait of the iteration, which is for the next one.
    right(&[FILL, "sem_acquire#0; loop 32x1 { nop; copy s0 > o0; nop; sem_acquire#0; nop }; copy s0 > o1"]);
}

#[test]
fn wait_an_iteration_ahead_is_acquired_by_all_threads_after_a_block_sync() {
    races(&[FILL, "sem_acquire#0; nop; loop 32x1 { copy s0 > o0; nop; sem_acquire#0 }"]);
    races(&[FILL, "sem_acquire#0; loop 32x1 { copy s0 > o0; sem_acquire#0; nop }"]);
    races(&[FILL, "sem_acquire#0; loop 32x1 { copy s0 > o0; nop; sem_acquire#0 }"]);
}

#[test]
fn wait_an_iteration_ahead_needs_a_release_before_it() {
    // The first window is missing.
    races(&[FILL, "loop 32x1 { nop; copy s0 > o0; sem_acquire#0 }; sem_acquire#0"]);
    let late = "loop 32x1 { sem_release#0; copy i0 > s0; nop }; sem_release#0";
    races(&[late, "sem_acquire#0; nop; loop 32x1 { copy s0 > o0; sem_acquire#0; nop }"]);
    // A release before the loop satisfies the wait before the loop.
    let early = "sem_release#0; loop 32x1 { copy i0 > s0; nop; sem_release#0 }";
    races(&[early, "sem_acquire#0; nop; loop 32x1 { copy s0 > o0; sem_acquire#0; nop }"]);
    // The window after the next one.
    races(&[FILL, "sem_acquire#0; nop; loop 96x3 { copy s0+3 > o0+3; sem_acquire#0; nop }"]);
    // Another block releases, too.
    races(&[
        "loop 32x1 { copy i0 > s0; nop; sem_release#0 }",
        "sem_release#0",
        "sem_acquire#0; nop; loop 32x1 { copy s0 > o0; sem_acquire#0; nop }",
    ]);
}

#[test]
fn relaxed_wait_an_iteration_ahead_makes_nothing_visible() {
    let send = "rlxwait.m#1; nop; loop 32x1 { put.m i0 > r0:0; nop; signal.m#0 }; signal.m#0";
    let receive = "rlxsignal.m#1; wait.m#0; nop; loop 32x1 { copy s0 > o0; wait.m#0; nop }";
    let codes = |send: &str, receive: &str| {
        let plan = plan(&[&[send], &[receive]]);
        (brute_force(&plan, 26).is_some_and(|seen| seen.is_none()), found(&plan).first().map(|(code, _)| *code))
    };
    assert_eq!(codes(send, receive), (true, None));
    for (send, receive) in [
        (send.replace("; signal.m#0 }", "; rlxsignal.m#0 }"), receive.to_owned()),
        (send.to_owned(), receive.replace("1; wait.m#0", "1; rlxwait.m#0")),
        (send.to_owned(), receive.replace("o0; wait.m#0", "o0; rlxwait.m#0")),
    ] {
        assert_eq!(codes(&send, &receive), (false, Some(Code::Race)), "{send} / {receive}");
    }
}

#[test]
fn barrier_an_iteration_ahead_is_for_the_iteration() {
    let fill = "loop 32x1 { copy i0 > s0; barrier#0=2 }; barrier#0=2";
    right(&[fill, "barrier#0=2; loop 32x1 { copy s0 > o0; barrier#0=2 }"]);
    right(&[fill, "barrier#0=2; loop 32x1 { copy s0 > o0; barrier#0=2 }; copy s0 > o1"]);
    right(&[fill, "barrier#0=2; loop 32x1 { barrier#0=2; copy s0 > o0 }"]);
    races(&[fill, "loop 32x1 { copy s0 > o0; barrier#0=2 }; barrier#0=2"]);
    races(&[
        &fill.replace("copy i0 > s0; barrier#0=2", "barrier#0=2; copy i0 > s0"),
        "barrier#0=2; loop 32x1 { copy s0 > o0; barrier#0=2 }",
    ]);
    races(&[fill, "barrier#0=2; copy s0 > o0; loop 32x1 { barrier#0=2 }"]);
    races(&[fill, "barrier#0=2; loop 96x3 { copy s0+3 > o0+3; barrier#0=2 }"]);
    races(&[
        "barrier#0=2; loop 32x1 { copy i0 > s0; barrier#0=2 }",
        "barrier#0=2; loop 32x1 { copy s0 > o0; barrier#0=2 }",
    ]);
    // Three blocks, one of them an iteration ahead of one and an iteration later than the other.
    let three = |text: &str| text.replace("=2", "=3");
    right(&[
        &three(&format!("{fill}; barrier#0=2")),
        &three("barrier#0=2; loop 32x1 { copy s0 > o0; barrier#0=2 }; barrier#0=2"),
        &three("barrier#0=2; barrier#0=2; loop 32x1 { copy o0 > s1; barrier#0=2 }"),
    ]);
}
