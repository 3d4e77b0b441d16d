//! All ranks name the same root cause, whatever call a fault happens in, and whenever.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::fault_case::{Case, Fault};
use crate::process::Process;
use crate::round::Round;

/// Timeout of calls, and time without an answer after which a rank counts as lost.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(4);

pub(crate) const SEED: &str = "FAULT_CASE";

/// One seed's case, in this process.
pub(crate) fn case(seed: u64) -> Case {
    Case::new(seed, &[&Fault::OF_THREADS[..], &[Fault::Dies, Fault::Stops]].concat())
}

/// Whether the ranks of a case end their processes as soon as a call has failed, without destructors, as a program in which
/// nothing catches the error.
pub(crate) fn leaves_at_once(seed: u64) -> bool {
    seed.is_multiple_of(2)
}

/// Ends or suspends this process, a little later, while it makes its call.
pub(crate) fn strike(case: &Case) {
    let (pause, signal) = (case.pause, if case.fault == Fault::Dies { Signal::KILL } else { Signal::STOP });
    std::thread::spawn(move || {
        std::thread::sleep(pause);
        kill_process(Pid::from_raw(std::process::id().cast_signed()).expect("a process id"), signal)
    });
}

pub(crate) fn same_root_cause(mut round: Round) {
    let case = case(round.seed);
    (round.size, round.victim) = (case.ranks, case.victim);
    (round.timeout, round.liveness) = (TIMEOUT, TIMEOUT);
    let seed = round.seed.to_string();
    let start = |rank| Process::start_with(&round, "one case", rank, 0, &[(SEED, seed.as_ref())]);
    let mut all: Vec<_> = (0..round.size).map(start).collect();
    let mut outcomes = Vec::new();
    let victim = match case.fault {
        Fault::Dies | Fault::Stops => Some(all.remove(case.victim as usize)),
        _ => None,
    };
    for process in all {
        let who = process.name.clone();
        outcomes.push((who, process.outcome()));
    }
    if let Some(victim) = victim.filter(|_| case.fault == Fault::Stops) {
        victim.signal(Signal::CONT);
        let who = victim.name.clone();
        outcomes.push((who, victim.outcome()));
    }
    // The rank that left, and no other, made no call that could fail.
    let left = format!("rank {}", case.victim);
    outcomes.retain(|(who, said)| case.fault != Fault::Leaves || *who != left || said != "ok");
    assert!(!outcomes.is_empty(), "{case:?}: no other rank has reported");
    let expected = format!("root cause rank {}: ", case.victim);
    for (who, said) in &outcomes {
        assert!(said.starts_with(&expected), "{case:?}, {who}: {said}");
        case.check_text(said);
        // A rank that was suspended learns that the others continued without it.
        let excluded = case.fault == Fault::Stops && who == &format!("rank {}", case.victim);
        assert!(
            excluded || said == &outcomes[0].1,
            "{case:?}: {who} and {} differ\n{said}\n{}",
            outcomes[0].0,
            outcomes[0].1
        );
    }
}
