//! A connection whose messages UCX carries; no call waits.
//!
//! UCX does not order active messages, so they are numbered, and received in the order of their numbers.
//!
//! - Messages of up to [`MAX_EAGER_BYTES`] that wait together are sent at once as one active message, a *batch*, because each takes a call
//!   of the system where UCX uses sockets. The receiver keeps it until its messages are asked for, and reports what it has consumed,
//!   so that it never keeps more than [`WINDOW`] active messages.
//! - Of a longer message, only the frame is sent, an *offer*, with the signals that wait after it. The receiver asks for the bytes when the
//!   launch has begun and there is memory for them, and UCX moves them there from the source. Both may be regions: then nothing else
//!   copies the bytes.
//!
//! What UCX still has to do for a message when its source can be reused, or when its bytes have arrived, is done by
//! [`Progress`](super::progress::Progress), also while the rank is in no launch.

mod end;
mod receive;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use mscclpp_bootstrap::{BodyHasher, SEAL_BYTES, StreamKeys, digest};

use self::receive::Incoming;
use super::control::Control;
use super::inbox::{MAX_BATCH_BYTES, MAX_EAGER_BYTES, MAX_SIGNALS_BYTES, PREFIX_BYTES, Token, WINDOW};
use super::quiet::Quiet;
use super::transfer::{Content, Memory, Outgoing, Transfer};
use super::worker::{Endpoint, Worker};
use crate::Buffer;
use crate::frame::{FRAME_BYTES, Frame, Malformed};

/// Maximum number of bytes of buffers that UCX has as sources.
const MAX_SENT_BYTES: usize = 4 << 20;

/// A connection.
pub(super) struct Connection<B: Buffer + 'static> {
    control: Control,
    /// When it was last read, and the number of calls that have asked.
    control_read: Option<Instant>,
    calls: u32,
    endpoint: Endpoint,
    keys: Option<StreamKeys>,
    /// Identifies the connection in messages to the peer, and from it.
    tokens: [Token; 2],
    /// Messages to send, and the number of bytes that they keep.
    queue: VecDeque<(Frame, Option<Memory<B>>)>,
    queued: usize,
    /// Memory of an earlier batch, for the next one.
    spare: Vec<u8>,
    /// Active messages that UCX has, and the number of bytes of buffers in them.
    sending: Vec<Sending<B>>,
    sending_bytes: usize,
    /// Number of active messages that were sent, and that the peer has consumed.
    sent: u64,
    credited: u64,
    /// The batch of which a part was read, and where the next message begins.
    batch: Option<(Arc<Vec<u8>>, usize)>,
    /// Messages whose frame was read, in order.
    incoming: VecDeque<Incoming<B>>,
    /// Number of messages whose frame was read.
    opened: u64,
    /// Number of active messages that were taken from the worker, that were consumed, and that the peer knows to be.
    taken: u64,
    consumed: u64,
    reported: u64,
    hasher: BodyHasher,
    /// The number of all active messages of the peer, once it has stated it, and its last message, which follows them.
    ended: Option<u64>,
    last: Option<Frame>,
    malformed: Option<Malformed>,
    /// Why nothing can be sent any more.
    failed: Option<String>,
    /// Why UCX has lost the peer, and why UCX of the peer has lost this side, if it has said so.
    broken: Option<String>,
    broken_there: Option<String>,
    /// Whether the peer was told.
    has_told: bool,
    /// Time since the peer was lost or has closed the stream, and nothing has arrived.
    quiet: Quiet,
    /// Whether nothing more arrives, and whether this side has ended.
    is_over: bool,
    is_closed: bool,
}

/// An active message that UCX has.
struct Sending<B: Buffer + 'static> {
    transfer: Transfer<Outgoing<B>>,
    /// Whether it has bytes of puts, and how many of them are in buffers.
    has_bytes: bool,
    in_buffers: usize,
}

impl<B: Buffer + 'static> Sending<B> {
    fn is_region(&self) -> bool {
        self.has_bytes && self.in_buffers == 0
    }
}

