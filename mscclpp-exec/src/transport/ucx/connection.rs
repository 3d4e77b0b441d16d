//! A connection whose messages UCX carries; no call waits.
//!
//! UCX does not order active messages, so they are numbered, and received in the order of their numbers.
//!
//! - A message of up to [`MAX_EAGER_BYTES`] is sent at once, and kept by the receiver until it is asked for. The receiver reports
//!   what it has consumed, so that it never keeps more than [`WINDOW`] messages.
//! - Of a longer one, only the frame is sent. The receiver asks for the bytes when the launch has begun and there is a buffer,
//!   and UCX moves them from the source to the buffer.
//!
//! What UCX still has to do for a message when its source can be reused, or when its bytes have arrived, is done by
//! [`Progress`](super::progress::Progress), also while the rank is in no launch.

use std::collections::VecDeque;

use mscclpp_bootstrap::{BodyHasher, Digest, StreamKeys, digest};

use super::control::{Control, Record};
use super::quiet::Quiet;
use super::worker::{
    Content, Descriptor, Endpoint, HEADER_BYTES, MAX_EAGER_BYTES, Outgoing, PREFIX_BYTES, Token, Transfer, WINDOW,
    Worker,
};
use crate::transport::frame::{FRAME_BYTES, Frame, Malformed};
use crate::transport::{Buffer, Destination, Lost, Received};

/// Maximum number of bytes of sources that UCX has.
const MAX_SENT_BYTES: usize = 4 << 20;

/// Maximum number of messages that are received at once.
const MAX_RECEIVES: usize = 4;

/// Number of calls after which the stream is read, which takes a call of the system.
const CONTROL_INTERVAL: u32 = 32;

/// A connection.
pub(super) struct Connection<B: Buffer + 'static> {
    control: Control,
    calls: u32,
    endpoint: Endpoint,
    keys: Option<StreamKeys>,
    /// Identifies the connection in messages to the peer, and from it.
    tokens: [Token; 2],
    /// Messages to send, and the number of their bytes.
    queue: VecDeque<(Frame, Option<B>)>,
    queued: usize,
    /// Messages that UCX has, and the number of bytes of their sources.
    sending: Vec<(Transfer<Outgoing<B>>, usize)>,
    sending_bytes: usize,
    /// Number of messages that were sent, and that the peer has consumed.
    sent: u64,
    credited: u64,
    /// Messages whose frame was read, in order.
    incoming: VecDeque<Incoming<B>>,
    /// Number of messages whose frame was read, that were consumed, and that the peer knows to be.
    opened: u64,
    consumed: u64,
    reported: u64,
    hasher: BodyHasher,
    /// The last message, and the number of messages before it.
    last: Option<(u64, Frame)>,
    malformed: Option<Malformed>,
    /// Why nothing can be sent any more.
    failed: Option<String>,
    /// Why UCX has lost the peer.
    broken: Option<String>,
    /// Time since the peer was lost or has closed the stream, and nothing has arrived.
    quiet: Quiet,
    /// Whether nothing more arrives, and whether this side has ended.
    is_over: bool,
    is_closed: bool,
}

/// A message whose frame was read.
struct Incoming<B: Send + 'static> {
    frame: Frame,
    /// Digest of its bytes that was authenticated.
    digest: Option<Digest>,
    bytes: Bytes<B>,
}

/// Bytes of a message.
enum Bytes<B: Send + 'static> {
    Eager(Vec<u8>),
    Offered(Option<Descriptor>),
    Receiving(Transfer<B>),
    Ready(Option<B>),
}

