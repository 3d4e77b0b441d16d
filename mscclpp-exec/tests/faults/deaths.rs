//! A rank dies or stops.

use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::process::Process;
use crate::round::{FOREVER, Round};

/// Somewhere between its first instruction and its first calls.
pub(crate) fn killed_while_it_starts(mut round: Round) {
    let mut all = round.start_all(FOREVER);
    round.pause(Duration::from_millis(30));
    let victim = all.remove(round.victim as usize);
    drop(victim);
    round.named_by(all);
}

pub(crate) fn killed_while_it_works(mut round: Round) {
    let mut all = round.start_all(FOREVER);
    let victim = all.remove(round.victim as usize);
    assert!(victim.wait_connected());
    round.pause(Duration::from_millis(10));
    drop(victim);
    round.named_by(all);
}

/// It has been taken in, and others are still missing.
pub(crate) fn killed_while_it_waits_for_others(mut round: Round) {
    round.size += 1;
    round.victim = round.victim.max(1);
    let late = round.size - 1;
    let mut all: Vec<_> = (0..late).map(|rank| round.start(rank, FOREVER)).collect();
    thread::sleep(Duration::from_millis(200));
    let victim = if round.victim == late { late - 1 } else { round.victim };
    round.victim = victim;
    drop(all.remove(victim as usize));
    round.named_by(all);
}

/// Stopped before it is in, or while it works. It ends when it is woken up.
pub(crate) fn stopped(mut round: Round, connected: bool) {
    let mut all = round.start_all(FOREVER);
    let victim = all.remove(round.victim as usize);
    if connected {
        assert!(victim.wait_connected());
    }
    round.pause(Duration::from_millis(20));
    victim.signal(Signal::STOP);
    round.named_by(all);
    victim.signal(Signal::CONT);
    let said = victim.outcome();
    assert_ne!(said, "ok");
}

pub(crate) fn survivors_go_on(mut round: Round) {
    round.size = round.size.max(3);
    let start = |rank| Process::start_as("survive", rank, round.size, round.port, 20, &round.secret);
    let mut all: Vec<_> = (0..round.size).map(start).collect();
    assert!(all.iter().all(Process::wait_connected));
    drop(all.remove(round.victim as usize));
    for process in all {
        let who = process.name.clone();
        assert_eq!(process.outcome(), "ok", "{who} without rank {}", round.victim);
    }
}
