//! Processes that are killed, stopped, late, duplicated or missing, and foreign connections to the port: every
//! surviving rank names the faulty one, no rank hangs, and no resource is leaked.
//!
//! One round of each kind; `MSCCLPP_FAULT_ROUNDS=200` runs that number in total. `MSCCLPP_FAULT_SEED` repeats one.

mod calls;
mod causes;
mod deaths;
mod fault_case;
mod meeting;
#[path = "../../../mscclpp-exec/tests/common/port.rs"]
mod port;
mod process;
mod rank;
mod round;
mod rounds;

use std::time::{Duration, Instant};

use self::calls::{
    collective_calls, forks, killed_in_a_collective, killed_while_it_prepares, otherwise_than_the_others,
    stopped_in_a_collective,
};
use self::deaths::{
    killed_rank_is_replaced, killed_while_it_starts, killed_while_it_waits_for_others, killed_while_it_works, stopped,
    stopped_as_a_whole, stopped_rank_is_excluded, survivors_go_on,
};
use self::meeting::{
    another_secret, another_size, nothing, strangers_on_the_port, the_same_rank_twice, too_late, two_jobs_on_one_port,
    without_rank_0,
};
use self::round::Round;

/// A timeout that never expires in these tests, for calls and for unresponsive ranks.
const LONG: Duration = Duration::from_secs(120);
/// Timeout for a rank that never arrives. All other ranks arrive within it, however busy the machine is.
const SHORT: Duration = Duration::from_secs(8);
/// Time after which a stopped rank counts as lost.
const LIVENESS: Duration = Duration::from_secs(5);
/// A round that takes longer than this counts as hung.
const HANG: Duration = Duration::from_secs(300);
/// Number of concurrent rounds: most of them spend most of their time waiting.
const AT_ONCE: usize = 4;

type Kind = (&'static str, fn(Round));

const KINDS: [Kind; 26] = [
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
    ("misses a call", |round| otherwise_than_the_others(round, "misses a call", "did not enter barrier (call")),
    ("calls something else", |round| otherwise_than_the_others(round, "calls something else", "make different calls")),
    ("gives up", |round| otherwise_than_the_others(round, "gives up", "aborted: on purpose")),
    ("leaves", |round| otherwise_than_the_others(round, "leaves", "has left the communicator")),
    ("collective calls", collective_calls),
    ("killed in a collective", killed_in_a_collective),
    ("killed while it prepares", killed_while_it_prepares),
    ("stopped in a collective", stopped_in_a_collective),
    ("survivors go on", survivors_go_on),
    ("stopped as a whole", stopped_as_a_whole),
    ("forks", forks),
    ("killed rank is replaced", killed_rank_is_replaced),
    ("stopped rank is excluded", stopped_rank_is_excluded),
];

#[test]
fn faults_are_named_and_no_rank_hangs() {
    rounds::run("FAULT", 0, KINDS.len() as u64, AT_ONCE, |seed| {
        let (kind, run) = KINDS[(seed % KINDS.len() as u64) as usize];
        let start = Instant::now();
        println!("MSCCLPP_FAULT_SEED={seed}: {kind}");
        run(Round::new(seed));
        println!("  {kind}: {:.1} s", start.elapsed().as_secs_f64());
    });
}

/// Faults at any time of any call, of 2 to 8 ranks. Without `MSCCLPP_CAUSE_SEED`, new cases each time.
#[test]
fn all_ranks_name_the_same_root_cause() {
    rounds::run("CAUSE", rounds::fresh_seed(), 24, AT_ONCE, |seed| {
        println!("MSCCLPP_CAUSE_SEED={seed}: {:?}", causes::case(seed));
        causes::same_root_cause(Round::new(seed));
    });
}
