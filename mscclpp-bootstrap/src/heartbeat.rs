//! Heartbeats: when to send them, and when a peer is unresponsive.

use std::time::{Duration, Instant};

/// Heartbeats that are sent per heartbeat timeout.
const HEARTBEATS_PER_TIMEOUT: u32 = 4;

/// Heartbeat clock of one connection thread.
#[derive(Debug)]
pub(super) struct Heartbeat {
    heartbeat_timeout: Option<Duration>,
    /// When this thread last continued after it could not run.
    resumed: Instant,
    last: Instant,
}

impl Heartbeat {
    /// Creates the clock for a time without frames after which a peer counts as dead; `None` disables the check.
    pub(super) fn new(heartbeat_timeout: Option<Duration>) -> Self {
        let now = Instant::now();
        Self { heartbeat_timeout, resumed: now, last: now }
    }

    /// Records that the thread runs. If it was suspended, its peers get their full time again.
    pub(super) fn record_wakeup(&mut self, now: Instant) {
        // The thread wakes at least as often as it sends heartbeats.
        if self.heartbeat_timeout.is_some_and(|heartbeat_timeout| now > self.last + heartbeat_timeout / 2) {
            self.resumed = now;
        }
        self.last = now;
    }

    /// Returns whether a heartbeat is due.
    pub(super) fn is_send_due(&self, last_queued: Instant, now: Instant) -> bool {
        self.heartbeat_timeout
            .is_some_and(|heartbeat_timeout| now >= last_queued + heartbeat_timeout / HEARTBEATS_PER_TIMEOUT)
    }

    /// Returns the time since the last frame from the peer, if it exceeds the timeout.
    pub(super) fn silent_for(&self, last_received: Instant, now: Instant) -> Option<Duration> {
        let heartbeat_timeout = self.heartbeat_timeout?;
        let silent = now.saturating_duration_since(last_received.max(self.resumed));
        (silent >= heartbeat_timeout).then_some(silent)
    }

    /// Returns when the next heartbeat or timeout is due; `last_received` is `None` for a peer that may be silent.
    pub(super) fn next(&self, last_queued: Instant, last_received: Option<Instant>) -> Option<Instant> {
        let heartbeat_timeout = self.heartbeat_timeout?;
        let missed = last_received.map(|last_received| last_received.max(self.resumed) + heartbeat_timeout);
        Some(last_queued + heartbeat_timeout / HEARTBEATS_PER_TIMEOUT).into_iter().chain(missed).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_counts_from_last_frame_or_own_wakeup() {
        let heartbeat_timeout = Duration::from_secs(4);
        let mut heartbeat = Heartbeat::new(Some(heartbeat_timeout));
        let start = heartbeat.resumed;
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        assert_eq!(heartbeat.silent_for(at(0), at(3)), None);
        assert_eq!(heartbeat.silent_for(at(0), at(5)), Some(Duration::from_secs(5)));
        assert!(heartbeat.is_send_due(at(0), at(1)) && !heartbeat.is_send_due(at(1), at(1)));
        // This thread was suspended for ten seconds, which does not count as silence of the peer.
        heartbeat.record_wakeup(at(10));
        assert_eq!(heartbeat.silent_for(at(0), at(11)), None);
        assert_eq!(heartbeat.silent_for(at(0), at(14)), Some(heartbeat_timeout));
    }

    #[test]
    fn no_peer_is_unresponsive_without_timeout() {
        let heartbeat = Heartbeat::new(None);
        let late = heartbeat.resumed + Duration::from_secs(1 << 20);
        assert_eq!(
            (heartbeat.silent_for(heartbeat.resumed, late), heartbeat.is_send_due(heartbeat.resumed, late)),
            (None, false)
        );
        assert_eq!(heartbeat.next(late, Some(late)), None);
    }
}
