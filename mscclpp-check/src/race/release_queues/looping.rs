//! Counters that loops use, in an execution that represents every number of iterations.

use std::collections::{BTreeMap, BTreeSet};

use smallvec::{SmallVec, smallvec};

use super::rivals::Rivals;
use super::unordered::sum_signals;
use super::{ALL, ReleasedClock, Thread};
use crate::race::clock::{ClockArena, VectorClock};
use crate::race::every::{Courses, Stand};

/// Signals and waits in loops, in an execution that represents every number of iterations.
pub(super) struct Looping {
    /// As in [`Unordered`](super::unordered::Unordered).
    pub(super) totals: Vec<(u64, Thread)>,
    all: u64,
    pub(super) sent: BTreeMap<Thread, Vec<ReleasedClock>>,
    begun: VectorClock,
    /// Whether one agent signals and one waits, each in program order.
    pub(super) one: bool,
    /// By waiting thread, and by agent for all of its threads ([`ALL`](super::ALL)), how often they have waited, and how many
    /// clocks of which thread they have acquired.
    pub(super) waits: BTreeMap<Thread, (u64, BTreeMap<Thread, usize>)>,
    /// Agents that have executed a relaxed wait.
    pub(super) relaxed: BTreeSet<u32>,
    courses: Courses,
    pub(super) rivals: Rivals,
}

impl Looping {
    pub(super) fn new(totals: BTreeMap<Thread, u64>, one: bool, courses: Courses, clocks: &mut ClockArena) -> Self {
        let (totals, all, begun) = sum_signals(totals, clocks);
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

    /// Records a wait of a thread, or of all threads of its agent; calls `acquire` with the clocks that they acquire.
    pub(super) fn receive(&mut self, initial: u64, who: Thread, mut acquire: impl FnMut(ReleasedClock)) {
        let (waits, _) = self.waits.entry(who).or_default();
        *waits += 1;
        // Which wait is the first one beyond the initial units depends on the number of iterations.
        if *waits == 1 && initial == 0 {
            acquire(ReleasedClock { clock: self.begun, relaxed: true });
        }
        self.newly_acquired(initial, who, Stand::At, acquire);
    }

    /// Calls `acquire` with the clocks that these waiters have acquired in every schedule at their position, and had not
    /// acquired before.
    pub(super) fn newly_acquired(
        &mut self,
        initial: u64,
        who: Thread,
        stand: Stand,
        mut acquire: impl FnMut(ReleasedClock),
    ) {
        let Self { totals, all, sent, waits, courses, .. } = self;
        let Some((waits, acquired)) = waits.get_mut(&who) else { return };
        for (total, thread) in &*totals {
            // Initial units, and signals of other threads, may have been received first.
            let Some(certain) = waits.checked_sub(initial.saturating_add(*all - total)).filter(|certain| *certain > 0)
            else {
                break;
            };
            let Some(released_clocks) = sent.get(thread) else { continue };
            let certain = released_clocks.len().min(usize::try_from(certain).unwrap_or(usize::MAX));
            let acquired = acquired.entry(*thread).or_default();
            let certain = courses.acquired(*thread, (who, *waits, stand), *acquired, certain);
            released_clocks[certain.min(*acquired)..certain].iter().for_each(|released| acquire(*released));
            *acquired = certain.max(*acquired);
        }
    }
}
