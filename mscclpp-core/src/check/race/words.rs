//! What signals and releases say, until somebody waits for them.

use std::collections::BTreeMap;

use smallvec::{SmallVec, smallvec};

use super::clock::Clock;
use super::every::{Courses, Looped, looped};
use super::ring::Ring;
use crate::check::model::{Model, NOTHING, Traffic};
use crate::check::pairing::{signals, waits};
use crate::plan::OpKind;

/// What a signal tells who waits for it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Word {
    pub(super) knows: Clock,
    /// Whether it makes nothing visible.
    pub(super) relaxed: bool,
}

/// A thread of an agent: its position in operations that several threads execute.
pub(super) type Thread = (u32, u32);

/// The words on all counters, or on all semaphores.
///
/// Where one thread raises a counter and one lowers it, the nth wait gets the nth signal. Elsewhere that depends on the
/// schedule, and a wait learns only what holds in all of them: once a thread has waited n times, n signals have come,
/// so each signaller has sent at least n less all that the others send in a launch.
pub(super) struct Words {
    /// Per counter, its first and its last word in `nodes`.
    private: Vec<(u32, u32)>,
    /// Words, each with the next one.
    nodes: Vec<(Word, u32)>,
    free: Vec<u32>,
    shared: BTreeMap<u32, Shared>,
}

/// The words on a counter that several use, or that has units from the start.
#[derive(Default)]
struct Shared {
    /// By signalling thread, how many signals it sends in a launch, and those it has sent.
    sent: BTreeMap<Thread, (u64, Vec<Word>)>,
    all: u64,
    initial: u64,
    /// Waits in a launch, of the largest message.
    downs: u64,
    /// By waiting thread, its agent's turn when it waited last.
    takers: BTreeMap<Thread, u32>,
    /// By waiting thread, and by agent for all of its threads ([`ALL`]), how often they have waited, and how many words of
    /// whom they have heard.
    waits: BTreeMap<Thread, (u64, BTreeMap<Thread, usize>)>,
    /// Whether one agent signals and one waits, each in one order.
    one: bool,
    /// Of a run that proves, if loops touch the counter.
    courses: Option<Courses>,
}

impl Shared {
    /// Who a thread waits as, and who learns what they have waited for.
    fn waiters(&self, by: Thread) -> SmallVec<[(Thread, u32); 2]> {
        match self.one {
            true => smallvec![((by.0, ALL), by.1)],
            false => smallvec![(by, by.1), ((by.0, ALL), ALL)],
        }
    }

    /// What is surely known now of the words that those who wait as one wait for, and was not before; behind their loop if so
    /// said.
    fn news(&mut self, who: Thread, listener: u32, behind: bool, hear: &mut impl FnMut(u32, &Word)) {
        let Self { sent, all, initial, waits, courses, .. } = self;
        let Some((waits, heard)) = waits.get_mut(&who) else { return };
        for (thread, (total, words)) in &*sent {
            let sure = waits.saturating_sub(*initial).saturating_sub(*all - *total);
            let sure = words.len().min(usize::try_from(sure).unwrap_or(usize::MAX));
            let heard = heard.entry(*thread).or_default();
            let sure = match courses {
                Some(courses) => courses.heard(*thread, (who, *waits, behind), *heard, sure),
                None => sure,
            };
            words[sure.min(*heard)..sure].iter().for_each(|word| hear(listener, word));
            *heard = sure.max(*heard);
        }
    }
}

/// Waits on a counter in a launch: any number of them if they are in a loop.
fn most_downs(traffic: &Traffic) -> u64 {
    if traffic.is_lowered_in_loop { u64::MAX } else { traffic.down.into() }
}

const NONE: u32 = u32::MAX;

/// All threads of an agent, who share what they know from the next block sync on.
const ALL: u32 = u32::MAX;

impl Words {
    /// On channels.
    pub(super) fn of_channels(model: &Model) -> Self {
        Self::new(model, &model.counters, |_| 0, signals, waits)
    }

    /// On semaphores.
    pub(super) fn of_semaphores(model: &Model) -> Self {
        let initial = |semaphore: u32| u64::try_from(model.units[semaphore as usize]).unwrap_or(0);
        let (releases, acquires) = (OpKind::SemaphoreRelease, OpKind::SemaphoreAcquire);
        Self::new(model, &model.releases, initial, |kind| kind == releases, |kind| kind == acquires)
    }

