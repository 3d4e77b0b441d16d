//! Signs of life: when to give them, and when they are missed.

use std::time::{Duration, Instant};

/// How often a sign of life is given, in parts of the time after which it is missed.
const BEATS: u32 = 4;

/// The clock of one connection thread.
#[derive(Debug)]
pub(super) struct Heartbeat {
    heartbeat_timeout: Option<Duration>,
    /// Not before then was this thread able to listen.
    awake: Instant,
    last: Instant,
}

impl Heartbeat {
    /// For a time after which silence is death; `None` is never.
    pub(super) fn new(heartbeat_timeout: Option<Duration>) -> Self {
        let now = Instant::now();
        Self { heartbeat_timeout, awake: now, last: now }
    }

    /// The thread goes on. If it was stopped itself, the others get their time again.
    pub(super) fn woke(&mut self, now: Instant) {
        // It wakes at least as often as it gives signs of life.
        if self.heartbeat_timeout.is_some_and(|heartbeat_timeout| now > self.last + heartbeat_timeout / 2) {
            self.awake = now;
        }
        self.last = now;
    }

    /// Whether it is time for a sign of life.
    pub(super) fn is_send_due(&self, spoke: Instant, now: Instant) -> bool {
        self.heartbeat_timeout.is_some_and(|heartbeat_timeout| now >= spoke + heartbeat_timeout / BEATS)
    }

    /// How long the other end has been silent, if that is too long.
    pub(super) fn silence(&self, heard: Instant, now: Instant) -> Option<Duration> {
        let heartbeat_timeout = self.heartbeat_timeout?;
        let silent = now.saturating_duration_since(heard.max(self.awake));
        (silent >= heartbeat_timeout).then_some(silent)
    }

    /// When one of both comes next; `heard` is `None` for who may be silent.
    pub(super) fn next(&self, spoke: Instant, heard: Option<Instant>) -> Option<Instant> {
        let heartbeat_timeout = self.heartbeat_timeout?;
        let missed = heard.map(|heard| heard.max(self.awake) + heartbeat_timeout);
        Some(spoke + heartbeat_timeout / BEATS).into_iter().chain(missed).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_counts_from_the_last_word_or_from_our_own_waking() {
        let heartbeat_timeout = Duration::from_secs(4);
        let mut heartbeat = Heartbeat::new(Some(heartbeat_timeout));
        let start = heartbeat.awake;
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        assert_eq!(heartbeat.silence(at(0), at(3)), None);
        assert_eq!(heartbeat.silence(at(0), at(5)), Some(Duration::from_secs(5)));
        assert!(heartbeat.is_send_due(at(0), at(1)) && !heartbeat.is_send_due(at(1), at(1)));
        // Stopped for ten seconds: nobody else was silent because of that.
        heartbeat.woke(at(10));
        assert_eq!(heartbeat.silence(at(0), at(11)), None);
        assert_eq!(heartbeat.silence(at(0), at(14)), Some(heartbeat_timeout));
    }

    #[test]
    fn without_a_limit_nobody_is_ever_silent() {
        let heartbeat = Heartbeat::new(None);
        let late = heartbeat.awake + Duration::from_secs(1 << 20);
        assert_eq!(
            (heartbeat.silence(heartbeat.awake, late), heartbeat.is_send_due(heartbeat.awake, late)),
            (None, false)
        );
        assert_eq!(heartbeat.next(late, Some(late)), None);
    }
}
