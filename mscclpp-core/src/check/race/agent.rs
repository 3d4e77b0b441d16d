//! What a thread block or a port knows: all its threads, and single ones beyond.

use smallvec::SmallVec;

use super::clock::{ClockArena, VectorClock};
use super::packets::{AcquiredPackets, Shared, Sure, WriterClock};

#[derive(Default)]
pub(super) struct Agent {
    /// What all its threads know; of its own turns, those before the last block sync at which somebody was told.
    pub(super) knows: VectorClock,
    /// How many of its own turns that includes.
    pub(super) told: u32,
    /// What single threads have waited for since the last block sync, in ascending order of the threads.
    pub(super) threads: SmallVec<[(u32, VectorClock); 8]>,
    /// What has been learned from packets since.
    pub(super) heard: SmallVec<[AcquiredPackets; 1]>,
    /// From how many entries on those are put together, if it is more than usual.
    pub(super) many: usize,
    /// What all of its threads together have learned from packets in windows that are over, or before a loop.
    pub(super) stale: SmallVec<[WriterClock; 1]>,
    /// What it told last with packets, and surely knew last, since the last block sync.
    pub(super) tells: Option<Shared>,
    pub(super) surely: Option<Sure>,
    /// Turns done: each thread takes them one after the other, its elements in all of them.
    pub(super) time: u32,
    /// Turns done at the last block sync.
    pub(super) last_sync: u32,
    /// Turns done at the end of its last wait.
    pub(super) waited: u32,
    /// Lengths of the longest ranges touched since, each longer than all before, by the first turn of the step.
    pub(super) lengths: SmallVec<[(u32, u64); 2]>,
}

impl Agent {
    /// What was learned from packets all threads know from now on.
    pub(super) fn acquire_packets(&mut self, clocks: &mut ClockArena) {
        if !self.heard.is_empty() || !self.stale.is_empty() {
            let heard = self.heard.iter().map(|heard| heard.of_all).chain(self.stale.iter().copied());
            let heard = clocks.told(heard, VectorClock::default());
            self.knows = clocks.join(self.knows, heard, true);
            self.heard.clear();
            self.stale.clear();
        }
    }

    /// A window of a loop is over, or the first one begins: how long ranges before are compared to those that come now depends on
    /// the size.
    pub(super) fn leave_window(&mut self) {
        self.stale.extend(self.heard.drain(..).map(|heard| heard.of_all));
        self.lengths.iter_mut().for_each(|(_, length)| *length = u64::MAX);
        // What was put together of them is no longer known by length either.
        (self.many, self.tells, self.surely) = (0, None, None);
    }

    /// What its threads know one by one.
    pub(super) fn parts(&self) -> impl Iterator<Item = VectorClock> + Clone {
        self.threads.iter().map(|(_, knows)| *knows).chain([self.knows])
    }

    /// All threads have met, and know so much.
    pub(super) fn go_on(&mut self, knows: VectorClock) {
        self.knows = knows;
        self.threads.clear();
        self.lengths.clear();
        (self.many, self.tells, self.surely) = (0, None, None);
        self.last_sync = self.time;
    }

    /// All its threads meet.
    pub(super) fn meet(&mut self, clocks: &mut ClockArena) {
        self.acquire_packets(clocks);
        let all = match self.threads[..] {
            [] => self.knows,
            [(_, knows)] => clocks.join(self.knows, knows, false),
            _ => clocks.union(self.parts()),
        };
        self.go_on(all);
    }

    /// What all its threads know, its own turns before the last block sync included: what it may tell.
    pub(super) fn all_know(&mut self, number: u32, clocks: &mut ClockArena) -> VectorClock {
        if self.told < self.last_sync {
            self.told = self.last_sync;
            self.knows = clocks.advance(self.knows, number, self.last_sync);
        }
        self.knows
    }

    /// How many turns of an agent one of its threads knows to be over, if its own number is given.
    pub(super) fn over(&self, (number, thread): (u32, u32), agent: u32, clocks: &ClockArena) -> u32 {
        let all = if agent == number { self.last_sync } else { clocks.ordered(self.knows, agent) };
        let own = self.place(thread).map_or(0, |place| clocks.ordered(self.threads[place].1, agent));
        all.max(own)
    }

    /// What each thread knows that has an element of a range of some length.
    pub(super) fn sure(&self, length: u64) -> impl Iterator<Item = VectorClock> + Clone {
        let heard = self.heard.iter().filter(move |heard| heard.length >= length);
        heard.map(|heard| heard.of_any).chain([self.knows])
    }

    /// What a thread of the agent can tell.
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
            // Threads mostly wait in ascending order.
            Err(place) => self.threads.insert(place, (thread, clocks.join(VectorClock::default(), word, relaxed))),
        }
    }

    /// Where a thread's own knowledge is, or would be.
    fn place(&self, thread: u32) -> Result<usize, usize> {
        self.threads.binary_search_by_key(&thread, |(other, _)| *other)
    }
}
