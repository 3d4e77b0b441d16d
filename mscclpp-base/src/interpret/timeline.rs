//! Timelines: when thread blocks executed which operation, and how long they waited in it.
//!
//! # Cost
//! Launches without a timeline run code that is compiled with [`Unrecorded`], which reads no clock.

use super::launch::Progress;
use super::state::Position;
use crate::system::precise_time;

/// One executed operation. Times are those of [`precise_time`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Index in [`ResolvedPlan::instrs`](super::ResolvedPlan::instrs).
    pub instr: u32,
    /// Iteration of its loop; 0 outside of loops.
    pub iteration: u64,
    /// Number of the launch, counted from 1.
    pub launch: u64,
    pub begin: u64,
    pub end: u64,
    /// Part of the time in which the thread block waited for others.
    pub waited: u64,
}

/// What learns of each attempt of a thread block to execute an operation.
pub trait Recorder {
    /// Precedes an attempt.
    fn start(&mut self);

    /// Follows an attempt to execute the operation at a position.
    fn stop(&mut self, launch: u64, at: Position, progress: Progress);
}

/// Records nothing.
pub struct Unrecorded;

impl Recorder for Unrecorded {
    #[inline(always)]
    fn start(&mut self) {}

    #[inline(always)]
    fn stop(&mut self, _: u64, _: Position, _: Progress) {}
}

/// Stamps of one thread block.
#[derive(Debug, Default)]
pub struct Stamps {
    stamps: Vec<Stamp>,
    /// First attempt of the current operation.
    begin: Option<u64>,
    /// End of the last attempt, if the operation waits.
    blocked: Option<u64>,
    waited: u64,
}

impl Stamps {
    /// Returns the stamps of the operations that have finished, in their order, and forgets them.
    pub fn take(&mut self) -> Vec<Stamp> {
        std::mem::take(self).stamps
    }
}

impl Recorder for Stamps {
    fn start(&mut self) {
        let now = precise_time();
        self.waited += self.blocked.take().map_or(0, |since| now - since);
        self.begin.get_or_insert(now);
    }

    fn stop(&mut self, launch: u64, at: Position, progress: Progress) {
        let now = precise_time();
        match progress {
            Progress::Yielded => {}
            Progress::Blocked => self.blocked = Some(now),
            Progress::Next => {
                let (begin, waited) = (self.begin.take().unwrap_or(now), std::mem::take(&mut self.waited));
                let Position { instr, iteration, .. } = at;
                self.stamps.push(Stamp { instr, iteration, launch, begin, end: now, waited });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_of_all_attempts_are_added() {
        let at = |instr| Position { instr, iteration: 3, ..Position::default() };
        let mut stamps = Stamps::default();
        for progress in [Progress::Yielded, Progress::Blocked, Progress::Blocked, Progress::Next] {
            stamps.start();
            stamps.stop(7, at(5), progress);
        }
        stamps.start();
        stamps.stop(7, at(6), Progress::Next);
        let [first, second] = stamps.take()[..] else { panic!("two operations") };
        assert_eq!((first.instr, first.iteration, first.launch), (5, 3, 7));
        assert!(first.waited <= first.end - first.begin && first.end <= second.begin, "{first:?} {second:?}");
        assert_eq!((second.instr, second.waited), (6, 0));
        assert!(stamps.take().is_empty());
    }
}
