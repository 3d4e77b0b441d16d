//! Which transfers of clocks hold with more iterations, too.

use std::collections::BTreeMap;

use smallvec::{SmallVec, smallvec};

use crate::conditions::{Condition, applies};
use crate::model::{self, Model};
use crate::race::release_queues::Thread;
use crate::rates::Rate;
use mscclpp_plan::raw::OpKind;

/// By rate, the number of events in one iteration of every loop of the rate.
type Gains = SmallVec<[u64; 2]>;

/// The events of one kind that a thread takes part in, in order, numbered from 1.
#[derive(Default)]
pub(in crate::race) struct Course {
    stretches: SmallVec<[Stretch; 1]>,
    /// In all loops.
    gains: Gains,
}

/// Events of one loop, or between two loops.
struct Stretch {
    /// Number of events before it, and up to its end.
    first: u64,
    end: u64,
    inside: Option<Inside>,
    /// In the earlier loops.
    gains: Gains,
}

/// The loop of some events.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::race) struct Inside {
    /// Its position in its block.
    pub(in crate::race) index: u32,
    rate: usize,
    trips: u64,
    /// Number of events in an iteration.
    events: u64,
}

/// Position of an event among the iterations.
#[derive(Clone, Copy)]
pub(in crate::race) struct Place<'c> {
    /// In loops that are over.
    gains: &'c Gains,
    /// Rate, events of an iteration and number of the iteration that it belongs to.
    inside: Option<(usize, u64, u64)>,
}

/// Where a thread that has waited acquires the clocks that the wait releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::race) enum Stand {
    /// At the wait.
    At,
    /// In the iteration of the next wait, before that wait.
    Ahead,
    /// After the loop of the wait.
    AfterLoop,
}

impl Course {
    pub(super) fn add(&mut self, inside: Option<Inside>) {
        match self.stretches.last_mut().filter(|last| last.inside == inside) {
            Some(last) => last.end += 1,
            None => {
                let first = self.stretches.last().map_or(0, |last| last.end);
                self.stretches.push(Stretch { first, end: first + 1, inside, gains: Gains::new() });
            }
        }
    }

    /// Sums the events of the loops, for the given number of rates.
    pub(super) fn sum(&mut self, rates: usize) {
        self.gains.resize(rates, 0);
        for stretch in &mut self.stretches {
            stretch.gains.clone_from(&self.gains);
            if let Some(inside) = &mut stretch.inside {
                inside.events = (stretch.end - stretch.first) / inside.trips.max(1);
                self.gains[inside.rate] += inside.events;
            }
        }
    }

    /// Returns whether both have the same loops with the same events before, in and after them.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let key = |stretch: &Stretch| (stretch.end, stretch.inside.map(|inside| (inside.rate, inside.events)));
        self.stretches.iter().map(key).eq(other.stretches.iter().map(key))
    }

    /// Creates a course without events, with loops of the given number of rates.
    pub(super) fn of_rates(rates: usize) -> Self {
        Self { stretches: SmallVec::new(), gains: smallvec![0; rates] }
    }

    /// Returns the loop of an event, if there is that event.
    pub(super) fn inside(&self, number: u64) -> Option<Option<Inside>> {
        self.stretches.get(self.stretch(number)).map(|stretch| stretch.inside)
    }

    /// Returns whether the loop of the last event has no more events.
    pub(super) fn is_whole(&self) -> bool {
        self.stretches.last().is_none_or(|Stretch { first, end, inside, .. }| {
            inside.is_none_or(|inside| end - first == inside.events * inside.trips)
        })
    }

    /// Adds an event of another course, in another loop than the last event if `is_other`.
    pub(super) fn follow(&mut self, inside: Option<Inside>, is_other: bool) {
        match self.stretches.last_mut().filter(|_| !is_other) {
            Some(last) => last.end += 1,
            None => {
                let first = self.stretches.last().map_or(0, |last| last.end);
                self.stretches.push(Stretch { first, end: first + 1, inside, gains: self.gains.clone() });
                if let Some(inside) = inside {
                    self.gains[inside.rate] += inside.events;
                }
            }
        }
    }

    fn stretch(&self, number: u64) -> usize {
        self.stretches.partition_point(|stretch| stretch.end < number)
    }

    /// Returns the position of an event.
    fn at(&self, number: u64) -> Place<'_> {
        let Some(Stretch { first, inside, gains, .. }) = self.stretches.get(self.stretch(number)) else {
            return Place { gains: &self.gains, inside: None };
        };
        let place = |inside: &Inside| (inside.rate, inside.events, (number - first - 1) / inside.events.max(1));
        Place { gains, inside: inside.as_ref().map(place) }
    }

    /// Returns the position of the thread after the nth event.
    pub(super) fn stand(&self, number: u64, stand: Stand) -> Place<'_> {
        match stand {
            Stand::At => self.at(number),
            Stand::Ahead => self.at(number + 1),
            Stand::AfterLoop => self.after_loop(number),
        }
    }

    /// Returns the position of the thread after the loop of an event.
    fn after_loop(&self, number: u64) -> Place<'_> {
        let next = self.stretches.get(self.stretch(number) + 1);
        Place { gains: next.map_or(&self.gains, |next| &next.gains), inside: None }
    }
}

