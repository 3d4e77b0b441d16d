//! Ranks that make a different call, and faults during collectives.

use std::time::Duration;

use rustix::process::Signal;

use crate::round::{FOREVER, Round, names};
use crate::{LIVENESS, SHORT};

/// One rank makes a different call, and all ranks report which rank and which call.
pub(crate) fn otherwise_than_the_others(mut round: Round, what: &str, expected: &str) {
    if what == "misses a call" {
        round.timeout = SHORT;
    }
    let work = |rank| if rank == round.victim { what } else { "messages" };
    let start = |rank| round.start_as(work(rank), rank, FOREVER);
    let all: Vec<_> = (0..round.size).map(start).collect();
    let victim = format!("rank {}", round.victim);
    for process in all {
        let itself = process.name == victim;
        let said = process.outcome();
        // A rank that leaves in order reports no error.
        if !(itself && what == "leaves") {
            assert!(names(&said, &victim) && said.contains(expected), "{said}");
        }
    }
}

pub(crate) fn collective_calls(round: Round) {
    for process in round.start_collectives(50) {
        assert_eq!(process.outcome(), "ok");
    }
}

/// One rank makes a copy of its process while the ranks make calls.
pub(crate) fn forks(round: Round) {
    for process in (0..round.size).map(|rank| round.start_as("forks", rank, round.victim)).collect::<Vec<_>>() {
        assert_eq!(process.outcome(), "ok");
    }
}

pub(crate) fn killed_in_a_collective(mut round: Round) {
    let mut all = round.start_collectives(FOREVER);
    let victim = all.remove(round.victim as usize);
    assert!(victim.wait_connected());
    round.pause(Duration::from_millis(30));
    drop(victim);
    round.named_by(all);
}

/// Between its first instruction and its first calls: while memory is shared.
pub(crate) fn killed_while_it_prepares(mut round: Round) {
    round.timeout = SHORT;
    let mut all = round.start_collectives(FOREVER);
    round.pause(Duration::from_millis(60));
    drop(all.remove(round.victim as usize));
    round.named_by(all);
}

pub(crate) fn stopped_in_a_collective(mut round: Round) {
    round.liveness = LIVENESS;
    let mut all = round.start_collectives(FOREVER);
    let victim = all.remove(round.victim as usize);
    assert!(victim.wait_connected());
    round.pause(Duration::from_millis(30));
    victim.signal(Signal::STOP);
    round.named_by(all);
    victim.signal(Signal::CONT);
    assert_ne!(victim.outcome(), "ok");
}
