//! Counters that several threads use unordered: a wait acquires what holds in every schedule.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::rivals::Rivals;
use super::{ReleasedClock, Thread, begun};
use crate::race::clock::{ClockArena, VectorClock};

/// Unordered signals and waits.
#[derive(Default)]
pub(super) struct Unordered {
    /// Signaling threads, and their signals in a launch; those with the most first.
    pub(super) totals: Vec<(u64, Thread)>,
    all: u64,
    /// By signaling thread, the clocks that it has released.
    pub(super) sent: BTreeMap<Thread, Vec<ReleasedClock>>,
    /// A clock with only the start of the signaling rank.
    begun: VectorClock,
    /// By waiting thread, and by agent for all of its threads ([`ALL`](super::ALL)), how often they have waited.
    pub(super) waits: BTreeMap<Thread, u64>,
    pub(super) rivals: Rivals,
}

/// Returns the signals in a launch by signaling thread, the most first, their sum, and a clock with only the start of
/// the signaling rank.
pub(super) fn sum_signals(
    totals: BTreeMap<Thread, u64>,
    clocks: &mut ClockArena,
) -> (Vec<(u64, Thread)>, u64, VectorClock) {
    let begun = begun(&totals, clocks);
    let mut totals: Vec<_> = totals.into_iter().map(|(thread, total)| (total, thread)).collect();
    totals.sort_unstable_by_key(|&(total, thread)| (Reverse(total), thread));
    let all = totals.iter().map(|(total, _)| total).sum();
    (totals, all, begun)
}

impl Unordered {
    pub(super) fn new(totals: BTreeMap<Thread, u64>, clocks: &mut ClockArena) -> Self {
        let (totals, all, begun) = sum_signals(totals, clocks);
        Self { totals, all, begun, ..Self::default() }
    }

    /// Records a wait of a thread, or of all threads of its agent; calls `acquire` with the clocks that they acquire.
    pub(super) fn receive(
        &mut self,
        initial: u64,
        (who, relaxed): (Thread, bool),
        mut acquire: impl FnMut(ReleasedClock),
    ) {
        let waits = self.waits.entry(who).or_default();
        *waits += 1;
        let taken = waits.saturating_sub(initial);
        if taken == 1 {
            acquire(ReleasedClock { clock: self.begun, relaxed: true });
        }
        for (total, thread) in &self.totals {
            // Signals of other threads may have been received first.
            let Some(nth) = taken.checked_sub(self.all - total).and_then(|certain| certain.checked_sub(1)) else {
                break;
            };
            let released = self.sent.get(thread).and_then(|released_clocks| released_clocks.get(nth as usize));
            released.into_iter().for_each(|released| acquire(released.acquired(relaxed)));
        }
    }
}
