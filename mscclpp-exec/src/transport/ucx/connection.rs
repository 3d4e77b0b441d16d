//! A connection whose messages UCX carries; no call waits.
//!
//! UCX does not order active messages, so they are numbered, and received in the order of their numbers.
//!
//! - Messages of up to [`MAX_EAGER_BYTES`] that wait together are sent at once as one active message, a *batch*, because each takes a call
//!   of the system where UCX uses sockets. The receiver keeps it until its messages are asked for, and reports what it has consumed,
//!   so that it never keeps more than [`WINDOW`] active messages.
//! - Of a longer message, only the frame is sent, an *offer*. The receiver asks for the bytes when the launch has begun and there is a
//!   buffer, and UCX moves them from the source to the buffer.
//!
//! What UCX still has to do for a message when its source can be reused, or when its bytes have arrived, is done by
//! [`Progress`](super::progress::Progress), also while the rank is in no launch.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use mscclpp_bootstrap::{BodyHasher, Digest, SEAL_BYTES, StreamKeys, digest};

use super::control::{Control, Record};
use super::quiet::Quiet;
use super::worker::{
    Arrived, Descriptor, Endpoint, HEADER_BYTES, MAX_BATCH_BYTES, MAX_EAGER_BYTES, OFFER_BYTES, Outgoing, PREFIX_BYTES,
    Source, Token, Transfer, WINDOW, Worker,
};
use crate::transport::frame::{FRAME_BYTES, Frame, Malformed};
use crate::transport::{Buffer, Destination, Lost, Received};

/// Maximum number of bytes of sources that UCX has.
const MAX_SENT_BYTES: usize = 4 << 20;

/// Maximum number of messages whose frame is read before the first of them is complete, so that bytes of several are received at once.
const MAX_INCOMING: usize = 8;

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
    /// Active messages that UCX has, and the number of bytes of puts in them.
    sending: Vec<(Transfer<Outgoing<B>>, usize)>,
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
    /// The last message, and the number of active messages before it.
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
    /// Its number, from 1 on.
    number: u64,
    /// Digest of its bytes that was authenticated.
    digest: Option<Digest>,
    bytes: Bytes<B>,
    /// Whether it is the last one of its active message.
    is_last: bool,
}

