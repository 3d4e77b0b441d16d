//! A rank that is killed or stopped.

use std::ffi::OsStr;
use std::thread;
use std::time::{Duration, SystemTime};

use rustix::process::Signal;

use crate::process::Process;
use crate::rank::{END, GROWS};
use crate::round::{FOREVER, Round};
use crate::{LIVENESS, SHORT};

/// Between its first instruction and its first calls.
pub(crate) fn killed_while_it_starts(mut round: Round) {
    round.timeout = SHORT;
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

/// It has joined, and other ranks are still missing.
pub(crate) fn killed_while_it_waits_for_others(mut round: Round) {
    round.size += 1;
    round.victim = round.victim.max(1);
    let late = round.size - 1;
    let mut all: Vec<_> = (0..late).map(|rank| round.start(rank, FOREVER)).collect();
    let victim = if round.victim == late { late - 1 } else { round.victim };
    round.victim = victim;
    assert!(all[victim as usize].wait_taken_in());
    drop(all.remove(victim as usize));
    round.named_by(all);
}

/// Stopped before it has joined, or while it works. It ends when it is continued.
pub(crate) fn stopped(mut round: Round, connected: bool) {
    round.liveness = LIVENESS;
    if !connected {
        round.timeout = SHORT;
    }
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

/// All ranks are stopped, for longer than ranks wait for each other: no rank counts as lost.
pub(crate) fn stopped_as_a_whole(mut round: Round) {
    (round.victim, round.timeout) = (round.victim.max(1), SHORT);
    let folder = tempfile::tempdir().unwrap();
    let end = folder.path().join("end");
    let start = |rank| Process::start_with(&round, "goes on", rank, FOREVER, &[(END, end.as_os_str())]);
    let all: Vec<_> = (0..round.size).map(start).collect();
    assert!(all.iter().all(Process::wait_connected));
    // The victim is stopped first and continued last, so that the others wait for it.
    let victim = &all[round.victim as usize];
    let others = all.iter().filter(|process| process.name != victim.name);
    victim.signal(Signal::STOP);
    thread::sleep(Duration::from_secs(1));
    others.clone().for_each(|process| process.signal(Signal::STOP));
    thread::sleep(SHORT + SHORT / 4);
    others.for_each(|process| process.signal(Signal::CONT));
    thread::sleep(Duration::from_secs(1));
    victim.signal(Signal::CONT);
    std::fs::write(&end, "").unwrap();
    for process in all {
        assert_eq!(process.outcome(), "ok");
    }
}

/// The remaining ranks continue with collective calls, and then with the killed rank, which is started again.
pub(crate) fn killed_rank_is_replaced(mut round: Round) {
    round.size = 4;
    let grows = [(GROWS, OsStr::new("1"))];
    let mut all: Vec<_> =
        (0..round.size).map(|rank| Process::start_with(&round, "recovers", rank, 20, &grows)).collect();
    assert!(all.iter().all(Process::wait_connected));
    round.pause(Duration::from_millis(50));
    let killed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64();
    drop(all.remove(round.victim as usize));
    let times: Vec<_> = all.iter().map(|process| process.wait_numbers("times")).collect();
    for (index, name) in ["noticed", "shrunk", "first call ended"].into_iter().enumerate() {
        let after: Vec<_> = times.iter().map(|times| format!("{:.1}", 1000.0 * (times[index] - killed))).collect();
        println!("  rank {} killed; {name} after {} ms", round.victim, after.join(", "));
    }
    let restarted = [("MSCCLPP_RESTART", OsStr::new("1"))];
    let restarted = Process::start_with(&round, "recovers", round.victim, 20, &restarted);
    for process in &all {
        let seconds = process.wait_numbers("grown")[0];
        println!("  {} grew and made its first call in {:.1} ms", process.name, 1000.0 * seconds);
    }
    for process in all.into_iter().chain([restarted]) {
        let who = process.name.clone();
        assert_eq!(process.outcome(), "ok", "{who} with rank {}", round.victim);
    }
}

/// The remaining ranks continue without a stopped rank, which learns that when it is continued.
pub(crate) fn stopped_rank_is_excluded(mut round: Round) {
    round.size = round.size.max(3);
    round.liveness = LIVENESS;
    let mut all: Vec<_> = (0..round.size).map(|rank| round.start_as("recovers", rank, 20)).collect();
    assert!(all.iter().all(Process::wait_connected));
    let victim = all.remove(round.victim as usize);
    victim.signal(Signal::STOP);
    for process in all {
        process.wait_numbers("times");
        let who = process.name.clone();
        assert_eq!(process.outcome(), "ok", "{who} without rank {}", round.victim);
    }
    victim.signal(Signal::CONT);
    let said = victim.outcome();
    let excluded = format!("rank {} (", round.victim);
    assert!(said.contains(&excluded) && said.contains("was excluded from the communicator by rank"), "{said}");
}

pub(crate) fn survivors_go_on(mut round: Round) {
    round.size = round.size.max(3);
    let mut all: Vec<_> = (0..round.size).map(|rank| round.start_as("survive", rank, 20)).collect();
    assert!(all.iter().all(Process::wait_connected));
    drop(all.remove(round.victim as usize));
    for process in all {
        let who = process.name.clone();
        assert_eq!(process.outcome(), "ok", "{who} without rank {}", round.victim);
    }
}