impl<B: Buffer + 'static> Connection<B> {
    /// `tokens`: those in messages to the peer, and from it. The stream has only records of this module from now on.
    pub(super) fn new(control: Control, endpoint: Endpoint, keys: Option<StreamKeys>, tokens: [Token; 2]) -> Self {
        Self {
            control,
            calls: 0,
            endpoint,
            keys,
            tokens,
            queue: VecDeque::new(),
            queued: 0,
            sending: Vec::new(),
            sending_bytes: 0,
            sent: 0,
            credited: 0,
            incoming: VecDeque::new(),
            opened: 0,
            consumed: 0,
            reported: 0,
            hasher: BodyHasher::default(),
            last: None,
            malformed: None,
            failed: None,
            broken: None,
            quiet: Quiet::default(),
            is_over: false,
            is_closed: false,
        }
    }

    /// Appends a message to those that wait to be sent.
    pub(super) fn push(&mut self, frame: Frame, source: Option<B>) {
        if source.is_some() && self.control.is_closed() && self.failed.is_none() {
            self.failed = Some("the peer has closed the connection".into());
        }
        // A lost peer may miss signals: it has not waited for them.
        if self.failed.is_none() && !self.control.is_closed() && !self.is_closed && self.broken.is_none() {
            self.queued += HEADER_BYTES + frame.len() as usize;
            self.queue.push_back((frame, source));
        }
    }

    /// Returns the number of bytes that wait to be sent.
    pub(super) fn queued(&self) -> usize {
        self.queued + self.sending_bytes
    }

    pub(super) fn is_flushed(&self) -> bool {
        self.queue.is_empty() && self.sending.is_empty()
    }

    /// Sends as much as possible, and returns whether that was anything.
    pub(super) fn send(&mut self, worker: &Worker) -> bool {
        self.watch(worker);
        let mut progress = self.complete_sends(worker);
        self.control.write();
        while self.sent - self.credited < WINDOW
            && self.sending_bytes < MAX_SENT_BYTES
            && let Some((frame, source)) = self.queue.pop_front()
        {
            self.send_message(worker, &frame, source);
            progress = true;
        }
        progress | self.complete_sends(worker)
    }

    fn send_message(&mut self, worker: &Worker, frame: &Frame, source: Option<B>) {
        let len = frame.len() as usize;
        self.queued -= HEADER_BYTES + len;
        self.sent += 1;
        let bytes = frame.encode();
        let mut header = [0; HEADER_BYTES];
        let (prefix, to) = header.split_at_mut(HEADER_BYTES - PREFIX_BYTES);
        prefix.copy_from_slice(&[&self.tokens[0][..], &self.sent.to_le_bytes()].concat());
        to[..FRAME_BYTES].copy_from_slice(&bytes);
        if let Some(keys) = &mut self.keys {
            let source = source.as_ref().map_or(&[][..], |source| &source.as_ref()[..len]);
            to[FRAME_BYTES..].copy_from_slice(&keys.send.seal(&bytes, &digest(source)));
        }
        let transfer = worker.send(&self.endpoint, header, source, (len, len <= MAX_EAGER_BYTES));
        self.sending_bytes += len;
        self.sending.push((transfer, len));
    }

    /// Frees the sources that UCX does not need any more, and returns whether there were any.
    fn complete_sends(&mut self, worker: &Worker) -> bool {
        let before = self.sending.len();
        let (broken, bytes) = (&mut self.broken, &mut self.sending_bytes);
        self.sending.retain_mut(|(transfer, len)| match worker.poll(transfer) {
            None => true,
            Some(result) => {
                *bytes -= *len;
                if let Err(reason) = result {
                    broken.get_or_insert(reason);
                }
                false
            }
        });
        self.sending.len() < before
    }

    /// Reads the stream from time to time, and notices a lost peer.
    fn watch(&mut self, worker: &Worker) {
        if let Some(reason) = worker.error(&self.endpoint) {
            self.broken.get_or_insert(reason);
        }
        self.calls = self.calls.wrapping_add(1);
        let waits = !self.queue.is_empty() || self.broken.is_some();
        if !self.is_over && (waits || self.calls % CONTROL_INTERVAL == 1) {
            self.read_control();
        }
        if self.broken.is_none() && !self.control.is_closed() {
            return;
        }
        if self.control.is_closed() && self.queue.iter().any(|(_, source)| source.is_some()) {
            self.failed.get_or_insert("the peer has closed the connection".into());
        }
        self.discard();
        if self.broken.is_some() {
            // The peer may not notice, and would wait for what was not sent.
            self.control.shutdown();
        }
        // Messages of the peer may arrive through an endpoint that is not broken.
        if self.broken.is_some() || self.is_over {
            worker.close(&mut self.endpoint);
        }
        if self.is_over {
            // The worker has what UCX does not return.
            self.sending.clear();
            self.sending_bytes = 0;
        }
        let first = self.incoming.front().map(|first| &first.bytes);
        let has_arrived = matches!(first, Some(Bytes::Eager(_) | Bytes::Ready(_)));
        let is_part = matches!(first, Some(Bytes::Receiving(transfer)) if transfer.is_pending());
        // UCX does not order messages, and the stream may be faster than it.
        let is_announced = self.last.as_ref().is_some_and(|(count, _)| *count > self.opened);
        if !has_arrived && self.quiet.is_over(is_part || is_announced, worker.num_events()) {
            self.is_over = true;
            if let Some(reason) = self.broken.take_if(|_| !self.control.is_closed()) {
                self.failed.get_or_insert(format!("UCX: {reason}"));
            }
        }
    }

    /// Discards the messages that wait to be sent.
    fn discard(&mut self) {
        self.queue.clear();
        self.queued = 0;
    }

    fn read_control(&mut self) {
        loop {
            match self.control.receive() {
                Ok(Some(Record::Consumed(count))) if (self.credited..=self.sent).contains(&count) => {
                    self.credited = count
                }
                Ok(Some(Record::Last(count, frame))) if self.last.is_none() => match Frame::decode(&frame, 0) {
                    Ok(frame) => self.last = Some((count, frame)),
                    Err(malformed) => return self.reject(malformed),
                },
                Ok(None) => return,
                Ok(Some(_)) => return self.reject(Malformed::Frame([0; 7])),
                Err(malformed) => return self.reject(malformed),
            }
        }
    }

    fn reject(&mut self, malformed: Malformed) {
        self.malformed.get_or_insert(malformed);
    }

    /// Returns the next message, if it is of a launch up to `launch` and complete.
    ///
    /// # Errors
    /// It fails authentication, its frame is invalid, or states more than `most` bytes. No message follows.
    pub(super) fn receive(
        &mut self,
        worker: &Worker,
        (launch, most): (u64, u64),
        destination: &mut dyn Destination<B>,
    ) -> Result<Received<B>, Malformed> {
        self.watch(worker);
        if let Some(malformed) = self.malformed {
            return Err(malformed);
        }
        self.receive_next(worker, (launch, most), destination)
            .inspect_err(|malformed| self.malformed = Some(*malformed))
    }

    fn receive_next(
        &mut self,
        worker: &Worker,
        (launch, most): (u64, u64),
        destination: &mut dyn Destination<B>,
    ) -> Result<Received<B>, Malformed> {
        while self.incoming.len() < MAX_RECEIVES && self.open_next(worker, most)? {}
        let started = self.start_receives(worker, launch, destination);
        let part = if started { Received::Part } else { Received::Nothing };
        let Some(first) = self.incoming.front_mut().filter(|first| first.frame.launch.launch <= launch) else {
            return Ok(self.receive_last(launch));
        };
        if let Bytes::Receiving(transfer) = &mut first.bytes {
            match worker.poll(transfer) {
                None => return Ok(part),
                Some(Err(reason)) => {
                    self.broken.get_or_insert(reason);
                    return Ok(Received::Nothing);
                }
                Some(Ok(())) => {}
            }
        } else if !matches!(first.bytes, Bytes::Ready(_)) {
            return Ok(part);
        }
        let Some(Incoming { frame, digest, bytes }) = self.incoming.pop_front() else { return Ok(Received::Nothing) };
        self.consumed += 1;
        let buffer = match bytes {
            Bytes::Receiving(transfer) => transfer.into_memory(),
            Bytes::Ready(buffer) => buffer,
            Bytes::Eager(_) | Bytes::Offered(_) => None,
        };
        if let Some(digest) = digest {
            self.hasher.update(buffer.as_ref().map_or(&[][..], |buffer| &buffer.as_ref()[..frame.len() as usize]));
            if self.hasher.finish() != digest {
                return Err(Malformed::Unauthenticated { number: self.consumed });
            }
        }
        if self.consumed - self.reported >= WINDOW / 4 {
            self.reported = self.consumed;
            self.control.send(&Record::Consumed(self.consumed));
        }
        Ok(Received::Message(frame, buffer))
    }

    /// Reads the frame of the next message, if it has arrived, and returns whether it has.
    fn open_next(&mut self, worker: &Worker, most: u64) -> Result<bool, Malformed> {
        let number = self.opened + 1;
        if worker.is_invalid(&self.tokens[1]) {
            return Err(self.keys.as_ref().map_or(Malformed::Frame([0; 7]), |_| Malformed::Unauthenticated { number }));
        }
        let Some(arrived) = worker.take(&self.tokens[1]) else { return Ok(false) };
        self.quiet.restart();
        self.opened = number;
        let (bytes, seal) = arrived.prefix.split_first_chunk().unwrap_or((&[0; _], &[]));
        let digest = match &mut self.keys {
            Some(StreamKeys { receive, .. }) => {
                let opened = seal.first_chunk().and_then(|seal| receive.open(bytes, seal));
                Some(opened.ok_or(Malformed::Unauthenticated { number })?)
            }
            None => None,
        };
        let frame = Frame::decode(bytes, most)?;
        let (len, bytes) = match arrived.content {
            Content::Eager(bytes) => (bytes.len(), Bytes::Eager(bytes)),
            Content::Rendezvous(descriptor, len) => (len, Bytes::Offered(Some(descriptor))),
        };
        if len as u64 != frame.len() {
            return Err(match digest {
                Some(_) => Malformed::Unauthenticated { number },
                None => Malformed::TooLong { len: len as u64, most: frame.len() },
            });
        }
        self.incoming.push_back(Incoming { frame, digest, bytes });
        Ok(true)
    }

    /// Provides messages with buffers, in their order, and returns whether there were any without.
    fn start_receives(&mut self, worker: &Worker, launch: u64, destination: &mut dyn Destination<B>) -> bool {
        let mut started = false;
        for Incoming { frame, bytes, .. } in &mut self.incoming {
            if frame.launch.launch > launch {
                break;
            }
            let len = frame.len() as usize;
            *bytes = match bytes {
                Bytes::Receiving(_) | Bytes::Ready(_) => continue,
                Bytes::Eager(_) | Bytes::Offered(_) if len == 0 => Bytes::Ready(None),
                Bytes::Eager(from) => {
                    let Some(mut buffer) = destination.buffer(len as u64) else { break };
                    buffer.as_mut()[..len].copy_from_slice(from);
                    Bytes::Ready(Some(buffer))
                }
                Bytes::Offered(descriptor) => {
                    let Some(buffer) = destination.buffer(len as u64) else { break };
                    let Some(descriptor) = descriptor.take() else { break };
                    Bytes::Receiving(worker.receive(descriptor, len, buffer))
                }
            };
            started = true;
        }
        started
    }

    /// Returns the last message, after all others.
    fn receive_last(&mut self, launch: u64) -> Received<B> {
        let is_next = |(count, frame): &mut (u64, Frame)| *count == self.consumed && frame.launch.launch <= launch;
        let Some((_, frame)) = self.last.take_if(is_next) else { return Received::Nothing };
        self.is_over = true;
        Received::Message(frame, None)
    }

    /// Returns whether the peer is lost, and how.
    pub(super) fn lost(&self) -> Option<Lost> {
        match &self.failed {
            Some(reason) => Some(Lost::Failed(reason.clone())),
            None => self.is_over.then_some(Lost::Closed),
        }
    }

    /// Sends a last message, unless part of an earlier one remains. The peer reads what is on its way, and then the end of the
    /// stream.
    pub(super) fn close(&mut self, worker: &Worker, last: &Frame) {
        self.send(worker);
        if self.sending.iter().all(|(_, len)| *len == 0) {
            // What UCX has not sent yet is sent before the engine ends.
            self.control.send(&Record::Last(self.sent, last.encode()));
            self.queue.clear();
            self.queued = 0;
        } else {
            // The worker has the sources that UCX does not return at once.
            self.discard();
            worker.close(&mut self.endpoint);
            self.sending.clear();
            self.sending_bytes = 0;
        }
        self.is_closed = true;
        self.control.shutdown();
    }

    /// Ends the stream, and starts to send what is on its way, unless the peer is lost.
    pub(super) fn start_end(&mut self, worker: &Worker) -> Option<Transfer<()>> {
        self.send(worker);
        self.control.shutdown();
        let is_lost = self.broken.is_some() || self.failed.is_some() || self.is_over;
        (self.sent > 0 && !is_lost).then(|| worker.flush(&self.endpoint))
    }

    /// Ends the connection.
    pub(super) fn end(&mut self, worker: &Worker) {
        for Incoming { bytes, .. } in self.incoming.drain(..) {
            if let Bytes::Offered(Some(descriptor)) = bytes {
                worker.release(descriptor);
            }
        }
        worker.forget(&self.tokens[1]);
        worker.close(&mut self.endpoint);
    }
}

#[cfg(test)]
impl<B: Buffer + 'static> Connection<B> {
    pub(super) fn num_sent(&self) -> u64 {
        self.sent
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