/// Bytes of a message.
enum Bytes<B: Send + 'static> {
    InBatch(Arc<Vec<u8>>, Range<usize>),
    Offered(Option<Descriptor>),
    Receiving(Transfer<B>),
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
            batch: None,
            incoming: VecDeque::new(),
            opened: 0,
            taken: 0,
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
            self.queued += PREFIX_BYTES + frame.len() as usize;
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
            match source {
                Some(source) if frame.len() > MAX_EAGER_BYTES as u64 => self.send_offer(worker, &frame, source),
                source => self.send_batch(worker, frame, source),
            }
            progress = true;
        }
        progress | self.complete_sends(worker)
    }

    /// Sends a message, and those that wait after it as far as they fit into the same batch.
    fn send_batch(&mut self, worker: &Worker, mut frame: Frame, mut source: Option<B>) {
        let prefix_bytes = self.prefix_bytes();
        let (mut batch, mut len) = (Vec::with_capacity(MAX_BATCH_BYTES), 0);
        loop {
            let bytes = source.as_ref().map_or(&[][..], |source| &source.as_ref()[..frame.len() as usize]);
            let prefix = seal(&mut self.keys, &frame, bytes);
            batch.extend_from_slice(&prefix[..prefix_bytes]);
            batch.extend_from_slice(bytes);
            self.queued -= PREFIX_BYTES + bytes.len();
            len += bytes.len();
            let fits = |(next, _): &&(Frame, Option<B>)| {
                let len = next.len() as usize;
                len <= MAX_EAGER_BYTES && batch.len() + prefix_bytes + len <= MAX_BATCH_BYTES
            };
            if self.queue.front().filter(fits).is_none() {
                break;
            }
            let Some(next) = self.queue.pop_front() else { break };
            (frame, source) = next;
        }
        self.send_message(worker, [0; PREFIX_BYTES], Source::Batch(batch), len);
    }

    fn send_offer(&mut self, worker: &Worker, frame: &Frame, source: B) {
        let len = frame.len() as usize;
        self.queued -= PREFIX_BYTES + len;
        let prefix = seal(&mut self.keys, frame, &source.as_ref()[..len]);
        self.send_message(worker, prefix, Source::Offer(source, len), len);
    }

    /// `len`: number of bytes of puts.
    fn send_message(&mut self, worker: &Worker, prefix: [u8; PREFIX_BYTES], source: Source<B>, len: usize) {
        self.sent += 1;
        let mut header = [0; OFFER_BYTES];
        header[..HEADER_BYTES].copy_from_slice(&[&self.tokens[0][..], &self.sent.to_le_bytes()].concat());
        header[HEADER_BYTES..].copy_from_slice(&prefix);
        let transfer = worker.send(&self.endpoint, header, source);
        self.sending_bytes += len;
        self.sending.push((transfer, len));
    }

    /// Returns the number of bytes before those of a message in a batch.
    fn prefix_bytes(&self) -> usize {
        FRAME_BYTES + if self.keys.is_some() { SEAL_BYTES } else { 0 }
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
        let has_arrived = matches!(first, Some(Bytes::InBatch(..))) || self.batch.is_some();
        let is_part = matches!(first, Some(Bytes::Receiving(transfer)) if transfer.is_pending());
        // UCX does not order messages, and the stream may be faster than it.
        let is_announced = self.last.as_ref().is_some_and(|(count, _)| *count > self.taken);
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
        while self.incoming.len() < MAX_INCOMING && self.open_next(worker, most)? {}
        let started = self.start_receives(worker, launch, destination);
        let part = if started { Received::Part } else { Received::Nothing };
        let Some(first) = self.incoming.front_mut().filter(|first| first.frame.launch.launch <= launch) else {
            return Ok(self.receive_last(launch));
        };
        let buffer = match &mut first.bytes {
            Bytes::Offered(_) => return Ok(part),
            Bytes::Receiving(transfer) => match worker.poll(transfer) {
                None => return Ok(part),
                Some(Err(reason)) => {
                    self.broken.get_or_insert(reason);
                    return Ok(Received::Nothing);
                }
                Some(Ok(())) => None,
            },
            Bytes::InBatch(batch, range) => {
                let bytes = &batch[range.clone()];
                verify(&mut self.hasher, first.digest.take(), bytes, first.number)?;
                if bytes.is_empty() || write(&first.frame, bytes, destination)? {
                    None
                } else {
                    let Some(mut buffer) = destination.buffer(bytes.len() as u64) else { return Ok(part) };
                    buffer.as_mut()[..bytes.len()].copy_from_slice(bytes);
                    Some(buffer)
                }
            }
        };
        let Some(first) = self.incoming.pop_front() else { return Ok(Received::Nothing) };
        let buffer = match first.bytes {
            Bytes::Receiving(transfer) => transfer.into_memory(),
            Bytes::InBatch(..) | Bytes::Offered(_) => buffer,
        };
        let bytes = buffer.as_ref().map_or(&[][..], |buffer| &buffer.as_ref()[..first.frame.len() as usize]);
        verify(&mut self.hasher, first.digest, bytes, first.number)?;
        self.consumed += u64::from(first.is_last);
        if self.consumed - self.reported >= WINDOW / 4 {
            self.reported = self.consumed;
            self.control.send(&Record::Consumed(self.consumed));
        }
        Ok(Received::Message(first.frame, buffer))
    }

    /// Reads the frame of the next message, if it has arrived, and returns whether it has.
    fn open_next(&mut self, worker: &Worker, most: u64) -> Result<bool, Malformed> {
        if let Some((batch, at)) = self.batch.take() {
            return self.open_in_batch(batch, at, most);
        }
        if worker.is_invalid(&self.tokens[1]) {
            let number = self.opened + 1;
            return Err(self.keys.as_ref().map_or(Malformed::Frame([0; 7]), |_| Malformed::Unauthenticated { number }));
        }
        let Some(arrived) = worker.take(&self.tokens[1]) else { return Ok(false) };
        self.quiet.restart();
        self.taken += 1;
        match arrived {
            Arrived::Batch(batch) => self.open_in_batch(Arc::new(batch), 0, most),
            Arrived::Offer(prefix, descriptor, len) => {
                let (frame, digest) = self.open(&prefix, most)?;
                if len as u64 != frame.len() {
                    return Err(self.other_length(len, frame.len()));
                }
                let (number, bytes) = (self.opened, Bytes::Offered(Some(descriptor)));
                self.incoming.push_back(Incoming { frame, number, digest, bytes, is_last: true });
                Ok(true)
            }
        }
    }

    /// Reads the frame of the message that begins at a byte of a batch.
    fn open_in_batch(&mut self, batch: Arc<Vec<u8>>, at: usize, most: u64) -> Result<bool, Malformed> {
        let begin = at + self.prefix_bytes();
        let Some(prefix) = batch.get(at..begin) else { return Err(self.other_length(begin, batch.len() as u64)) };
        let (frame, digest) = self.open(prefix, most)?;
        let end = begin + frame.len() as usize;
        if end > batch.len() {
            return Err(self.other_length(end, batch.len() as u64));
        }
        let (number, bytes, is_last) =
            (self.opened, Bytes::InBatch(Arc::clone(&batch), begin..end), end == batch.len());
        self.incoming.push_back(Incoming { frame, number, digest, bytes, is_last });
        self.batch = (!is_last).then_some((batch, end));
        Ok(true)
    }

    /// Verifies and reads a frame, which has at most `most` bytes.
    fn open(&mut self, prefix: &[u8], most: u64) -> Result<(Frame, Option<Digest>), Malformed> {
        self.opened += 1;
        let (bytes, seal) = prefix.split_first_chunk().unwrap_or((&[0; _], &[]));
        let digest = match &mut self.keys {
            Some(StreamKeys { receive, .. }) => {
                let opened = seal.first_chunk().and_then(|seal| receive.open(bytes, seal));
                Some(opened.ok_or(Malformed::Unauthenticated { number: self.opened })?)
            }
            None => None,
        };
        Ok((Frame::decode(bytes, most)?, digest))
    }

    /// Returns the error of a message that has another length than its frame states.
    fn other_length(&self, len: usize, most: u64) -> Malformed {
        match self.keys {
            Some(_) => Malformed::Unauthenticated { number: self.opened },
            None => Malformed::TooLong { len: len as u64, most },
        }
    }

    /// Provides offered messages with buffers, in their order, and returns whether there were any without.
    fn start_receives(&mut self, worker: &Worker, launch: u64, destination: &mut dyn Destination<B>) -> bool {
        let mut started = false;
        for Incoming { frame, bytes, .. } in &mut self.incoming {
            if frame.launch.launch > launch {
                break;
            }
            let Bytes::Offered(descriptor) = bytes else { continue };
            let Some(buffer) = destination.buffer(frame.len()) else { break };
            let Some(descriptor) = descriptor.take() else { break };
            *bytes = Bytes::Receiving(worker.receive(descriptor, frame.len() as usize, buffer));
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

/// Returns a frame and its seal, which is zero without keys.
fn seal(keys: &mut Option<StreamKeys>, frame: &Frame, bytes: &[u8]) -> [u8; PREFIX_BYTES] {
    let (frame, mut prefix) = (frame.encode(), [0; PREFIX_BYTES]);
    prefix[..FRAME_BYTES].copy_from_slice(&frame);
    if let Some(keys) = keys {
        prefix[FRAME_BYTES..].copy_from_slice(&keys.send.seal(&frame, &digest(bytes)));
    }
    prefix
}

/// Compares the bytes of a message with their digest, if there is one.
fn verify(hasher: &mut BodyHasher, digest: Option<Digest>, bytes: &[u8], number: u64) -> Result<(), Malformed> {
    let Some(digest) = digest else { return Ok(()) };
    hasher.update(bytes);
    if hasher.finish() == digest { Ok(()) } else { Err(Malformed::Unauthenticated { number }) }
}

/// Writes the bytes of a put into memory of the destination, and returns whether it has any.
///
/// # Errors
/// [`Malformed::TooLong`] if the destination has no memory for the last bytes.
fn write<B>(put: &Frame, bytes: &[u8], destination: &mut dyn Destination<B>) -> Result<bool, Malformed> {
    let mut done = 0;
    while done < bytes.len() {
        let memory = destination.memory(put, done as u64).filter(|memory| memory.len() > 0);
        let Some(memory) = memory else {
            return match done as u64 {
                0 => Ok(false),
                most => Err(Malformed::TooLong { len: bytes.len() as u64, most }),
            };
        };
        let n = memory.len().min(bytes.len() - done);
        memory.write(&bytes[done..done + n]);
        done += n;
    }
    Ok(true)
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