    fn new(
        model: &Model,
        counters: &[Traffic],
        initial: impl Fn(u32) -> u64,
        raises: impl Fn(OpKind) -> bool,
        lowers: impl Fn(OpKind) -> bool,
    ) -> Self {
        let ring = Ring::of(model).unwrap_or_default();
        let is_private = |id: u32| counters.get(id as usize).is_some_and(Traffic::is_private);
        let sender = |agent: u32, step: usize, thread: u32, id: u32| {
            let agent = ring.moved(agent, ring.back(model.shift(step, thread as usize)));
            (agent, if is_private(id) { 0 } else { thread })
        };
        let mut looped = match model.size.proves() {
            true => looped(model, &raises, &lowers, sender),
            false => Looped::new(),
        };
        let mut shared = BTreeMap::new();
        for (counter, traffic) in (0..).zip(counters) {
            let (initial, courses) = (initial(counter), looped.remove(&counter));
            if !traffic.is_private() || initial > 0 || courses.is_some() {
                let (downs, one) = (most_downs(traffic), traffic.is_private());
                shared.insert(counter, Shared { initial, downs, one, courses, ..Shared::default() });
            }
        }
        if !shared.is_empty() {
            for (agent, steps) in (0..).zip(model.agents.iter().map(|agent| agent.steps.clone())) {
                for step in steps.filter(|step| raises(model.step_at(*step).kind)) {
                    for (thread, id) in (0..).zip(model.ids(step)) {
                        let Some(shared) = shared.get_mut(id) else { continue };
                        shared.sent.entry(sender(agent, step, thread, *id)).or_default().0 += 1;
                        shared.all += 1;
                    }
                }
            }
        }
        Self { private: vec![(NONE, NONE); counters.len()], nodes: Vec::new(), free: Vec::new(), shared }
    }

    /// A thread signals.
    pub(super) fn send(&mut self, counter: u32, from: Thread, word: Word) {
        if counter == NOTHING {
            return;
        }
        if let Some(shared) = self.shared.get_mut(&counter) {
            let from = if shared.one { (from.0, 0) } else { from };
            shared.sent.entry(from).or_default().1.push(word);
            return;
        }
        let node = self.free.pop().unwrap_or_else(|| {
            self.nodes.push((Word::default(), NONE));
            self.nodes.len() as u32 - 1
        });
        self.nodes[node as usize] = (word, NONE);
        let (first, last) = &mut self.private[counter as usize];
        match *last {
            NONE => *first = node,
            last => self.nodes[last as usize].1 = node,
        }
        *last = node;
    }

    /// Another thread that waits for the same, when one is about to in a turn of its agent: either may get what comes
    /// first. `over` tells how many turns of an agent are known to be over.
    pub(super) fn rival(&mut self, counter: u32, by: Thread, turn: u32, over: impl Fn(u32) -> u32) -> Option<Thread> {
        let shared = self.shared.get_mut(&counter)?;
        let mut takers = shared.takers.iter();
        // All threads of one operation must be served before the abstract run goes on, whoever is first.
        let together = |other: &Thread, last: u32| other.0 == by.0 && last == turn;
        let is_rival = |other: &Thread, last: u32| *other != by && !together(other, last) && over(other.0) <= last;
        let rival = takers.find(|(other, last)| is_rival(other, **last)).map(|(other, _)| *other);
        shared.takers.insert(by, turn);
        // Where enough is there from the start, nobody waits.
        rival.filter(|_| shared.downs > shared.initial)
    }

    /// The loop is over in which a thread has waited; calls `hear` with what it knows only now, and what all threads of its agent
    /// know together.
    pub(super) fn leave_loop(&mut self, counter: u32, by: Thread, mut hear: impl FnMut(u32, &Word)) {
        let Some(shared) = self.shared.get_mut(&counter).filter(|shared| shared.courses.is_some()) else { return };
        for (who, listener) in shared.waiters(by) {
            shared.news(who, listener, true, &mut hear);
        }
    }

    /// A thread has waited; calls `hear` with what it learns, and what all threads of its agent learn together.
    pub(super) fn receive(&mut self, counter: u32, by: Thread, mut hear: impl FnMut(u32, &Word)) {
        if let Some(shared) = self.shared.get_mut(&counter) {
            for (who, listener) in shared.waiters(by) {
                shared.waits.entry(who).or_default().0 += 1;
                shared.news(who, listener, false, &mut hear);
            }
            return;
        }
        let Some((first, last)) = self.private.get_mut(counter as usize) else { return };
        if *first == NONE {
            return;
        }
        let node = *first;
        let (word, next) = &mut self.nodes[node as usize];
        hear(by.1, word);
        *first = *next;
        if *first == NONE {
            *last = NONE;
        }
        self.free.push(node);
    }
}
