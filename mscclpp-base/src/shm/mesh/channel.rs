//! Connections between ranks of one process: queues of messages, without descriptors.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use super::{Sent, lost};
use crate::error::Error;

/// Interval in which a rank that waits for a message checks whether it should end the wait.
const CHECK_INTERVAL: Duration = Duration::from_millis(5);

/// One of the two ends of a connection.
pub(super) struct ChannelEnd {
    outgoing: Sender<Sent>,
    incoming: Receiver<Sent>,
    /// Whether an end was dropped. An end that reads this exists, so it was the other one.
    closed: Arc<AtomicBool>,
}

impl ChannelEnd {
    /// Creates a connection.
    pub(super) fn pair() -> [Self; 2] {
        let ((to_one, from_two), (to_two, from_one)) = (channel(), channel());
        let closed = Arc::new(AtomicBool::new(false));
        let one = Self { outgoing: to_two, incoming: from_two, closed: Arc::clone(&closed) };
        [one, Self { outgoing: to_one, incoming: from_one, closed }]
    }

    /// Sends a message to `local_rank`, which has the other end.
    pub(super) fn send(&self, local_rank: usize, sent: &Sent) -> Result<(), Error> {
        self.outgoing.send(sent.clone()).map_err(|_| lost(local_rank, "its connection was closed".into()))
    }

    /// Receives a message from `local_rank`; see [`Mesh::receive`](super::Mesh::receive).
    pub(super) fn receive(
        &self,
        local_rank: usize,
        wait: &mut impl FnMut() -> Result<(), Error>,
    ) -> Result<Sent, Error> {
        loop {
            match self.incoming.recv_timeout(CHECK_INTERVAL) {
                Ok(sent) => return Ok(sent),
                Err(RecvTimeoutError::Timeout) => wait()?,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(lost(local_rank, "its connection was closed".into()));
                }
            }
        }
    }

    /// Returns whether the other end was dropped. All that its rank wrote before is visible then.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Acquire)
    }
}

impl Drop for ChannelEnd {
    fn drop(&mut self) {
        self.closed.store(true, Release);
    }
}
