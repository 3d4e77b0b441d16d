//! Clocks that signals and releases transfer to the threads that wait for them.
//!
//! A *counter* is one direction of a channel, or a semaphore. What a wait on it acquires depends on how the counter is
//! used:
//!
//! * **Ordered.** All signals on the counter are totally ordered, and so are all waits: each happens before the next
//!   one; a signal also if the wait that received it happens before the next signal. One thread on either side is
//!   always ordered; several threads are ordered by barriers, semaphores or other channels. Then the nth wait
//!   receives the nth signal.
//! * **Unordered.** Which signal a wait receives depends on the schedule, and the wait acquires only what holds in all
//!   of them. Once a thread has waited n times, n signals have been sent, so each signaling thread has sent at least n
//!   less all that the others send in a launch; and the signaling rank has started the launch.
//!
//! Initial units of a semaphore satisfy the first acquires, which acquire no clock.
//!
//! # Why this is sound
//!
//! Whether several threads are ordered depends on clocks, and clocks depend on what waits acquire. So an execution
//! assumes that each counter is ordered and searches for a signal or a wait that does not happen after the previous one
//! ([`ReleaseQueues::disordered`]). If there is one, all results of the execution are discarded, and the next execution
//! does not assume it of that counter.
//!
//! An execution without such a pair holds in every schedule. Suppose that some schedule contradicts the clocks, and
//! take the first event there that contradicts its clock. Its clock is joined from program order, from barriers, or
//! from a wait that received a signal; so that event is the end of a wait w, the nth on its counter, and the signal s
//! that it received in our execution has not been sent. The waits before w have ended, since w's clock included them
//! when it began and was correct; later ones have not ended, since they would have contradicted their clocks before w.
//! So exactly n - 1 signals or initial units have been taken, one is left, and the counter has received at least n less
//! the initial units. As each signal was sent after the previous one, these are the first ones, and s is among them: a
//! contradiction. That also holds for a signal that only happens after the wait that received the previous signal, the
//! nth: when that wait ended, as many units as that wait's number had been received, and none of later signals, the
//! first of which would have been sent before its own predecessor; so the nth had been received. Visibility follows:
//! signals add to the counter, so a wait that reads a later sum acquires what every earlier signal has released.
//!
//! # Loops
//!
//! In an execution that proves what holds for every number of iterations ([`every`](super::every)), a wait on a counter
//! that loops use acquires only the clocks that it acquires at every number, and the end of its loop acquires those
//! that only all of its waits together receive in every schedule. Several threads are assumed to be ordered there, too,
//! unless two of them use the counter in loops of one rate ([`merged`](super::every)). An execution for one size needs
//! no such restriction, nor does a counter that is *steady* ([`looped`]).
//!
//! # Cost
//!
//! Memory, and the number of clocks that waits acquire, are at most in proportion to signals and waits: while waits do
//! not outnumber signals and initial units, a thread that waits n times acquires at most n signals.

mod looping;
mod rivals;
mod unordered;

use std::collections::{BTreeMap, BTreeSet};

use looping::Looping;
use unordered::Unordered;

use super::RaceDetector;
use super::agent_ids::AgentIds;
use super::clock::{ClockArena, VectorClock};
use super::every::{Looped, Merged, Stand, looped};
use crate::model::{CounterUse, Model, NOTHING};
use mscclpp_plan::raw::OpKind;

/// Clock that a signal transfers to the thread that waits for it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReleasedClock {
    pub(super) clock: VectorClock,
    /// Whether it publishes no writes.
    pub(super) relaxed: bool,
}

impl ReleasedClock {
    /// Returns what a wait acquires of it.
    fn acquired(self, relaxed: bool) -> Self {
        Self { relaxed: self.relaxed || relaxed, ..self }
    }
}

/// A thread of an agent: its position in operations that several threads execute.
pub(super) type Thread = (u32, u32);

/// A signal or a wait: the thread that executes it, and the timestamp of its agent. A port executes its signals itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub(super) by: Thread,
    pub(super) turn: u32,
}

impl Event {
    /// Returns whether it happens before another event, given how many timestamps of an agent happen before that
    /// event's thread.
    pub(super) fn precedes(&self, next: &Self, over: impl FnOnce(u32) -> u32) -> bool {
        self.by == next.by || over(self.by.0) > self.turn
    }
}

/// The released clocks on all channels, or on all semaphores.
pub(super) struct ReleaseQueues {
    /// Per counter, its first and its last clock in `nodes`.
    queues: Vec<(u32, u32)>,
    /// Clocks, each with the next one.
    nodes: Vec<(ReleasedClock, u32)>,
    free: Vec<u32>,
    shared: BTreeMap<u32, Shared>,
    /// Counters whose signals or waits are unordered, though they were assumed to be ordered.
    disordered: BTreeSet<u32>,
}