/// The courses of some threads, ascending: mostly of one.
#[derive(Default)]
pub(super) struct ByThread(SmallVec<[(Thread, Course); 1]>);

impl ByThread {
    pub(super) fn get(&self, thread: &Thread) -> Option<&Course> {
        self.0.binary_search_by_key(thread, |(own, _)| *own).ok().map(|at| &self.0[at].1)
    }

    fn of(&mut self, thread: Thread) -> &mut Course {
        let at = self.0.binary_search_by_key(&thread, |(own, _)| *own).unwrap_or_else(|at| {
            self.0.insert(at, (thread, Course::default()));
            at
        });
        &mut self.0[at].1
    }
}

/// The threads that signal on a counter, and those that wait for it.
#[derive(Default)]
pub(in crate::race) struct Courses {
    pub(super) signals: ByThread,
    pub(super) waits: ByThread,
    /// Of all threads that signal.
    gains: Gains,
}

impl Courses {
    pub(super) fn num_rates(&self) -> usize {
        self.gains.len()
    }

    /// Returns whether at most one thread waits in loops of a rate, and at most one signals.
    pub(in crate::race) fn is_one_per_rate(&self) -> bool {
        let one = |ByThread(courses): &ByThread, rate: usize| {
            let of_rate = |(thread, course): &&(Thread, Course)| thread.1 != ALL && course.gains[rate] > 0;
            courses.iter().filter(of_rate).count() <= 1
        };
        (0..self.num_rates()).all(|rate| one(&self.signals, rate) && one(&self.waits, rate))
    }

    /// Returns how many signals of a thread a waiter acquires at its nth wait, given how many it has acquired before
    /// and how many it has received in every schedule.
    pub(in crate::race) fn acquired(
        &self,
        from: Thread,
        (by, waits, stand): (Thread, u64, Stand),
        acquired: usize,
        certain: usize,
    ) -> usize {
        let (Some(from), Some(course)) = (self.signals.get(&from), self.waits.get(&by)) else { return acquired };
        let wait = course.stand(waits, stand);
        let others = |rate: usize| if applies(Condition::Others) { self.gains[rate] - from.gains[rate] } else { 0 };
        Self::acquired_in(from, others, wait, acquired, certain)
    }

    /// Returns how many signals of a course a wait, or the end of its loop, acquires, given how many have been acquired
    /// before, how many the wait has received in every schedule, and how often other threads signal in an iteration of
    /// all loops of a rate.
    pub(super) fn acquired_in(
        from: &Course,
        others: impl Fn(usize) -> u64,
        wait: Place,
        acquired: usize,
        certain: usize,
    ) -> usize {
        if !applies(Condition::Causal) {
            return certain.max(acquired);
        }
        // A later signal has more events before it.
        let newly_acquired =
            (acquired..certain).take_while(|&number| is_causal(from.at(number as u64 + 1), &others, wait));
        acquired + newly_acquired.count()
    }
}

/// Returns whether a wait, or the end of its loop, acquires a signal with every number of iterations: wherever an
/// iteration is inserted, at least as many waits are added before the wait as signals of the others plus signals before
/// the signal.
fn is_causal(signal: Place, others: impl Fn(usize) -> u64, wait: Place) -> bool {
    (0..signal.gains.len()).all(|rate| {
        let (sent, waited) = (signal.gains[rate] + others(rate), wait.gains[rate]);
        let inside = |place: Place| place.inside.filter(|(own, ..)| *own == rate).unwrap_or_default();
        let ((_, sends, sent_in), (_, waits, waited_in)) = (inside(signal), inside(wait));
        // An insertion before both, one after both, and one before the signal only.
        let between = sends > 0 && (waits == 0 || sent_in > waited_in);
        sent <= waited && sent + sends <= waited + waits && (!between || sent + sends <= waited)
    })
}

/// The courses of the channels or semaphores that loops use, by number.
pub(in crate::race) type Looped = BTreeMap<u32, Courses>;

/// All threads of an agent.
const ALL: u32 = u32::MAX;

/// How a counter is used, as far as it decides whether the counter is steady.
#[derive(Clone, Copy, Default)]
struct Use {
    signals: Side,
    waits: Side,
    in_loop: bool,
}

