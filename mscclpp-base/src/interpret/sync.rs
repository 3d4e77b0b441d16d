//! Operations that wait for other agents or release them.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{self, AcqRel, Acquire, Relaxed, Release};

use super::launch::{Launch, Progress};
use super::program::{Instr, UNPAIRED};
use super::state::AgentState;

impl Launch<'_> {
    /// Adds one to a counter and returns its earlier value.
    #[inline]
    pub fn count(&self, counter: &AtomicU64, order: Ordering) -> u64 {
        if !self.exclusive {
            return counter.fetch_add(1, order);
        }
        let value = counter.load(Relaxed);
        // Any stronger order publishes earlier writes.
        counter.store(value + 1, if order == Relaxed { Relaxed } else { Release });
        value
    }

    /// Adds one to the counter at the other end of a channel.
    pub fn deliver(&self, channel: u32) {
        let pair = self.program.channels[channel as usize].pair;
        if pair != UNPAIRED {
            self.count(self.counters.inbound(pair), Release);
        }
    }

    /// Signals. A relaxed signal publishes as well, which costs nothing here: a plan that ends with relaxed signals
    /// relies on the end of a kernel to make its writes visible, and there is no kernel.
    pub fn signal(&self, instr: &Instr) -> Progress {
        for &channel in self.program.ids(instr) {
            self.deliver(channel);
        }
        Progress::Next
    }

    /// Waits for one channel after the other, because all signals must have arrived anyway. A relaxed wait observes the
    /// published writes, like any other.
    pub fn wait(&self, instr: &Instr, state: &mut AgentState) -> Progress {
        while let Some(&channel) = self.program.ids(instr).get(state.at.number as usize) {
            if !state.at.waiting {
                state.ticket = self.count(&self.counters.expected[channel as usize], Relaxed) + 1;
                state.at.waiting = true;
            }
            if self.counters.inbound(channel).load(Acquire) < state.ticket {
                return Progress::Blocked;
            }
            state.at.number += 1;
            state.at.waiting = false;
        }
        Progress::Next
    }

    pub fn acquire(&self, instr: &Instr, state: &mut AgentState) -> Progress {
        while let Some(&id) = self.program.ids(instr).get(state.at.number as usize) {
            let take = |units: i64| (units > 0).then(|| units - 1);
            if self.counters.semaphores[id as usize].fetch_update(Acquire, Relaxed, take).is_err() {
                return Progress::Blocked;
            }
            state.at.number += 1;
        }
        Progress::Next
    }

    pub fn release(&self, instr: &Instr) -> Progress {
        for &id in self.program.ids(instr) {
            self.counters.semaphores[id as usize].fetch_add(1, Release);
        }
        Progress::Next
    }

    pub fn barrier(&self, instr: &Instr, state: &mut AgentState) -> Progress {
        let (id, blocks) = (self.program.ids(instr)[0], u64::from(instr.count));
        let arrivals = &self.counters.barriers[id as usize];
        if !state.at.waiting {
            // Every `blocks` arrivals form a round; this one ends when the counter reaches the last of its arrivals.
            state.ticket = (arrivals.fetch_add(1, AcqRel) / blocks + 1) * blocks;
            state.at.waiting = true;
        }
        if arrivals.load(Acquire) < state.ticket { Progress::Blocked } else { Progress::Next }
    }
}
