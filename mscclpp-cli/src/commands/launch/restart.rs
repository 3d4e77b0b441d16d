//! When failed ranks are started again.

use std::time::{Duration, Instant};

/// Delay before the first restart of a rank; each later one takes twice as long, up to the maximum: a rank that fails at
/// once, as with a broken device, should not use all restarts within a second.
const MIN_DELAY: Duration = Duration::from_millis(100);
const MAX_DELAY: Duration = Duration::from_secs(10);

/// The restarts of a job.
#[derive(Debug)]
pub(super) struct Restarts {
    limit: u32,
    used: u32,
    /// Number of restarts of each rank, by index.
    of_ranks: Vec<u32>,
    /// Ranks that wait for their restart, by index, and until when.
    pending: Vec<(Instant, usize)>,
}

/// A restart that was scheduled.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Scheduled {
    /// Its number among those of the job, and their limit.
    pub(super) number: u32,
    pub(super) limit: u32,
    pub(super) delay: Duration,
}

impl Restarts {
    pub(super) fn new(limit: u32) -> Self {
        Self { limit, used: 0, of_ranks: Vec::new(), pending: Vec::new() }
    }

    /// Schedules the restart of a rank; `None` if the job has no restarts left.
    pub(super) fn schedule(&mut self, index: usize, now: Instant) -> Option<Scheduled> {
        if self.used == self.limit {
            return None;
        }
        self.used += 1;
        if self.of_ranks.len() <= index {
            self.of_ranks.resize(index + 1, 0);
        }
        let earlier = self.of_ranks[index];
        self.of_ranks[index] += 1;
        let delay = MIN_DELAY.saturating_mul(1 << earlier.min(16)).min(MAX_DELAY);
        self.pending.push((now + delay, index));
        Some(Scheduled { number: self.used, limit: self.limit, delay })
    }

    /// Returns when the next rank is to be restarted.
    pub(super) fn next(&self) -> Option<Instant> {
        self.pending.iter().map(|(at, _)| *at).min()
    }

    /// Takes a rank that is to be restarted now: its index, and the number of its restarts.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<(usize, u32)> {
        let due = self.pending.iter().position(|(at, _)| *at <= now)?;
        let (_, index) = self.pending.swap_remove(due);
        Some((index, self.of_ranks[index]))
    }

    /// Cancels all restarts, because the job ends.
    pub(super) fn cancel(&mut self) {
        self.limit = self.used;
        self.pending.clear();
    }

    /// Returns whether any rank waits for its restart.
    pub(super) fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_of_a_rank_double_until_the_restarts_are_used() {
        let (mut restarts, now) = (Restarts::new(4), Instant::now());
        let delay = |restarts: &mut Restarts, index| restarts.schedule(index, now).map(|one| one.delay.as_millis());
        assert_eq!(delay(&mut restarts, 2), Some(100));
        assert_eq!(delay(&mut restarts, 2), Some(200));
        assert_eq!(delay(&mut restarts, 0), Some(100));
        assert_eq!(restarts.schedule(2, now).map(|one| (one.number, one.limit)), Some((4, 4)));
        assert_eq!(restarts.schedule(2, now), None);
        assert_eq!(restarts.next(), Some(now + MIN_DELAY));
        assert_eq!(restarts.take_due(now), None);
        assert!(restarts.take_due(now + MIN_DELAY).is_some());
        restarts.cancel();
        assert!(!restarts.is_pending());
    }

    #[test]
    fn delay_is_bounded() {
        let (mut restarts, now) = (Restarts::new(u32::MAX), Instant::now());
        let last = (0..100).filter_map(|_| restarts.schedule(0, now)).last();
        assert_eq!(last.map(|one| one.delay), Some(MAX_DELAY));
    }
}