/// A counter that several threads use, or that has initial units.
struct Shared {
    initial: u64,
    /// Waits in a launch of the largest message.
    downs: u64,
    uses: Uses,
}

enum Uses {
    /// Ordered: clocks are in the counter's queue.
    Ordered {
        signal: Option<Event>,
        /// Signals so far.
        signals: u64,
        wait: Option<Event>,
        /// Waits so far.
        waits: u64,
    },
    Unordered(Box<Unordered>),
    Looping(Box<Looping>),
    /// Ordered, and used in loops.
    Merged(Box<Merged>),
}

impl Disordered {
    /// Adds some counters, or `all` of a plan's if there are some. Returns whether there were.
    pub(in super::super) fn add(&mut self, found: Self, all: bool, model: &Model) -> bool {
        let Self { mut signals, mut releases } = found;
        if signals.is_empty() && releases.is_empty() {
            return false;
        }
        if all {
            signals.extend(0..model.counters.len() as u32);
            releases.extend(0..model.releases.len() as u32);
        }
        self.signals.append(&mut signals);
        self.releases.append(&mut releases);
        true
    }
}

/// Returns the number of waits on a counter in a launch: unbounded if they are in a loop.
fn max_waits(traffic: &CounterUse) -> u64 {
    if traffic.is_lowered_in_loop { u64::MAX } else { traffic.down.into() }
}

const NONE: u32 = u32::MAX;

/// All threads of an agent, which share a clock from the next block sync on.
const ALL: u32 = u32::MAX;

/// Counters whose signals or waits are unordered: those of channels, and semaphores.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Disordered {
    signals: BTreeSet<u32>,
    releases: BTreeSet<u32>,
}

impl ReleaseQueues {
    /// Creates the queues of channels.
    pub(super) fn of_channels(model: &Model, disordered: &Disordered, clocks: &mut ClockArena) -> Self {
        let counters = model.counters.iter().map(|traffic| (traffic, 0));
        Self::new(model, counters, &disordered.signals, clocks, OpKind::signals, OpKind::waits)
    }

    /// Creates the queues of semaphores.
    pub(super) fn of_semaphores(model: &Model, disordered: &Disordered, clocks: &mut ClockArena) -> Self {
        let initial = model.units.iter().map(|units| u64::try_from(*units).unwrap_or(0));
        let (raises, lowers) = (|kind| kind == OpKind::SemaphoreRelease, |kind| kind == OpKind::SemaphoreAcquire);
        Self::new(model, model.releases.iter().zip(initial), &disordered.releases, clocks, raises, lowers)
    }

    fn new<'t>(
        model: &Model,
        counters: impl ExactSizeIterator<Item = (&'t CounterUse, u64)>,
        disordered: &BTreeSet<u32>,
        clocks: &mut ClockArena,
        raises: impl Fn(OpKind) -> bool,
        lowers: impl Fn(OpKind) -> bool,
    ) -> Self {
        let queues = vec![(NONE, NONE); counters.len()];
        let counters: Vec<_> = counters.collect();
        let ring = AgentIds::of(model).unwrap_or_default();
        let sender = |agent: u32, step: usize, thread: u32, id: u32| {
            let agent = ring.moved(agent, ring.back(model.shift(step, thread as usize)));
            let is_private = counters.get(id as usize).is_some_and(|(traffic, _)| traffic.is_private());
            (agent, if is_private { 0 } else { thread })
        };
        let is_plain =
            |id: u32| counters.get(id as usize).is_some_and(|(traffic, initial)| traffic.is_private() && *initial == 0);
        let mut looped = match model.size.proves() {
            true => looped(model, counters.len(), &raises, &lowers, sender, is_plain),
            false => Looped::new(),
        };
        let mut totals: BTreeMap<u32, BTreeMap<Thread, u64>> = (0..)
            .zip(&counters)
            .filter(|(id, (traffic, initial))| !traffic.is_private() || *initial > 0 || looped.contains_key(id))
            .map(|(id, _)| (id, BTreeMap::new()))
            .collect();
        if !totals.is_empty() {
            for (agent, steps) in (0..).zip(model.agents.iter().map(|agent| agent.steps.clone())) {
                for step in steps.filter(|step| raises(model.step_at(*step).kind)) {
                    for (thread, id) in (0..).zip(model.ids(step)) {
                        if let Some(totals) = totals.get_mut(id) {
                            *totals.entry(sender(agent, step, thread, *id)).or_default() += 1;
                        }
                    }
                }
            }
        }
        let shared = totals.into_iter().map(|(id, totals)| {
            let (traffic, initial) = counters[id as usize];
            let uses = match looped.remove(&id) {
                Some(courses) if !traffic.is_private() && !disordered.contains(&id) && courses.is_one_per_rate() => {
                    Uses::Merged(Merged::of(courses, begun(&totals, clocks)).into())
                }
                Some(courses) => Uses::Looping(Looping::new(totals, traffic.is_private(), courses, clocks).into()),
                None if disordered.contains(&id) => Uses::Unordered(Unordered::new(totals, clocks).into()),
                None => Uses::Ordered { signal: None, signals: 0, wait: None, waits: 0 },
            };
            (id, Shared { initial, downs: max_waits(traffic), uses })
        });
        let shared = shared.collect();
        Self { queues, nodes: Vec::new(), free: Vec::new(), shared, disordered: BTreeSet::new() }
    }

