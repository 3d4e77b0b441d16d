//! A connection to a rank, and its pending messages.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::cuda::nodes::staging::{MessageBuffer, Staging, StagingBuffer};
use mscclpp_bootstrap::{ActiveTimeout, CAUSE_GRACE_PERIOD};
use mscclpp_transport::{LaunchId, RemoteAddress, Signal, Transport};

/// A connection to a rank and its staging buffers.
pub(super) struct NodeConnection {
    pub(super) peer: u32,
    pub(super) staging: Arc<Staging>,
    /// Messages that wait for batches of the proxy, or for room.
    pub(super) outgoing: VecDeque<Outgoing>,
    /// The last launch whose end the rank has announced.
    pub(super) ended: u64,
    /// Whether the rank has left in order.
    pub(super) has_left: bool,
    /// That the rank has aborted or is lost, and the time limit for receiving a better cause.
    pub(super) lost: Option<(ActiveTimeout, LostRank)>,
}

/// State of a rank that sends nothing more.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LostRank {
    Aborted,
    Gone,
}

/// A message to send.
pub(super) struct Outgoing {
    pub(super) launch: LaunchId,
    pub(super) content: Content,
    /// The batch of the proxy after which it may be sent.
    pub(super) after: u64,
}

/// Content of a message.
pub(super) enum Content {
    /// Destination, number of bytes, and the staging buffer that holds them, or none for zeros.
    Put(RemoteAddress, u64, Option<StagingBuffer>),
    Signal(Signal),
}

impl NodeConnection {
    pub(super) fn lose(&mut self, how: LostRank) {
        self.lost.get_or_insert_with(|| (ActiveTimeout::new(CAUSE_GRACE_PERIOD), how));
    }

    pub(super) fn is_idle(&self, transport: &dyn Transport<MessageBuffer>) -> bool {
        self.lost.is_some() || self.outgoing.is_empty() && transport.is_flushed(self.peer)
    }

    /// Passes the messages that are ready to the transport, as long as it has room; returns whether there were any.
    pub(super) fn send(&mut self, transport: &mut dyn Transport<MessageBuffer>, done: u64) -> bool {
        let mut progress = false;
        while self.lost.is_none() && transport.has_room(self.peer) {
            if self.outgoing.front().is_none_or(|first| first.after >= done) {
                break;
            }
            let Some(Outgoing { launch, content, .. }) = self.outgoing.pop_front() else { break };
            match content {
                Content::Put(to, len, piece) => {
                    // SAFETY: the batch with the copy into the staging buffer is complete.
                    let source = piece.map(|piece| unsafe { piece.into_message() });
                    transport.put(self.peer, launch, to, len, source);
                }
                Content::Signal(signal) => transport.signal(self.peer, launch, signal),
            }
            progress = true;
        }
        progress
    }
}
