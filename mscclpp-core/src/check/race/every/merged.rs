//! Counters that several threads use one after the other, some of them in loops.
//!
//! A run that proves something believes that all waits on such a counter come in one order, as do all signals, and looks for an event
//! that does not know the one before it to be over, as it does outside of loops ([`release_queues`](super::super::words)). Then the nth
//! wait hears the nth signal, if that is causal in the *merged* courses: those of all threads, in the order of the run.
//!
//! # Why this is sound
//!
//! Asked is that
//!
//! 1. of the threads that wait, at most one does so in loops of a rate, as of those that signal;
//! 2. nothing of another loop or from outside of loops comes between the events of a loop;
//! 3. each event knows the one before it to be over.
//!
//! *Order.* With more iterations, the events come in the order of the merged course, each stretch of a loop as long as that loop then is,
//! if the clocks are right: two events of one thread are in program order, and two of different threads are not both in loops of
//! one rate (1), so that one insertion has both as images of two events of the run. Those are in order (3), and which of them comes
//! first does not depend on the iterations that they are images of (2).
//!
//! *Words.* Suppose that with more iterations some schedule contradicts the image of what a clock says, and take the first event there that
//! does. As for loops that no counter has, it is the end of a wait w, the nth of the merged course then, and w is the image of one that
//! has heard of a signal s, whose image, the mth, has not been sent. All events before that one are in the order of the course. So exactly
//! n − 1 waits have ended, and the counter has seen n signals less its initial units; as they came in their order, these are the first ones.
//! But m ≤ n − initial in the run, and every insertion moves w by at least as much as s, as s is causal. So s is among them.
//!
//! A run in which 1 to 3 do not hold for a counter has shown nothing, and the next one takes that counter's threads one by one.

use std::collections::{BTreeMap, BTreeSet};

use super::causal::{Course, Courses, Stand};
use crate::check::race::clock::VectorClock;
use crate::check::race::release_queues::{Event, ReleasedClock, Thread};

/// A counter whose waits are believed to come in one order, and whose signals, too.
pub(in crate::check::race) struct Merged {
    courses: Courses,
    signals: Line,
    waits: Line,
    sent: Vec<ReleasedClock>,
    /// Of the signals, how many some wait has heard.
    heard: usize,
    /// By waiting thread, the number of its last wait.
    last: BTreeMap<Thread, u64>,
    /// That the rank has begun whose threads signal.
    begun: VectorClock,
}

/// The events of several threads in the order of the run.
#[derive(Default)]
struct Line {
    course: Course,
    /// By thread, its events so far.
    counts: BTreeMap<Thread, u64>,
    last: Option<Event>,
    /// The loop of the last event, and all loops so far: threads, and positions in their blocks.
    inside: Option<(Thread, u32)>,
    loops: BTreeSet<(Thread, u32)>,
}

impl Line {
    /// Adds the next event, of a thread with a course of its own. Returns whether it continues the loop of the last event, or that
    /// one is over, and the event knows the last one to be over.
    fn add(&mut self, own: Option<&Course>, thread: Thread, event: Event, over: impl Fn(u32) -> u32) -> bool {
        let number = self.counts.entry(thread).or_default();
        *number += 1;
        let Some(inside) = own.and_then(|own| own.inside(*number)) else { return false };
        let of_loop = inside.map(|inside| (thread, inside.index));
        let goes_on = self.inside == of_loop;
        let begins = !goes_on && self.course.is_whole() && of_loop.is_none_or(|of_loop| self.loops.insert(of_loop));
        self.inside = of_loop;
        self.course.follow(inside, !goes_on);
        let last = self.last.replace(event);
        (goes_on || begins) && last.is_none_or(|last| last.precedes(&event, over))
    }
}

impl Merged {
    /// Of courses of which [one at most](Courses::is_one_per_rate) goes through loops of a rate.
    pub(in crate::check::race) fn of(courses: Courses, begun: VectorClock) -> Self {
        let line = || Line { course: Course::of_rates(courses.num_rates()), ..Line::default() };
        let (signals, waits) = (line(), line());
        Self { courses, signals, waits, sent: Vec::new(), heard: 0, last: BTreeMap::new(), begun }
    }

    /// A thread signals, which is an event as the waiting rank sees it. Returns whether the signal comes after the last one.
    pub(in crate::check::race) fn send(
        &mut self,
        from: Thread,
        event: Event,
        word: ReleasedClock,
        over: impl Fn(u32) -> u32,
    ) -> bool {
        self.sent.push(word);
        self.signals.add(self.courses.signals.get(&from), from, event, over)
    }

    /// A wait is about to end. Returns whether it comes after the last one.
    pub(in crate::check::race) fn wait(&mut self, event: Event, over: impl Fn(u32) -> u32) -> bool {
        let in_order = self.waits.add(self.courses.waits.get(&event.by), event.by, event, over);
        self.last.insert(event.by, self.waits.counts.values().sum());
        in_order
    }

    /// A thread has waited; calls `hear` with what it learns.
    pub(in crate::check::race) fn receive(&mut self, initial: u64, by: Thread, mut hear: impl FnMut(ReleasedClock)) {
        // Which wait is the first one beyond the initial units depends on the number of iterations.
        if initial == 0 && self.waits.counts.get(&by) == Some(&1) {
            hear(ReleasedClock { knows: self.begun, relaxed: true });
        }
        self.news(initial, by, Stand::At, hear);
    }

    /// Calls `hear` with the words of which a thread is sure since its last wait, or since the end of the loop of that one, and of
    /// which no thread was sure before.
    pub(in crate::check::race) fn news(
        &mut self,
        initial: u64,
        by: Thread,
        stand: Stand,
        hear: impl FnMut(ReleasedClock),
    ) {
        let Some(&waits) = self.last.get(&by) else { return };
        let sure = usize::try_from(waits.saturating_sub(initial)).unwrap_or(usize::MAX).min(self.sent.len());
        let place = self.waits.course.stand(waits, stand);
        let heard = Courses::heard_in(&self.signals.course, |_| 0, place, self.heard, sure);
        self.sent[self.heard..heard].iter().copied().for_each(hear);
        self.heard = heard;
    }
}
