//! A timeout that counts only time in which the waiting thread was running.

use std::time::{Duration, Instant};

/// At most this fraction of the timeout elapses between two updates.
const PART: u32 = 32;
/// Bounds of that fraction.
const MIN_STEP: Duration = Duration::from_millis(4);
const MAX_STEP: Duration = Duration::from_millis(250);

/// A timeout that counts only time in which the waiting thread was running.
///
/// A suspended machine, a stopped and continued job or a busy processor keeps the waiting thread from running, and
/// usually its peers as well, so such time is no evidence about the peers. Therefore at most a small fraction of the
/// timeout elapses between two updates.
#[derive(Clone, Copy, Debug)]
pub struct ActiveTimeout {
    whole: Duration,
    elapsed: Duration,
    updated: Instant,
    /// Time by which the next step may be longer.
    gap: Duration,
}

impl ActiveTimeout {
    /// Creates a timeout of which nothing has elapsed.
    pub fn new(whole: Duration) -> Self {
        Self { whole, elapsed: Duration::ZERO, updated: Instant::now(), gap: Duration::ZERO }
    }

    /// Counts the time since the last update, and returns the remaining time.
    pub fn update(&mut self) -> Duration {
        self.update_at(Instant::now());
        self.remaining()
    }

    /// Updates the timeout, and returns whether nothing remains.
    pub fn is_expired(&mut self) -> bool {
        self.update().is_zero()
    }

    /// Returns the time that remained at the last update.
    pub fn remaining(&self) -> Duration {
        self.whole.saturating_sub(self.elapsed)
    }

    /// Returns the time that had elapsed at the last update, which may exceed the timeout.
    pub fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// Returns the longest time between two updates that is certain to count in full.
    pub fn max_sleep(&self) -> Duration {
        self.step() / 2
    }

    /// Announces that the next update comes later by up to `time`, which then counts in full.
    pub fn allow_gap(&mut self, time: Duration) {
        self.gap = time;
    }

    fn step(&self) -> Duration {
        (self.whole / PART).clamp(MIN_STEP, MAX_STEP)
    }

    fn update_at(&mut self, now: Instant) {
        let step = self.step() + std::mem::take(&mut self.gap);
        self.elapsed += now.saturating_duration_since(self.updated).min(step);
        self.updated = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suspension_counts_as_one_step() {
        let mut timeout = ActiveTimeout::new(Duration::from_millis(640));
        let mut now = timeout.updated;
        let mut pass = |timeout: &mut ActiveTimeout, ms| {
            now += Duration::from_millis(ms);
            timeout.update_at(now);
            timeout.remaining().as_millis()
        };
        assert_eq!(timeout.max_sleep(), Duration::from_millis(10));
        assert_eq!(pass(&mut timeout, 10), 630);
        // An hour counts as one step.
        assert_eq!(pass(&mut timeout, 3_600_000), 610);
        let updates = (1..).find(|_| pass(&mut timeout, 10) == 0);
        assert_eq!(updates, Some(61));
        timeout.allow_gap(Duration::from_millis(100));
        assert_eq!(pass(&mut timeout, 90), 0);
        assert_eq!(timeout.elapsed(), Duration::from_millis(730));
    }

    #[test]
    fn unbounded_timeout_elapses_without_overflow() {
        let mut timeout = ActiveTimeout::new(Duration::MAX);
        timeout.update_at(timeout.updated + Duration::from_secs(1 << 30));
        assert_eq!(timeout.elapsed(), MAX_STEP);
        assert!(!timeout.is_expired());
        assert!(ActiveTimeout::new(Duration::ZERO).is_expired());
    }
}