impl<B: Buffer + 'static> Connection<B> {
    /// `tokens`: those in messages to the peer, and from it. The stream has only records of this module from now on.
    pub(super) fn new(control: Control, endpoint: Endpoint, keys: Option<StreamKeys>, tokens: [Token; 2]) -> Self {
        Self {
            control,
            control_read: None,
            calls: 0,
            endpoint,
            keys,
            tokens,
            queue: VecDeque::new(),
            queued: 0,
            spare: Vec::new(),
            sending: Vec::new(),
            sending_bytes: 0,
            sent: 0,
            credited: 0,
            batch: None,
            incoming: VecDeque::new(),
            opened: 0,
            taken: 0,
            consumed: 0,
            reported: 0,
            hasher: BodyHasher::default(),
            ended: None,
            last: None,
            malformed: None,
            failed: None,
            broken: None,
            broken_there: None,
            has_told: false,
            quiet: Quiet::default(),
            is_over: false,
            is_closed: false,
        }
    }

    /// Appends a message to those that wait to be sent.
    pub(super) fn push(&mut self, frame: Frame, source: Option<Memory<B>>) {
        if source.is_some() && self.control.is_closed() && self.failed.is_none() {
            self.failed = Some(self.closed());
        }
        // A lost peer may miss signals: it has not waited for them.
        if self.failed.is_none() && !self.control.is_closed() && !self.is_closed && self.broken.is_none() {
            self.queued += queued_bytes(&frame, source.as_ref());
            self.queue.push_back((frame, source));
        }
    }

    /// Returns whether a put of this length may be sent from a region. Bytes that are authenticated must not change before they are
    /// sent.
    pub(super) fn sends_regions(&self, len: u64) -> bool {
        len > MAX_EAGER_BYTES as u64 && self.keys.is_none()
    }

    /// Returns the minimum length of a put whose bytes the host does not read, in either direction: it is offered, and not authenticated.
    pub(super) fn min_device_put(&self) -> Option<u64> {
        self.keys.is_none().then_some(MAX_EAGER_BYTES as u64 + 1)
    }

    /// Returns whether regions wait to be sent, or UCX has them.
    pub(super) fn keeps_regions(&self) -> bool {
        let is_region = |source: &Option<Memory<B>>| matches!(source, Some(Memory::Region(_)));
        self.queue.iter().any(|(_, source)| is_region(source)) || self.sending.iter().any(Sending::is_region)
    }

    /// Returns the number of bytes that the connection keeps until they are sent.
    pub(super) fn queued(&self) -> usize {
        self.queued + self.sending_bytes
    }

    pub(super) fn is_flushed(&self) -> bool {
        self.queue.is_empty() && self.sending.is_empty()
    }

    /// Returns whether the peer has consumed enough for another active message.
    fn has_window(&self) -> bool {
        self.sent - self.credited < WINDOW
    }

    /// Sends as much as possible, and returns whether that was anything.
    pub(super) fn send(&mut self, worker: &Worker) -> bool {
        self.watch(worker);
        let mut progress = self.complete_sends(worker);
        self.control.write();
        while self.has_window()
            && self.sending_bytes < MAX_SENT_BYTES
            && let Some((frame, source)) = self.queue.pop_front()
        {
            match source {
                Some(source) if frame.len() > MAX_EAGER_BYTES as u64 => self.send_offer(worker, &frame, source),
                source => self.send_batch(worker, frame, source),
            }
            progress = true;
        }
        progress | self.complete_sends(worker)
    }

    /// Sends a message, and those that wait after it as far as they fit into the same batch.
    fn send_batch(&mut self, worker: &Worker, mut frame: Frame, mut source: Option<Memory<B>>) {
        let prefix_bytes = self.prefix_bytes();
        let (mut batch, mut len) = (std::mem::take(&mut self.spare), 0);
        batch.clear();
        loop {
            self.queued -= queued_bytes(&frame, source.as_ref());
            let bytes = source.as_ref().map_or(&[][..], |source| source.content(frame.len() as usize));
            let prefix = seal(&mut self.keys, &frame, bytes);
            batch.extend_from_slice(&prefix[..prefix_bytes]);
            batch.extend_from_slice(bytes);
            len += bytes.len();
            let fits = |(next, _): &&(Frame, Option<Memory<B>>)| {
                let len = next.len() as usize;
                len <= MAX_EAGER_BYTES && batch.len() + prefix_bytes + len <= MAX_BATCH_BYTES
            };
            if self.queue.front().filter(fits).is_none() {
                break;
            }
            let Some(next) = self.queue.pop_front() else { break };
            (frame, source) = next;
        }
        self.send_message(worker, &[], Content::Batch(batch), (len > 0, len));
    }

    /// Sends an offer, and the signals that wait after it as far as its header has room.
    fn send_offer(&mut self, worker: &Worker, frame: &Frame, source: Memory<B>) {
        let len = frame.len() as usize;
        self.queued -= queued_bytes(frame, Some(&source));
        let in_buffers = if matches!(source, Memory::Buffer(_)) { len } else { 0 };
        let (mut frames, mut count) = ([0; PREFIX_BYTES + MAX_SIGNALS_BYTES], PREFIX_BYTES);
        frames[..PREFIX_BYTES].copy_from_slice(&seal(&mut self.keys, frame, source.content(len)));
        let prefix_bytes = self.prefix_bytes();
        while count + prefix_bytes <= frames.len()
            && let Some((signal, None)) = self.queue.front().filter(|(frame, _)| frame.len() == 0)
        {
            self.queued -= queued_bytes::<B>(signal, None);
            frames[count..count + prefix_bytes].copy_from_slice(&seal(&mut self.keys, signal, &[])[..prefix_bytes]);
            count += prefix_bytes;
            self.queue.pop_front();
        }
        self.send_message(worker, &frames[..count], Content::Offer(source, len), (true, in_buffers));
    }

    /// `frames`: those of an offer; `has_bytes`, `in_buffers`: as of [`Sending`].
    fn send_message(
        &mut self,
        worker: &Worker,
        frames: &[u8],
        content: Content<B>,
        (has_bytes, in_buffers): (bool, usize),
    ) {
        self.sent += 1;
        let header = [&self.tokens[0][..], &self.sent.to_le_bytes(), frames].concat();
        let transfer = worker.send(&self.endpoint, &header, content);
        self.sending_bytes += in_buffers;
        self.sending.push(Sending { transfer, has_bytes, in_buffers });
    }

    /// Returns the number of bytes before those of a message in a batch.
    fn prefix_bytes(&self) -> usize {
        FRAME_BYTES + if self.keys.is_some() { SEAL_BYTES } else { 0 }
    }

    /// Frees the sources that UCX does not need any more, and returns whether there were any.
    fn complete_sends(&mut self, worker: &Worker) -> bool {
        let before = self.sending.len();
        let mut at = 0;
        while let Some(sending) = self.sending.get_mut(at) {
            let Some(result) = worker.poll(&mut sending.transfer) else {
                at += 1;
                continue;
            };
            let sending = self.sending.swap_remove(at);
            self.sending_bytes -= sending.in_buffers;
            if let Err(reason) = result {
                self.broken.get_or_insert(reason);
            }
            if let Some(Outgoing { content: Content::Batch(batch), .. }) = sending.transfer.into_memory() {
                self.spare = batch;
            }
        }
        self.sending.len() < before
    }
}

