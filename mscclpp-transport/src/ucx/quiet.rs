//! How long a closed or lost peer is given to deliver what is on its way.

use std::time::Duration;

use mscclpp_bootstrap::ActiveTimeout;

/// Time without a message after which a closed peer, or one that UCX has lost, sends nothing more.
const MESSAGE_TIME: Duration = Duration::from_millis(200);

/// Time without any work of UCX after which a message does not arrive of which a part is missing, or that a peer has announced before it
/// closed. A link may be slow, and lost packets are sent again only after a while.
const PART_TIME: Duration = Duration::from_secs(5);

/// The time since a peer has closed, or UCX has lost it, in which nothing has arrived.
pub(super) struct Quiet {
    message_time: Duration,
    part_time: Duration,
    timeout: Option<ActiveTimeout>,
    is_arriving: bool,
    /// Number of times that UCX had done something.
    num_events: u64,
}

impl Default for Quiet {
    fn default() -> Self {
        Self::new(MESSAGE_TIME, PART_TIME)
    }
}

impl Quiet {
    fn new(message_time: Duration, part_time: Duration) -> Self {
        Self { message_time, part_time, timeout: None, is_arriving: false, num_events: 0 }
    }

    /// Records that a message has arrived.
    pub(super) fn restart(&mut self) {
        self.timeout = None;
    }

    /// Returns whether nothing more arrives of a peer that has closed, or that UCX has lost. `is_arriving`: whether a message is known of
    /// which bytes are missing; `num_events`: number of times that UCX has done something, for any peer: the bytes of a message arrive
    /// in parts, of which UCX reports nothing else.
    pub(super) fn is_over(&mut self, is_arriving: bool, num_events: u64) -> bool {
        let has_worked = std::mem::replace(&mut self.num_events, num_events) != num_events;
        let was_arriving = std::mem::replace(&mut self.is_arriving, is_arriving);
        if was_arriving != is_arriving || is_arriving && has_worked {
            self.timeout = None;
        }
        let time = if is_arriving { self.part_time } else { self.message_time };
        self.timeout.get_or_insert_with(|| ActiveTimeout::new(time)).is_expired()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::sleep;

    const SHORT: Duration = Duration::from_millis(5);
    const LONG: Duration = Duration::from_secs(3600);

    /// Returns whether it is over within twenty times the short time.
    fn ends(quiet: &mut Quiet, is_arriving: bool, num_events: u64) -> bool {
        (0..100).any(|_| {
            sleep(SHORT / 5);
            quiet.is_over(is_arriving, num_events)
        })
    }

    #[test]
    fn peer_without_messages_is_over_after_the_short_time() {
        let mut quiet = Quiet::new(SHORT, LONG);
        assert!(!quiet.is_over(false, 0));
        assert!((1..100).any(|num_events| {
            sleep(SHORT / 5);
            quiet.is_over(false, num_events)
        }));
        quiet.restart();
        assert!(!quiet.is_over(false, 100), "a message has arrived");
    }

    #[test]
    fn part_of_a_message_is_not_over_while_bytes_arrive() {
        let mut quiet = Quiet::new(SHORT, SHORT);
        for num_events in 0..100 {
            assert!(!quiet.is_over(true, num_events), "after {num_events} parts");
            sleep(SHORT / 5);
        }
        assert!(ends(&mut quiet, true, 99), "no more bytes");
    }

    #[test]
    fn part_of_a_message_has_the_longer_time() {
        let mut quiet = Quiet::new(SHORT, LONG);
        assert!(!quiet.is_over(false, 0));
        assert!(!ends(&mut quiet, true, 0));
        assert!(!quiet.is_over(false, 0), "the message has just arrived");
        assert!(ends(&mut quiet, false, 0));
    }
}
