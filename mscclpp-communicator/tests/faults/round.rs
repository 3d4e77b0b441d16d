//! State of one round of faults.

use std::fmt::Write as _;
use std::thread;
use std::time::Duration;

use crate::LONG;
use crate::port::Port;
use crate::process::Process;

/// More calls than any round makes.
pub(crate) const FOREVER: u32 = 1 << 20;

/// State of one round.
pub(crate) struct Round {
    pub(crate) seed: u64,
    pub(crate) random: Random,
    pub(crate) size: u32,
    /// The rank that has the fault.
    pub(crate) victim: u32,
    pub(crate) port: Port,
    pub(crate) secret: String,
    /// Timeout of the ranks' calls.
    pub(crate) timeout: Duration,
    /// Time after which a silent rank counts as lost.
    pub(crate) liveness: Duration,
}

impl Round {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        (0..8).for_each(|_| _ = random.below(2));
        let size = 2 + random.below(3) as u32;
        let victim = random.below(u64::from(size)) as u32;
        let mut secret = String::new();
        (0..32).for_each(|_| write!(secret, "{:x}", random.below(16)).unwrap());
        Self { seed, random, size, victim, port: Port::new(), secret, timeout: LONG, liveness: LONG }
    }

    pub(crate) fn start(&self, rank: u32, calls: u32) -> Process {
        self.start_as("messages", rank, calls)
    }

    pub(crate) fn start_as(&self, work: &str, rank: u32, calls: u32) -> Process {
        Process::start(self, work, rank, calls)
    }

    /// Starts all ranks, which make collective calls.
    pub(crate) fn start_collectives(&self, calls: u32) -> Vec<Process> {
        (0..self.size).map(|rank| self.start_as("collectives", rank, calls)).collect()
    }

    pub(crate) fn start_all(&self, calls: u32) -> Vec<Process> {
        (0..self.size).map(|rank| self.start(rank, calls)).collect()
    }

    /// Checks that every survivor names the victim.
    pub(crate) fn named_by(&self, survivors: Vec<Process>) {
        let name = format!("rank {}", self.victim);
        for process in survivors {
            let who = process.name.clone();
            let said = process.outcome();
            assert!(names(&said, &name), "{who} does not name {name}: {said}");
        }
    }

    pub(crate) fn pause(&mut self, most: Duration) {
        thread::sleep(Duration::from_micros(self.random.below(most.as_micros() as u64)));
    }
}

/// A small seeded generator of numbers, so that rounds are repeatable.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// Returns whether a message names a rank, and not one whose number has the same first digits.
pub(crate) fn names(said: &str, rank: &str) -> bool {
    said.match_indices(rank).any(|(at, _)| !said[at + rank.len()..].starts_with(|c: char| c.is_ascii_digit()))
}
