//! Rounds of a randomized test, each determined by its seed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the value of a variable of the environment that is a number.
pub(crate) fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable}={text}: no number")))
}

/// Returns a seed that no earlier run has used.
pub(crate) fn fresh_seed() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as u64 >> 10
}

/// Runs `round` with the seeds from `first` on, `at_once` of them at a time. The variable `MSCCLPP_{name}_ROUNDS` sets
/// their number; `MSCCLPP_{name}_SEED` runs one seed alone.
pub(crate) fn run(name: &str, first: u64, rounds: u64, at_once: usize, round: impl Fn(u64) + Sync) {
    let one = number(&format!("MSCCLPP_{name}_SEED"));
    let rounds = number(&format!("MSCCLPP_{name}_ROUNDS")).unwrap_or(rounds);
    let (first, rounds) = one.map_or((first, rounds), |seed| (seed, 1));
    println!("MSCCLPP_{name}_SEED={first}, {rounds} seeds from there");
    each(first, rounds, at_once, round);
}

/// Runs `round` with `rounds` seeds from `first` on, `at_once` of them at a time.
pub(crate) fn each(first: u64, rounds: u64, at_once: usize, round: impl Fn(u64) + Sync) {
    let next = AtomicU64::new(0);
    let worker = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= rounds {
                return;
            }
            round(first + number);
        }
    };
    thread::scope(|scope| (0..at_once).for_each(|_| drop(scope.spawn(worker))));
}
