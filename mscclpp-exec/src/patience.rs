//! How long somebody waits for others.

use std::time::{Duration, Instant};

/// The part of the whole that one step between two looks counts for at most.
const PART: u32 = 32;
/// Shortest and longest of such steps.
const STEPS: (Duration, Duration) = (Duration::from_millis(4), Duration::from_millis(250));

/// A time to wait, which passes while the one who waits looks at the clock.
///
/// A machine that is paused, a job that is stopped and goes on, a processor that is busy with others: what keeps a thread from
/// looking keeps its peers from coming too, and says nothing about them. So of the time between two looks only a small part
/// of the whole counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    whole: Duration,
    spent: Duration,
    looked: Instant,
    /// What the next step may take besides.
    resting: Duration,
}

impl Patience {
    /// All of it is left.
    pub(crate) fn new(whole: Duration) -> Self {
        Self { whole, spent: Duration::ZERO, looked: Instant::now(), resting: Duration::ZERO }
    }

    /// Looks at the clock; how much is left.
    pub(crate) fn look(&mut self) -> Duration {
        self.look_at(Instant::now());
        self.left()
    }

    /// Whether nothing is left.
    pub(crate) fn is_over(&mut self) -> bool {
        self.look().is_zero()
    }

    /// How much was left at the last look.
    pub(crate) fn left(&self) -> Duration {
        self.whole.saturating_sub(self.spent)
    }

    /// How much has passed until the last look, also beyond the whole.
    pub(crate) fn spent(&self) -> Duration {
        self.spent
    }

    /// The longest time without a look of which nothing is lost, unless something comes up.
    pub(crate) fn nap(&self) -> Duration {
        self.step() / 2
    }

    /// The one who waits cannot look for so long: if it takes as long, all of it counts.
    pub(crate) fn rest(&mut self, time: Duration) {
        self.resting = time;
    }

    fn step(&self) -> Duration {
        (self.whole / PART).clamp(STEPS.0, STEPS.1)
    }

    fn look_at(&mut self, now: Instant) {
        let step = self.step() + std::mem::take(&mut self.resting);
        self.spent += now.saturating_duration_since(self.looked).min(step);
        self.looked = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_takes_little_of_it() {
        let mut patience = Patience::new(Duration::from_millis(640));
        let mut now = patience.looked;
        let mut pass = |patience: &mut Patience, ms| {
            now += Duration::from_millis(ms);
            patience.look_at(now);
            patience.left().as_millis()
        };
        assert_eq!(patience.nap(), Duration::from_millis(10));
        assert_eq!(pass(&mut patience, 10), 630);
        // An hour is a step, like any other.
        assert_eq!(pass(&mut patience, 3_600_000), 610);
        let looks = (1..).find(|_| pass(&mut patience, 10) == 0);
        assert_eq!(looks, Some(61));
        patience.rest(Duration::from_millis(100));
        assert_eq!(pass(&mut patience, 90), 0);
        assert_eq!(patience.spent(), Duration::from_millis(730));
    }

    #[test]
    fn times_without_end_pass_too() {
        let mut patience = Patience::new(Duration::MAX);
        patience.look_at(patience.looked + Duration::from_secs(1 << 30));
        assert_eq!(patience.spent(), STEPS.1);
        assert!(!patience.is_over());
        assert!(Patience::new(Duration::ZERO).is_over());
    }
}