/// The signals on a counter, or the waits.
#[derive(Clone, Copy, Default)]
enum Side {
    #[default]
    Idle,
    /// All in the iterations of one loop: its thread block, a step of it, and the number of events.
    Loop(u32, usize, u64),
    Elsewhere,
}

impl Side {
    fn add(&mut self, model: &Model, agent: u32, step: usize) {
        let is_same = |own, first| own == agent && model.place_of(first).0 == model.place_of(step).0;
        *self = match *self {
            Self::Idle if model.in_loop(step) => Self::Loop(agent, step, 1),
            Self::Loop(own, first, events) if is_same(own, first) => Self::Loop(own, first, events + 1),
            _ => Self::Elsewhere,
        };
    }
}

impl Use {
    /// Returns whether an iteration of one loop has as many signals as one of another loop of the same rate has waits,
    /// and there are no others.
    fn is_steady(&self, model: &Model) -> bool {
        let (Side::Loop(from, send, signals), Side::Loop(by, wait, waits)) = (self.signals, self.waits) else {
            return false;
        };
        let rate = |agent: u32, step| model.loop_of(agent as usize, step).map(|(_, body)| Rate::of(body, 1));
        signals == waits && rate(from, send) == rate(by, wait)
    }
}

/// Returns the courses of every counter that loops use and that steps of some kinds raise and lower, except steady
/// counters. `sender` returns the thread that a thread of an agent signals as in a step; `is_plain` returns whether a
/// counter is used by one thread on either side and has no initial units; `counters` is the number of counters.
///
/// A plain counter is *steady* if all signals are in one loop, all waits are in one loop of the same rate, and an
/// iteration of either has equally many. Then the nth signal and the nth wait are in iterations of equal number, and an
/// insertion moves both or neither: the nth wait acquires the nth signal and none after that, at every number of
/// iterations, as it does outside of loops.
pub(in crate::race) fn looped(
    model: &Model,
    counters: usize,
    raises: impl Fn(OpKind) -> bool,
    lowers: impl Fn(OpKind) -> bool,
    sender: impl Fn(u32, usize, u32, u32) -> Thread,
    is_plain: impl Fn(u32) -> bool,
) -> Looped {
    if !model.has_loops() {
        return Looped::new();
    }
    let counts = |step: usize| raises(model.step_at(step).kind) || lowers(model.step_at(step).kind);
    let all = || (0..).zip(&model.agents).flat_map(|(agent, own)| own.steps.clone().map(move |step| (agent, step)));
    let mut uses = vec![Use::default(); counters];
    for (agent, step) in all().filter(|(_, step)| counts(*step)) {
        for id in model.ids(step) {
            let Some(of) = uses.get_mut(*id as usize) else { continue };
            of.in_loop |= model.in_loop(step);
            let side = if raises(model.step_at(step).kind) { &mut of.signals } else { &mut of.waits };
            side.add(model, agent, step);
        }
    }
    let is_looped = |(id, of): &(u32, &Use)| of.in_loop && !(is_plain(*id) && of.is_steady(model));
    let mut looped: Looped = (0..).zip(&uses).filter(is_looped).map(|(id, _)| (id, Courses::default())).collect();
    if looped.is_empty() {
        return looped;
    }
    let rates = Rates::of(model);
    for (agent, step) in all().filter(|(_, step)| counts(*step)) {
        let inside = rates.inside(model, agent, step);
        for (thread, id) in (0..).zip(model.ids(step)) {
            let Some(courses) = looped.get_mut(id) else { continue };
            if raises(model.step_at(step).kind) {
                courses.signals.of(sender(agent, step, thread, *id)).add(inside);
            } else {
                for who in [(agent, thread), (agent, ALL)] {
                    courses.waits.of(who).add(inside);
                }
            }
        }
    }
    for courses in looped.values_mut() {
        courses.gains.resize(rates.len(), 0);
        courses.waits.0.iter_mut().for_each(|(_, course)| course.sum(rates.len()));
        for (_, course) in &mut courses.signals.0 {
            course.sum(rates.len());
            courses.gains.iter_mut().zip(&course.gains).for_each(|(all, own)| *all += own);
        }
    }
    looped
}

/// The numbers of the rates.
pub(super) struct Rates {
    numbers: BTreeMap<Rate, usize>,
}

impl Rates {
    pub(super) fn of(model: &Model) -> Self {
        Self { numbers: model::rates(model.view).into_iter().zip(0..).collect() }
    }

    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Returns the loop of an event.
    pub(super) fn inside(&self, model: &Model, agent: u32, step: usize) -> Option<Inside> {
        if !model.in_loop(step) {
            return None;
        }
        let (index, body) = model.loop_of(agent as usize, step)?;
        let rate = *self.numbers.get(&Rate::of(body, 1))?;
        Some(Inside { index, rate, trips: model.size.trips(body), events: 0 })
    }
}