    /// Records a signal of a thread, which is an event as the waiting rank numbers it; so is `from`, a thread of a
    /// block even if a port executes the signal.
    pub(super) fn send(
        &mut self,
        counter: u32,
        from: Thread,
        event: Event,
        released: ReleasedClock,
        clocks: &ClockArena,
    ) {
        if counter == NOTHING {
            return;
        }
        match self.shared.get_mut(&counter).map(|shared| (shared.initial, &mut shared.uses)) {
            Some((_, Uses::Unordered(uses))) => return uses.sent.entry(from).or_default().push(released),
            Some((_, Uses::Looping(uses))) => {
                let from = if uses.one { (from.0, 0) } else { from };
                return uses.sent.entry(from).or_default().push(released);
            }
            Some((_, Uses::Merged(uses))) => {
                if !uses.send(from, event, released, |agent| clocks.ordered(released.clock, agent)) {
                    self.disordered.insert(counter);
                }
                return;
            }
            Some((initial, Uses::Ordered { signal, signals, wait, waits })) => {
                let over = |agent| clocks.ordered(released.clock, agent);
                // The wait that has received the last signal.
                let wait = wait.filter(|_| *waits == initial.saturating_add(*signals));
                let last = signal.replace(event);
                *signals += 1;
                if last.is_some_and(|last| {
                    !last.precedes(&event, over) && !wait.is_some_and(|wait| wait.precedes(&event, over))
                }) {
                    self.disordered.insert(counter);
                }
            }
            None => {}
        }
        self.push(counter, released);
    }

    fn push(&mut self, counter: u32, released: ReleasedClock) {
        let node = self.free.pop().unwrap_or_else(|| {
            self.nodes.push((ReleasedClock::default(), NONE));
            self.nodes.len() as u32 - 1
        });
        self.nodes[node as usize] = (released, NONE);
        let (first, last) = &mut self.queues[counter as usize];
        match *last {
            NONE => *first = node,
            last => self.nodes[last as usize].1 = node,
        }
        *last = node;
    }

    fn pop(&mut self, counter: u32) -> Option<ReleasedClock> {
        let (first, last) = self.queues.get_mut(counter as usize)?;
        let node = *first;
        let (released, next) = *self.nodes.get(node as usize)?;
        *first = next;
        if *first == NONE {
            *last = NONE;
        }
        self.free.push(node);
        Some(released)
    }

    /// Records a wait that is about to end. Returns the thread of another wait on the same counter, if the two are
    /// unordered and either may receive the first unit. `over` returns how many timestamps of an agent happen before
    /// the waiting thread.
    pub(super) fn competing_waiter(&mut self, counter: u32, event: Event, over: impl Fn(u32) -> u32) -> Option<Thread> {
        let shared = self.shared.get_mut(&counter)?;
        match &mut shared.uses {
            Uses::Ordered { wait, .. } => {
                let last = wait.replace(event);
                if last.is_some_and(|last| !last.precedes(&event, over)) {
                    self.disordered.insert(counter);
                }
                None
            }
            Uses::Merged(uses) => {
                if !uses.wait(event, over) {
                    self.disordered.insert(counter);
                }
                None
            }
            // If the initial units are enough, no thread waits.
            Uses::Unordered(uses) if shared.downs > shared.initial => uses.rivals.record(event, over),
            Uses::Looping(uses) if shared.downs > shared.initial => uses.rivals.record(event, over),
            Uses::Unordered(_) | Uses::Looping(_) => None,
        }
    }

