//! Signs of life: when to give them, and when they are missed.

use std::time::{Duration, Instant};

/// How often a sign of life is given, in parts of the time after which it is missed.
const BEATS: u32 = 4;

/// The clock of one connection thread.
#[derive(Debug)]
pub(super) struct Pulse {
    liveness: Option<Duration>,
    /// Not before then was this thread able to listen.
    awake: Instant,
    last: Instant,
}

impl Pulse {
    /// For a time after which silence is death; `None` is never.
    pub(super) fn new(liveness: Option<Duration>) -> Self {
        let now = Instant::now();
        Self { liveness, awake: now, last: now }
    }

    /// The thread goes on. If it was stopped itself, the others get their time again.
    pub(super) fn woke(&mut self, now: Instant) {
        // It wakes at least as often as it gives signs of life.
        if self.liveness.is_some_and(|liveness| now > self.last + liveness / 2) {
            self.awake = now;
        }
        self.last = now;
    }

    /// Whether it is time for a sign of life.
    pub(super) fn is_due(&self, spoke: Instant, now: Instant) -> bool {
        self.liveness.is_some_and(|liveness| now >= spoke + liveness / BEATS)
    }

    /// How long the other end has been silent, if that is too long.
    pub(super) fn silence(&self, heard: Instant, now: Instant) -> Option<Duration> {
        let liveness = self.liveness?;
        let silent = now.saturating_duration_since(heard.max(self.awake));
        (silent >= liveness).then_some(silent)
    }

    /// When one of both comes next; `heard` is `None` for who may be silent.
    pub(super) fn next(&self, spoke: Instant, heard: Option<Instant>) -> Option<Instant> {
        let liveness = self.liveness?;
        let missed = heard.map(|heard| heard.max(self.awake) + liveness);
        Some(spoke + liveness / BEATS).into_iter().chain(missed).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_counts_from_the_last_word_or_from_our_own_waking() {
        let liveness = Duration::from_secs(4);
        let mut pulse = Pulse::new(Some(liveness));
        let start = pulse.awake;
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        assert_eq!(pulse.silence(at(0), at(3)), None);
        assert_eq!(pulse.silence(at(0), at(5)), Some(Duration::from_secs(5)));
        assert!(pulse.is_due(at(0), at(1)) && !pulse.is_due(at(1), at(1)));
        // Stopped for ten seconds: nobody else was silent because of that.
        pulse.woke(at(10));
        assert_eq!(pulse.silence(at(0), at(11)), None);
        assert_eq!(pulse.silence(at(0), at(14)), Some(liveness));
    }

    #[test]
    fn without_a_limit_nobody_is_ever_silent() {
        let pulse = Pulse::new(None);
        let late = pulse.awake + Duration::from_secs(1 << 20);
        assert_eq!((pulse.silence(pulse.awake, late), pulse.is_due(pulse.awake, late)), (None, false));
        assert_eq!(pulse.next(late, Some(late)), None);
    }
}
