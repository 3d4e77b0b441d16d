//! Clocks of a thread block or a port: the one of all its threads, and those of single threads.

use smallvec::SmallVec;

use super::clock::{ClockArena, VectorClock};
use super::packets::{AcquiredPackets, CertainClock, Shared, WriterClock};

#[derive(Default)]
pub(super) struct Agent {
    /// The clock of all its threads; of its own timestamps, those before the last block sync at which a clock was
    /// released.
    pub(super) clock: VectorClock,
    /// How many of its own timestamps that clock includes.
    pub(super) included: u32,
    /// What single threads have acquired since the last block sync, in ascending order of the threads.
    pub(super) threads: SmallVec<[(u32, VectorClock); 8]>,
    /// What has been acquired from packets since.
    pub(super) acquired: SmallVec<[AcquiredPackets; 1]>,
    /// The number of entries from which those are merged, if it is more than usual.
    pub(super) merge_threshold: usize,
    /// What all of its threads together have acquired from packets in windows that are over, or before a loop.
    pub(super) earlier_windows: SmallVec<[WriterClock; 1]>,
    /// Clocks that were released last with packets, and last acquired for certain, since the last block sync.
    pub(super) released: Option<Shared>,
    pub(super) certain_clock: Option<CertainClock>,
    /// Timestamp: each thread executes its accesses in this order, its elements in all of them.
    pub(super) time: u32,
    /// Timestamp of the last block sync.
    pub(super) last_sync: u32,
    /// Timestamp of the end of its last wait.
    pub(super) waited: u32,
    /// Lengths of the longest ranges accessed since, each longer than all before, by the first timestamp of the step.
    pub(super) lengths: SmallVec<[(u32, u64); 2]>,
}

impl Agent {
    /// Joins what was acquired from packets into the clock of all threads.
    pub(super) fn acquire_packets(&mut self, clocks: &mut ClockArena) {
        if !self.acquired.is_empty() || !self.earlier_windows.is_empty() {
            let acquired =
                self.acquired.iter().map(|acquired| acquired.of_all).chain(self.earlier_windows.iter().copied());
            let acquired = clocks.union_of_writers(acquired, VectorClock::default());
            self.clock = clocks.join(self.clock, acquired, true);
            self.acquired.clear();
            self.earlier_windows.clear();
        }
    }

    /// Ends a window of a loop, or starts the first one: how the lengths of earlier and later ranges compare depends on
    /// the message size.
    pub(super) fn end_window(&mut self) {
        self.earlier_windows.extend(self.acquired.drain(..).map(|acquired| acquired.of_all));
        self.lengths.iter_mut().for_each(|(_, length)| *length = u64::MAX);
        // Clocks that were merged from these have no valid length either.
        (self.merge_threshold, self.released, self.certain_clock) = (0, None, None);
    }

    /// Returns the clocks of its threads.
    pub(super) fn thread_clocks(&self) -> impl Iterator<Item = VectorClock> + Clone {
        self.threads.iter().map(|(_, clock)| *clock).chain([self.clock])
    }

    /// Sets the clock of all threads after a block sync.
    pub(super) fn finish_sync(&mut self, clock: VectorClock) {
        self.clock = clock;
        self.threads.clear();
        self.lengths.clear();
        (self.merge_threshold, self.released, self.certain_clock) = (0, None, None);
        self.last_sync = self.time;
    }

    /// Synchronizes all threads of the agent.
    pub(super) fn block_sync(&mut self, clocks: &mut ClockArena) {
        self.acquire_packets(clocks);
        let all = match self.threads[..] {
            [] => self.clock,
            [(_, clock)] => clocks.join(self.clock, clock, false),
            _ => clocks.union(self.thread_clocks()),
        };
        self.finish_sync(all);
    }

    /// Returns the clock of all threads, including the agent's own timestamps before the last block sync.
    pub(super) fn clock_of_all_threads(&mut self, number: u32, clocks: &mut ClockArena) -> VectorClock {
        if self.included < self.last_sync {
            self.included = self.last_sync;
            self.clock = clocks.advance(self.clock, number, self.last_sync);
        }
        self.clock
    }

    /// Returns how many timestamps of an agent happen before a thread's next operation, given the number of the
    /// thread's agent.
    pub(super) fn over(&self, (number, thread): (u32, u32), agent: u32, clocks: &ClockArena) -> u32 {
        let all = if agent == number { self.last_sync } else { clocks.ordered(self.clock, agent) };
        let own = self.place(thread).map_or(0, |place| clocks.ordered(self.threads[place].1, agent));
        all.max(own)
    }

    /// Returns the clocks that every thread has that is assigned an element of a range of some length.
    pub(super) fn certain(&self, length: u64) -> impl Iterator<Item = VectorClock> + Clone {
        let acquired = self.acquired.iter().filter(move |acquired| acquired.length >= length);
        acquired.map(|acquired| acquired.of_any).chain([self.clock])
    }

    /// Returns the clock that a thread of the agent releases.
    pub(super) fn release_clock(&mut self, number: u32, thread: u32, clocks: &mut ClockArena) -> VectorClock {
        let all = self.clock_of_all_threads(number, clocks);
        let own = self.place(thread).ok().map(|place| self.threads[place].1);
        own.map_or(all, |clock| clocks.join(all, clock, false))
    }

    pub(super) fn acquire(&mut self, thread: u32, released: VectorClock, relaxed: bool, clocks: &mut ClockArena) {
        match self.place(thread) {
            Ok(place) => {
                let clock = &mut self.threads[place].1;
                *clock = clocks.join(*clock, released, relaxed);
            }
            // Threads wait mostly in ascending order.
            Err(place) => self.threads.insert(place, (thread, clocks.join(VectorClock::default(), released, relaxed))),
        }
    }

    /// Returns the position of a thread's clock, or where to insert it.
    fn place(&self, thread: u32) -> Result<usize, usize> {
        self.threads.binary_search_by_key(&thread, |(other, _)| *other)
    }
}