/// Returns the number of bytes that a message keeps until it is sent.
fn queued_bytes<B: Buffer>(frame: &Frame, source: Option<&Memory<B>>) -> usize {
    PREFIX_BYTES + if matches!(source, Some(Memory::Buffer(_))) { frame.len() as usize } else { 0 }
}

/// Returns a frame and its seal, which is zero without keys.
fn seal(keys: &mut Option<StreamKeys>, frame: &Frame, bytes: &[u8]) -> [u8; PREFIX_BYTES] {
    let (frame, mut prefix) = (frame.encode(), [0; PREFIX_BYTES]);
    prefix[..FRAME_BYTES].copy_from_slice(&frame);
    if let Some(keys) = keys {
        prefix[FRAME_BYTES..].copy_from_slice(&keys.send.seal(&frame, &digest(bytes)));
    }
    prefix
}

#[cfg(test)]
impl<B: Buffer + 'static> Connection<B> {
    pub(super) fn num_sent(&self) -> u64 {
        self.sent
    }

    /// Behaves as if UCX had lost the peer.
    pub(super) fn break_off(&mut self, reason: String) {
        self.broken = Some(reason);
    }

    /// Ends the stream after this number of active messages.
    pub(super) fn end_stream(&mut self, count: u64) {
        self.control.send(&super::control::Record::End(count, None));
        self.control.shutdown();
    }

    pub(super) fn keys_mut(&mut self) -> Option<&mut StreamKeys> {
        self.keys.as_mut()
    }

    /// Returns the token in messages to the peer.
    pub(super) fn token(&self) -> Token {
        self.tokens[0]
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }
}
