//! Counters that loops use, in an execution that represents every number of iterations.

use std::collections::{BTreeMap, BTreeSet};

use smallvec::{SmallVec, smallvec};

use super::rivals::Rivals;
use super::unordered::census;
use super::{ALL, ReleasedClock, Thread};
use crate::check::race::clock::{ClockArena, VectorClock};
use crate::check::race::every::{Courses, Stand};

/// Signals and waits in loops, in an execution that represents every number of iterations.
pub(super) struct Looping {
    /// As in [`Unordered`].
    pub(super) totals: Vec<(u64, Thread)>,
    all: u64,
    pub(super) sent: BTreeMap<Thread, Vec<ReleasedClock>>,
    begun: VectorClock,
    /// Whether one agent signals and one waits, each in program order.
    pub(super) one: bool,
    /// By waiting thread, and by agent for all of its threads ([`ALL`]), how often they have waited, and how many
    /// clocks of which thread they have acquired.
    pub(super) waits: BTreeMap<Thread, (u64, BTreeMap<Thread, usize>)>,
    /// Agents that have executed a relaxed wait.
    pub(super) relaxed: BTreeSet<u32>,
    courses: Courses,
    pub(super) rivals: Rivals,
}

impl Looping {
    pub(super) fn new(totals: BTreeMap<Thread, u64>, one: bool, courses: Courses, clocks: &mut ClockArena) -> Self {
        let (totals, all, begun) = census(totals, clocks);
        let (sent, waits, rivals) = (BTreeMap::new(), BTreeMap::new(), Rivals::default());
        Self { totals, all, sent, begun, one, waits, relaxed: BTreeSet::new(), courses, rivals }
    }

    /// Returns as which agents a thread waits, and which threads acquire what it waits for.
    pub(super) fn waiters(&self, by: Thread) -> SmallVec<[(Thread, u32); 2]> {
        match self.one {
            true => smallvec![((by.0, ALL), by.1)],
            false => smallvec![(by, by.1), ((by.0, ALL), ALL)],
        }
    }

    /// Records a wait of a thread, or of all threads of its agent; calls `hear` with the clocks that they acquire.
    pub(super) fn receive(&mut self, initial: u64, who: Thread, mut hear: impl FnMut(ReleasedClock)) {
        let (waits, _) = self.waits.entry(who).or_default();
        *waits += 1;
        // Which wait is the first one beyond the initial units depends on the number of iterations.
        if *waits == 1 && initial == 0 {
            hear(ReleasedClock { knows: self.begun, relaxed: true });
        }
        self.news(initial, who, Stand::At, hear);
    }

    /// Calls `hear` with the clocks that these waiters have acquired in every schedule at their position, and had not
    /// acquired before.
    pub(super) fn news(&mut self, initial: u64, who: Thread, stand: Stand, mut hear: impl FnMut(ReleasedClock)) {
        let Self { totals, all, sent, waits, courses, .. } = self;
        let Some((waits, heard)) = waits.get_mut(&who) else { return };
        for (total, thread) in &*totals {
            // Initial units, and signals of other threads, may have been received first.
            let Some(sure) = waits.checked_sub(initial.saturating_add(*all - total)).filter(|sure| *sure > 0) else {
                break;
            };
            let Some(words) = sent.get(thread) else { continue };
            let sure = words.len().min(usize::try_from(sure).unwrap_or(usize::MAX));
            let heard = heard.entry(*thread).or_default();
            let sure = courses.heard(*thread, (who, *waits, stand), *heard, sure);
            words[sure.min(*heard)..sure].iter().for_each(|word| hear(*word));
            *heard = sure.max(*heard);
        }
    }
}
