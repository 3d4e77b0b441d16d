//! Clocks of a thread block or a port: the one of all its threads, and those of single threads.

use smallvec::SmallVec;

use super::clock::{ClockArena, VectorClock};
use super::packets::{AcquiredPackets, Shared, Sure, WriterClock};

#[derive(Default)]
pub(super) struct Agent {
    /// The clock of all its threads; of its own timestamps, those before the last block sync at which a clock was
    /// released.
    pub(super) knows: VectorClock,
    /// How many of its own timestamps that clock includes.
    pub(super) told: u32,
    /// What single threads have acquired since the last block sync, in ascending order of the threads.
    pub(super) threads: SmallVec<[(u32, VectorClock); 8]>,
    /// What has been acquired from packets since.
    pub(super) heard: SmallVec<[AcquiredPackets; 1]>,
    /// The number of entries from which those are merged, if it is more than usual.
    pub(super) many: usize,
    /// What all of its threads together have acquired from packets in windows that are over, or before a loop.
    pub(super) stale: SmallVec<[WriterClock; 1]>,
    /// Clocks that were released last with packets, and last acquired for certain, since the last block sync.
    pub(super) tells: Option<Shared>,
    pub(super) surely: Option<Sure>,
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
        if !self.heard.is_empty() || !self.stale.is_empty() {
            let heard = self.heard.iter().map(|heard| heard.of_all).chain(self.stale.iter().copied());
            let heard = clocks.told(heard, VectorClock::default());
            self.knows = clocks.join(self.knows, heard, true);
            self.heard.clear();
            self.stale.clear();
        }
    }

    /// Ends a window of a loop, or starts the first one: how the lengths of earlier and later ranges compare depends on
    /// the message size.
    pub(super) fn leave_window(&mut self) {
        self.stale.extend(self.heard.drain(..).map(|heard| heard.of_all));
        self.lengths.iter_mut().for_each(|(_, length)| *length = u64::MAX);
        // Clocks that were merged from these have no valid length either.
        (self.many, self.tells, self.surely) = (0, None, None);
    }

    /// Returns the clocks of its threads.
    pub(super) fn parts(&self) -> impl Iterator<Item = VectorClock> + Clone {
        self.threads.iter().map(|(_, knows)| *knows).chain([self.knows])
    }

    /// Sets the clock of all threads after a block sync.
    pub(super) fn go_on(&mut self, knows: VectorClock) {
        self.knows = knows;
        self.threads.clear();
        self.lengths.clear();
        (self.many, self.tells, self.surely) = (0, None, None);
        self.last_sync = self.time;
    }

    /// Synchronizes all threads of the agent.
    pub(super) fn meet(&mut self, clocks: &mut ClockArena) {
        self.acquire_packets(clocks);
        let all = match self.threads[..] {
            [] => self.knows,
            [(_, knows)] => clocks.join(self.knows, knows, false),
            _ => clocks.union(self.parts()),
        };
        self.go_on(all);
    }

    /// Returns the clock of all threads, including the agent's own timestamps before the last block sync.
    pub(super) fn all_know(&mut self, number: u32, clocks: &mut ClockArena) -> VectorClock {
        if self.told < self.last_sync {
            self.told = self.last_sync;
            self.knows = clocks.advance(self.knows, number, self.last_sync);
        }
        self.knows
    }

    /// Returns how many timestamps of an agent happen before a thread's next operation, given the number of the
    /// thread's agent.
    pub(super) fn over(&self, (number, thread): (u32, u32), agent: u32, clocks: &ClockArena) -> u32 {
        let all = if agent == number { self.last_sync } else { clocks.ordered(self.knows, agent) };
        let own = self.place(thread).map_or(0, |place| clocks.ordered(self.threads[place].1, agent));
        all.max(own)
    }

    /// Returns the clocks that every thread has that is assigned an element of a range of some length.
    pub(super) fn sure(&self, length: u64) -> impl Iterator<Item = VectorClock> + Clone {
        let heard = self.heard.iter().filter(move |heard| heard.length >= length);
        heard.map(|heard| heard.of_any).chain([self.knows])
    }

    /// Returns the clock that a thread of the agent releases.
    pub(super) fn release_clock(&mut self, number: u32, thread: u32, clocks: &mut ClockArena) -> VectorClock {
        let all = self.all_know(number, clocks);
        let own = self.place(thread).ok().map(|place| self.threads[place].1);
        own.map_or(all, |knows| clocks.join(all, knows, false))
    }

    pub(super) fn acquire(&mut self, thread: u32, word: VectorClock, relaxed: bool, clocks: &mut ClockArena) {
        match self.place(thread) {
            Ok(place) => {
                let knows = &mut self.threads[place].1;
                *knows = clocks.join(*knows, word, relaxed);
            }
            // Threads wait mostly in ascending order.
            Err(place) => self.threads.insert(place, (thread, clocks.join(VectorClock::default(), word, relaxed))),
        }
    }

    /// Returns the position of a thread's clock, or where to insert it.
    fn place(&self, thread: u32) -> Result<usize, usize> {
        self.threads.binary_search_by_key(&thread, |(other, _)| *other)
    }
}