    /// Records the end of a wait; calls `acquire` with the clocks that the thread acquires, and those that all threads of
    /// its agent acquire together.
    pub(super) fn receive(
        &mut self,
        counter: u32,
        by: Thread,
        relaxed: bool,
        mut acquire: impl FnMut(u32, ReleasedClock),
    ) {
        if let Some(Shared { initial, uses, .. }) = self.shared.get_mut(&counter) {
            match uses {
                Uses::Ordered { waits, .. } => {
                    *waits += 1;
                    if *waits <= *initial {
                        return;
                    }
                }
                Uses::Unordered(uses) => {
                    for who in [by, (by.0, ALL)] {
                        uses.receive(*initial, (who, relaxed), |released| acquire(who.1, released));
                    }
                    return;
                }
                Uses::Merged(uses) => {
                    return uses.receive(*initial, by, |released| acquire(by.1, released.acquired(relaxed)));
                }
                Uses::Looping(uses) => {
                    if relaxed {
                        uses.relaxed.insert(by.0);
                    }
                    for (who, listener) in uses.waiters(by) {
                        uses.receive(*initial, who, |released| acquire(listener, released.acquired(relaxed)));
                    }
                    return;
                }
            }
        }
        if let Some(released) = self.pop(counter) {
            acquire(by.1, released.acquired(relaxed));
        }
    }

    /// Returns whether an agent waits on a counter that is used unordered, so that it acquires little.
    pub(super) fn wait_unordered(&self, agent: u32) -> bool {
        let waits = |uses: &Uses| match uses {
            Uses::Ordered { .. } | Uses::Merged(_) => false,
            Uses::Unordered(uses) => uses.waits.contains_key(&(agent, ALL)),
            Uses::Looping(uses) => uses.totals.len() > 1 && uses.waits.contains_key(&(agent, ALL)),
        };
        self.shared.values().any(|shared| waits(&shared.uses))
    }

    /// Calls `acquire` with the clocks of a counter that all threads of an agent acquire in the iteration of their next
    /// wait on it, before that wait and after a block sync.
    pub(super) fn acquire_ahead(&mut self, counter: u32, agent: u32, mut acquire: impl FnMut(ReleasedClock)) {
        let Some(Shared { initial, uses: Uses::Looping(uses), .. }) = self.shared.get_mut(&counter) else { return };
        let relaxed = uses.relaxed.contains(&agent);
        uses.newly_acquired(*initial, (agent, ALL), Stand::Ahead, |released| acquire(released.acquired(relaxed)));
    }

    /// Ends the loop in which a thread has waited; calls `acquire` with the clocks that it acquires only now, and those
    /// that all threads of its agent acquire together.
    pub(super) fn end_loop(&mut self, counter: u32, by: Thread, mut acquire: impl FnMut(u32, ReleasedClock)) {
        let Some(Shared { initial, uses, .. }) = self.shared.get_mut(&counter) else { return };
        match uses {
            Uses::Merged(uses) => {
                uses.newly_acquired(*initial, by, Stand::AfterLoop, |released| acquire(by.1, released))
            }
            Uses::Looping(uses) => {
                for (who, listener) in uses.waiters(by) {
                    uses.newly_acquired(*initial, who, Stand::AfterLoop, |released| acquire(listener, released));
                }
            }
            Uses::Ordered { .. } | Uses::Unordered(_) => {}
        }
    }
}

/// Returns a clock with only the start of the signaling rank.
fn begun(totals: &BTreeMap<Thread, u64>, clocks: &mut ClockArena) -> VectorClock {
    totals.keys().next().map(|(agent, _)| clocks.of(*agent)).unwrap_or_default()
}

impl RaceDetector<'_, '_> {
    /// Returns the counters that were assumed to be ordered and are not: if there are some, the execution has shown
    /// nothing.
    pub(in super::super) fn disordered(&mut self) -> Disordered {
        let [signals, releases] = [&mut self.signals, &mut self.releases]
            .map(|released_clocks| std::mem::take(&mut released_clocks.disordered));
        Disordered { signals, releases }
    }

    /// Executes a signal of a thread of a block, in a step and at a timestamp of its agent.
    pub(super) fn signal(&mut self, id: u32, (by, thread): Thread, step: usize, turn: u32, released: ReleasedClock) {
        let port = self.ports.get(&id).filter(|_| self.model.step_at(step).port);
        let port = port.and_then(|ports| ports.iter().find(|port| port.is_of((by, thread))));
        let event = match port {
            // The port has just executed it.
            Some(port) => Event { by: (port.number as u32, 0), turn: self.agents[port.number].time.saturating_sub(1) },
            None => Event { by: (by, thread), turn },
        };
        // The waiting rank numbers all agents from itself.
        let back = self.ring.back(self.model.shift(step, thread as usize));
        let clock = self.clocks.shifted(released.clock, back);
        let event = Event { by: (self.ring.moved(event.by.0, back), event.by.1), ..event };
        self.signals.send(
            id,
            (self.ring.moved(by, back), thread),
            event,
            ReleasedClock { clock, ..released },
            &self.clocks,
        );
    }
}

#[cfg(test)]
mod tests;
