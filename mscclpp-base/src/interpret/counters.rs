//! Counters and queues on which agents wait, in private or shared memory.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI64, AtomicU64};

use super::counts::count_lines;
use super::fifo::Fifo;
use super::program::ResolvedPlan;
use super::table::Table;
#[cfg(feature = "process")]
use crate::shm::SharedCacheLines;

/// Counters of a plan. All except the signals belong to one process.
pub struct Counters {
    inbound: Inbound,
    /// Per channel: number of waits that were started.
    pub expected: Table<AtomicU64>,
    /// Value of each semaphore.
    pub semaphores: Box<[AtomicI64]>,
    /// Arrivals at each barrier, over all launches.
    pub barriers: Box<[AtomicU64]>,
    /// One queue per proxy.
    pub fifos: Box<[Fifo]>,
    /// Number of channels, after which the inbound counters are the tables of counts.
    channels: usize,
    /// By rank: number of the last launch whose table of counts the rank has found valid.
    accepted_counts: Box<[AtomicU64]>,
}

/// Words of a cache line.
pub(super) const LINE_WORDS: usize = 8;

/// Signals that arrived, per channel.
enum Inbound {
    /// Counters in this process.
    Own(Box<[AtomicU64]>),
    /// Counters in memory that processes share, one per line.
    #[cfg(feature = "process")]
    Shared(SharedCacheLines),
}

impl Counters {
    /// Returns the counter of the signals that arrived at a channel.
    #[inline(always)]
    pub fn inbound(&self, channel: u32) -> &AtomicU64 {
        match &self.inbound {
            Inbound::Own(counters) => &counters[channel as usize],
            #[cfg(feature = "process")]
            Inbound::Shared(cells) => cells.at(channel as usize),
        }
    }

    /// Returns a word of the tables of counts of a plan that has them.
    #[inline]
    pub(super) fn count_word(&self, word: usize) -> &AtomicU64 {
        match &self.inbound {
            Inbound::Own(counters) => &counters[self.channels + word],
            #[cfg(feature = "process")]
            Inbound::Shared(cells) => &cells.line(self.channels + word / LINE_WORDS)[word % LINE_WORDS],
        }
    }

    /// Records that a rank has found the table of counts of a launch valid.
    pub(super) fn accept_counts(&self, rank: u32, number: u64) {
        if let Some(accepted) = self.accepted_counts.get(rank as usize) {
            accepted.store(number, Relaxed);
        }
    }

    /// Returns whether a rank has found the table of counts of a launch valid.
    #[inline]
    pub(super) fn accepts_counts(&self, rank: u32, number: u64) -> bool {
        self.accepted_counts.get(rank as usize).is_some_and(|accepted| accepted.load(Relaxed) == number)
    }

    /// Creates the counters of all ranks in this process.
    pub fn new(program: &ResolvedPlan) -> Self {
        Self::with_inbound(program, Inbound::Own(zeros(program.channels.len() + count_lines(program) * LINE_WORDS)))
    }

    /// Creates the counters of a process that shares its signals with others: line `c` of `cells` belongs to channel
    /// `c`, and those after the channels to the [tables of counts](count_lines).
    #[cfg(feature = "process")]
    pub fn shared(program: &ResolvedPlan, cells: SharedCacheLines) -> Self {
        Self::with_inbound(program, Inbound::Shared(cells))
    }

    fn with_inbound(program: &ResolvedPlan, inbound: Inbound) -> Self {
        let counters = Self {
            inbound,
            expected: program.channels.map(|_| AtomicU64::new(0)),
            semaphores: program.semaphores.iter().map(|_| AtomicI64::new(0)).collect(),
            barriers: zeros(program.barriers.len()),
            fifos: program.proxies.iter().map(|_| Fifo::new()).collect(),
            channels: program.channels.len(),
            accepted_counts: zeros(if program.is_counted { program.shape.ranks as usize } else { 0 }),
        };
        counters.reset(program);
        counters
    }

    /// Resets all counters and queues of this process to their state before the first launch.
    pub fn reset(&self, program: &ResolvedPlan) {
        match &self.inbound {
            Inbound::Own(counters) => counters.iter().for_each(|counter| counter.store(0, Relaxed)),
            #[cfg(feature = "process")]
            Inbound::Shared(_) => {}
        }
        for counter in self.expected.iter().chain(&self.barriers).chain(&self.accepted_counts) {
            counter.store(0, Relaxed);
        }
        for (semaphore, of) in self.semaphores.iter().zip(&program.semaphores) {
            semaphore.store(of.initial, Relaxed);
        }
        self.fifos.iter().for_each(Fifo::reset);
    }
}

fn zeros(len: usize) -> Box<[AtomicU64]> {
    (0..len).map(|_| AtomicU64::new(0)).collect()
}
