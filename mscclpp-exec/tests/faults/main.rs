//! Processes that die, stop, come late, come twice or never, and strangers on the port: every rank that can still say
//! something says who it was, nobody hangs, nothing is left behind.
//!
//! One round of each kind; `MSCCLPP_FAULT_ROUNDS=200` runs as many in all. `MSCCLPP_FAULT_SEED` repeats one.

mod calls;
mod deaths;
mod meeting;
mod process;
mod rank;
mod round;

use std::time::{Duration, Instant};

use self::calls::{
    collective_calls, killed_in_a_collective, killed_while_it_prepares, otherwise_than_the_others,
    stopped_in_a_collective,
};
use self::deaths::{
    killed_while_it_starts, killed_while_it_waits_for_others, killed_while_it_works, stopped, survivors_go_on,
};
use self::meeting::{
    another_secret, another_size, nothing, strangers_on_the_port, the_same_rank_twice, too_late, two_jobs_on_one_port,
    without_rank_0,
};
use self::round::Round;

/// How long ranks wait for each other here, in seconds.
const TIMEOUT: f64 = 3.0;
/// After how many seconds a silent rank counts as dead here.
const LIVENESS: f64 = 1.0;
/// What takes longer than this hangs.
const HANG: Duration = Duration::from_secs(60);

type Kind = (&'static str, fn(Round));

const KINDS: [Kind; 22] = [
    ("nothing", nothing),
    ("killed while it starts", killed_while_it_starts),
    ("killed while it works", killed_while_it_works),
    ("killed while it waits for others", killed_while_it_waits_for_others),
    ("stopped while it starts", |round| stopped(round, false)),
    ("stopped while it works", |round| stopped(round, true)),
    ("strangers on the port", strangers_on_the_port),
    ("another secret", another_secret),
    ("two jobs on one port", two_jobs_on_one_port),
    ("the same rank twice", the_same_rank_twice),
    ("another size", another_size),
    ("too late", too_late),
    ("without rank 0", without_rank_0),
    ("misses a call", |round| otherwise_than_the_others(round, "misses a call", "did not come to barrier (call")),
    ("calls something else", |round| otherwise_than_the_others(round, "calls something else", "make different calls")),
    ("gives up", |round| otherwise_than_the_others(round, "gives up", "aborted: on purpose")),
    ("leaves", |round| otherwise_than_the_others(round, "leaves", "has left the group")),
    ("collective calls", collective_calls),
    ("killed in a collective", killed_in_a_collective),
    ("killed while it prepares", killed_while_it_prepares),
    ("stopped in a collective", stopped_in_a_collective),
    ("survivors go on", survivors_go_on),
];

#[test]
fn faults_are_named_and_nobody_hangs() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let (first, rounds) = match number("MSCCLPP_FAULT_SEED") {
        Some(seed) => (seed, 1),
        None => (0, number("MSCCLPP_FAULT_ROUNDS").unwrap_or(KINDS.len() as u64)),
    };
    for seed in first..first + rounds {
        let (kind, run) = KINDS[(seed % KINDS.len() as u64) as usize];
        let start = Instant::now();
        println!("MSCCLPP_FAULT_SEED={seed}: {kind}");
        run(Round::new(seed));
        println!("  {:.1} s", start.elapsed().as_secs_f64());
    }
}
