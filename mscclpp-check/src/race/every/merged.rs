//! Counters that several threads use one after the other, some of them in loops.
//!
//! An execution that proves a result assumes that all waits on such a counter are totally ordered, as are all signals,
//! and searches for an event that does not happen after the previous one, as it does outside of loops
//! ([`release_queues`](super::super::release_queues)). Then the nth wait acquires the nth signal, if that is causal in the
//! *merged* courses: those of all threads, in the order of the execution.
//!
//! # Why this is sound
//!
//! The requirements are that
//!
//! 1. of the threads that wait, at most one does so in loops of a rate, and the same for the threads that signal;
//! 2. no event of another loop or from outside of loops is between the events of a loop;
//! 3. each event happens after the previous one.
//!
//! *Order.* With more iterations, the events are in the order of the merged course, each stretch of a loop as long as
//! that loop then is, if the clocks are correct: two events of one thread are in program order, and two events of
//! different threads are not both in loops of one rate (1), so that one insertion has both as images of two events of
//! the execution. Those are ordered (3), and which of them is first does not depend on the iterations that they are
//! images of (2).
//!
//! *Transfers.* Suppose that with more iterations some schedule contradicts the image of a clock, and take the first
//! event there that does. As for loops that use no counter, it is the end of a wait w, the nth of the merged course
//! then, and w is the image of a wait that has acquired a signal s, whose image, the mth, has not been sent. All events
//! before that one are in the order of the course. So exactly n − 1 waits have ended, and the counter has received n
//! signals less its initial units; as they are ordered, these are the first ones. But m ≤ n − initial in the execution,
//! and every insertion moves w by at least as much as s, because s is causal. So s is among them.
//!
//! An execution in which 1 to 3 do not hold for a counter has shown nothing, and the next one handles that counter's
//! threads separately.

use std::collections::{BTreeMap, BTreeSet};

use super::causal::{Course, Courses, Stand};
use crate::race::clock::VectorClock;
use crate::race::release_queues::{Event, ReleasedClock, Thread};

/// A counter whose waits are assumed to be totally ordered, and whose signals, too.
pub(in crate::race) struct Merged {
    courses: Courses,
    signals: Line,
    waits: Line,
    sent: Vec<ReleasedClock>,
    /// How many of the signals some wait has acquired.
    acquired: usize,
    /// By waiting thread, the number of its last wait.
    last: BTreeMap<Thread, u64>,
    /// A clock with only the start of the signaling rank.
    begun: VectorClock,
}

/// The events of several threads in the order of the execution.
#[derive(Default)]
struct Line {
    course: Course,
    /// By thread, the number of its events so far.
    counts: BTreeMap<Thread, u64>,
    last: Option<Event>,
    /// The loop of the last event, and all loops so far: threads, and positions in their blocks.
    inside: Option<(Thread, u32)>,
    loops: BTreeSet<(Thread, u32)>,
}

impl Line {
    /// Adds the next event, of a thread with its own course. Returns whether it continues the loop of the last event,
    /// or that loop is over, and the last event happens before it.
    fn add(&mut self, own: Option<&Course>, thread: Thread, event: Event, over: impl Fn(u32) -> u32) -> bool {
        let number = self.counts.entry(thread).or_default();
        *number += 1;
        let Some(inside) = own.and_then(|own| own.inside(*number)) else { return false };
        let of_loop = inside.map(|inside| (thread, inside.index));
        let continues = self.inside == of_loop;
        let begins = !continues && self.course.is_whole() && of_loop.is_none_or(|of_loop| self.loops.insert(of_loop));
        self.inside = of_loop;
        self.course.follow(inside, !continues);
        let last = self.last.replace(event);
        (continues || begins) && last.is_none_or(|last| last.precedes(&event, over))
    }
}

impl Merged {
    /// Creates the counter from courses of which [at most one](Courses::is_one_per_rate) has loops of a rate.
    pub(in crate::race) fn of(courses: Courses, begun: VectorClock) -> Self {
        let line = || Line { course: Course::of_rates(courses.num_rates()), ..Line::default() };
        let (signals, waits) = (line(), line());
        Self { courses, signals, waits, sent: Vec::new(), acquired: 0, last: BTreeMap::new(), begun }
    }

    /// Adds a signal of a thread, which is an event as the waiting rank numbers it. Returns whether the last signal
    /// happens before it.
    pub(in crate::race) fn send(
        &mut self,
        from: Thread,
        event: Event,
        released: ReleasedClock,
        over: impl Fn(u32) -> u32,
    ) -> bool {
        self.sent.push(released);
        self.signals.add(self.courses.signals.get(&from), from, event, over)
    }

    /// Adds a wait that is about to end. Returns whether the last one happens before it.
    pub(in crate::race) fn wait(&mut self, event: Event, over: impl Fn(u32) -> u32) -> bool {
        let in_order = self.waits.add(self.courses.waits.get(&event.by), event.by, event, over);
        self.last.insert(event.by, self.waits.counts.values().sum());
        in_order
    }

    /// Adds the end of a wait of a thread; calls `acquire` with the clocks that it acquires.
    pub(in crate::race) fn receive(&mut self, initial: u64, by: Thread, mut acquire: impl FnMut(ReleasedClock)) {
        // Which wait is the first one beyond the initial units depends on the number of iterations.
        if initial == 0 && self.waits.counts.get(&by) == Some(&1) {
            acquire(ReleasedClock { clock: self.begun, relaxed: true });
        }
        self.newly_acquired(initial, by, Stand::At, acquire);
    }

    /// Calls `acquire` with the clocks that a thread has acquired in every schedule since its last wait, or since the end
    /// of that wait's loop, and that no thread had acquired before.
    pub(in crate::race) fn newly_acquired(
        &mut self,
        initial: u64,
        by: Thread,
        stand: Stand,
        acquire: impl FnMut(ReleasedClock),
    ) {
        let Some(&waits) = self.last.get(&by) else { return };
        let certain = usize::try_from(waits.saturating_sub(initial)).unwrap_or(usize::MAX).min(self.sent.len());
        let place = self.waits.course.stand(waits, stand);
        let acquired = Courses::acquired_in(&self.signals.course, |_| 0, place, self.acquired, certain);
        self.sent[self.acquired..acquired].iter().copied().for_each(acquire);
        self.acquired = acquired;
    }
}
