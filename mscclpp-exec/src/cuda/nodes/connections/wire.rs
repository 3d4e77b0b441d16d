//! A connection to a rank, and its pending messages.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::frame::Frame;
use crate::cuda::nodes::staging::{Staging, StagingBuffer};
use crate::process::Connection;
use mscclpp_bootstrap::ActiveTimeout;

/// Grace period for the cause to arrive after a rank aborted or was lost.
const CAUSE_GRACE_PERIOD: Duration = Duration::from_millis(200);

/// Maximum bytes that are sent together with their header.
const MAX_INLINE_BYTES: usize = 1 << 14;

/// A connection and its staging buffers.
pub(super) struct NodeConnection {
    pub(super) peer: u32,
    pub(super) connection: Option<Connection<Frame>>,
    pub(super) staging: Arc<Staging>,
    pub(super) outgoing: VecDeque<Outgoing>,
    pub(super) incoming: Option<Incoming>,
    /// The last launch whose end the rank has announced.
    pub(super) ended: u64,
    /// Whether the rank has left in order.
    pub(super) has_left: bool,
    /// That the rank has aborted or is lost, and the time limit for receiving a better cause.
    pub(super) lost: Option<(ActiveTimeout, Lost)>,
}

/// State of a rank that sends nothing more.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Lost {
    GaveUp,
    Gone,
}

/// A message to send.
pub(super) struct Outgoing {
    pub(super) frame: Frame,
    /// Staging buffer that holds its bytes.
    pub(super) piece: Option<StagingBuffer>,
    /// The batch of the proxy after which it may be sent.
    pub(super) after: u64,
    pub(super) begun: bool,
    pub(super) sent: usize,
}

/// A message whose header has arrived.
pub(super) struct Incoming {
    pub(super) frame: Frame,
    pub(super) piece: Option<StagingBuffer>,
    pub(super) taken: usize,
}

impl NodeConnection {
    pub(super) fn lose(&mut self, how: Lost) {
        self.lost.get_or_insert_with(|| (ActiveTimeout::new(CAUSE_GRACE_PERIOD), how));
    }

    pub(super) fn is_idle(&self) -> bool {
        let sent = self.connection.as_ref().is_none_or(|connection| connection.waiting() == 0);
        self.lost.is_some() || self.outgoing.is_empty() && sent
    }

    /// Sends the messages that are ready; returns whether it made progress.
    pub(super) fn send(&mut self, done: u64) -> std::io::Result<bool> {
        let Some(connection) = self.connection.as_mut().filter(|_| self.lost.is_none()) else { return Ok(false) };
        let mut progress = connection.write()?;
        while let Some(first) = self.outgoing.front_mut().filter(|first| first.after < done) {
            let bytes = match &first.piece {
                // SAFETY: the batch with the copy into the staging buffer is complete.
                Some(piece) => unsafe { piece.bytes(first.frame.bytes) },
                None => &[],
            };
            if !first.begun {
                connection.push(bytemuck::bytes_of(&first.frame).iter().copied());
                (first.begun, progress) = (true, true);
                if bytes.len() <= MAX_INLINE_BYTES {
                    connection.push(bytes.iter().copied());
                    first.sent = bytes.len();
                }
            }
            if first.sent < bytes.len() {
                connection.write()?;
                let n = connection.send_now(&bytes[first.sent..])?;
                first.sent += n;
                progress |= n > 0;
                if first.sent < bytes.len() {
                    break;
                }
            }
            self.outgoing.pop_front();
        }
        progress |= connection.write()?;
        Ok(progress)
    }
}
