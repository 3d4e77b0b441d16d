//! Counters and queues on which agents wait, in private or shared memory.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI64, AtomicU64};

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
}

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

    /// Creates the counters of all ranks in this process.
    pub fn new(program: &ResolvedPlan) -> Self {
        Self::with_inbound(program, Inbound::Own(zeros(program.channels.len())))
    }

    /// Creates the counters of a process that shares its signals with others: line `c` of `cells` belongs to channel
    /// `c`.
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
        for counter in self.expected.iter().chain(&self.barriers) {
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
