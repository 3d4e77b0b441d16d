//! Messages of the peer, in the order of their numbers.

use std::ops::Range;
use std::sync::Arc;

use mscclpp_bootstrap::{BodyHasher, Digest, StreamKeys};

use super::Connection;
use crate::frame::{Frame, FrameKind, Malformed, Signal};
use crate::ucx::control::Record;
use crate::ucx::inbox::{Arrived, Descriptor, WINDOW};
use crate::ucx::transfer::{Memory, Transfer};
use crate::ucx::worker::Worker;
use crate::{Buffer, Destination, Received};

/// Maximum number of messages whose frame is read before the first of them is complete, so that bytes of several are received at once.
const MAX_INCOMING: usize = 8;

/// A message whose frame was read.
pub(super) struct Incoming<B: Buffer + 'static> {
    pub(super) frame: Frame,
    /// Its number, from 1 on.
    number: u64,
    /// Digest of its bytes that was authenticated.
    digest: Option<Digest>,
    pub(super) bytes: Bytes<B>,
    /// Whether it is the last one of its active message.
    is_last: bool,
}

/// Bytes of a message.
pub(super) enum Bytes<B: Buffer + 'static> {
    InBatch(Arc<Vec<u8>>, Range<usize>),
    Offered(Option<Descriptor>),
    /// UCX moves them into a buffer, or into memory of the plan, which has these addresses.
    Receiving(Transfer<Memory<B>>, Option<Range<usize>>),
}

impl<B: Buffer + 'static> Incoming<B> {
    /// Returns whether it has bytes that will need a buffer, unless the destination has memory for them.
    fn may_need_buffer(&self) -> bool {
        matches!(&self.bytes, Bytes::InBatch(_, range) if !range.is_empty())
    }
}

impl<B: Buffer + 'static> Connection<B> {
    /// Returns the next message, if it is of a launch up to `launch` and complete.
    ///
    /// # Errors
    /// It fails authentication, its frame is invalid, or states more than `most` bytes. No message follows.
    pub(in super::super) fn receive(
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
            Bytes::Receiving(transfer, _) => match worker.poll(transfer) {
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
        let memory = match first.bytes {
            Bytes::Receiving(transfer, _) => transfer.into_memory(),
            Bytes::InBatch(..) | Bytes::Offered(_) => buffer.map(Memory::Buffer),
        };
        let bytes = memory.as_ref().map_or(&[][..], |memory| memory.content(first.frame.len() as usize));
        verify(&mut self.hasher, first.digest, bytes, first.number)?;
        self.consumed += u64::from(first.is_last);
        if self.consumed - self.reported >= WINDOW / 2 {
            self.reported = self.consumed;
            self.control.send(&Record::Consumed(self.consumed));
        }
        Ok(Received::Message(first.frame, memory.and_then(Memory::into_buffer)))
    }

    /// Reads the frame of the next message, if it has arrived, and returns whether it has.
    fn open_next(&mut self, worker: &Worker, most: u64) -> Result<bool, Malformed> {
        if let Some((batch, at)) = self.batch.take() {
            return self.open_in_batch(batch, at, most);
        }
        if worker.inbox.is_invalid(&self.tokens[1]) {
            let number = self.opened + 1;
            return Err(self.keys.as_ref().map_or(Malformed::Frame([0; 7]), |_| Malformed::Unauthenticated { number }));
        }
        let Some(arrived) = worker.inbox.take(&self.tokens[1]) else { return Ok(false) };
        self.quiet.restart();
        self.taken += 1;
        match arrived {
            Arrived::Batch(batch) => self.open_in_batch(Arc::new(batch), 0, most),
            Arrived::Offer(prefix, signals, descriptor, len) => {
                let opened = self.open(&prefix, most).and_then(|(frame, digest)| match frame.len() {
                    expected if expected == len as u64 => Ok((frame, digest)),
                    expected => Err(self.other_length(len, expected)),
                });
                let (frame, digest) = match opened {
                    Ok(opened) => opened,
                    Err(malformed) => {
                        worker.release(descriptor);
                        return Err(malformed);
                    }
                };
                let (number, bytes) = (self.opened, Bytes::Offered(Some(descriptor)));
                let is_last = signals.is_empty();
                self.incoming.push_back(Incoming { frame, number, digest, bytes, is_last });
                self.batch = (!is_last).then(|| (Arc::new(signals), 0));
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

    /// Provides offered messages with memory, in their order, and returns whether there were any without.
    fn start_receives(&mut self, worker: &Worker, launch: u64, destination: &mut dyn Destination<B>) -> bool {
        let (mut started, is_authenticated) = (false, self.keys.is_some());
        for at in 0..self.incoming.len() {
            let Incoming { frame, bytes, .. } = &self.incoming[at];
            // No bytes follow the end of a launch, whose memory is the caller's again.
            let is_end = matches!(frame.kind, FrameKind::Signal(Signal::End | Signal::Leave | Signal::Abort));
            if frame.launch.launch > launch || is_end {
                break;
            }
            if !matches!(bytes, Bytes::Offered(_)) {
                continue;
            }
            let earlier = || self.incoming.range(..at);
            let region = if is_authenticated { None } else { destination.region(frame) };
            let memory = match region.map(|region| (order(&region.addresses(), earlier()), region)) {
                Some((Order::Any, region)) => Some(Memory::Region(region)),
                Some((Order::After, _)) => None,
                // The destination may have no other buffer, and gets this one back only after the earlier message.
                Some((Order::InBuffer, _)) | None if earlier().any(Incoming::may_need_buffer) => None,
                Some((Order::InBuffer, _)) | None => offer_buffer(destination, frame.len(), is_authenticated),
            };
            let (Some(memory), len) = (memory, frame.len() as usize) else { break };
            let bytes = &mut self.incoming[at].bytes;
            let Bytes::Offered(Some(descriptor)) = std::mem::replace(bytes, Bytes::Offered(None)) else { break };
            let addresses = memory.addresses();
            *bytes = Bytes::Receiving(worker.receive(descriptor, len, memory), addresses);
            started = true;
        }
        started
    }

    /// Returns the last message, after all others.
    fn receive_last(&mut self, launch: u64) -> Received<B> {
        let has_others = self.ended == Some(self.consumed);
        let is_next = |frame: &mut Frame| has_others && frame.launch.launch <= launch;
        let Some(frame) = self.last.take_if(is_next) else { return Received::Nothing };
        self.is_over = true;
        Received::Message(frame, None)
    }
}

/// Returns a buffer for the bytes of an offer. The host reads those that are authenticated.
fn offer_buffer<B>(destination: &mut dyn Destination<B>, len: u64, is_authenticated: bool) -> Option<Memory<B>> {
    let buffer = if is_authenticated { destination.buffer(len) } else { destination.long_buffer(len) };
    buffer.map(Memory::Buffer)
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

/// When bytes may be written to memory of the plan, so that of puts to the same bytes the last one remains.
enum Order {
    Any,
    /// After earlier messages are complete.
    After,
    /// When all earlier messages are, which also wait for bytes: they are received into a buffer until then.
    InBuffer,
}

/// `addresses`: where a put goes; `earlier`: messages that are not complete.
fn order<'a, B: Buffer + 'static>(addresses: &Range<usize>, earlier: impl Iterator<Item = &'a Incoming<B>>) -> Order {
    let mut order = Order::Any;
    for message in earlier {
        match (&message.bytes, message.frame.kind) {
            (_, FrameKind::Signal(_)) => {}
            (Bytes::Receiving(_, Some(other)), _) if addresses.end <= other.start || other.end <= addresses.start => {}
            (Bytes::Receiving(_, None), _) => return Order::InBuffer,
            _ => order = Order::After,
        }
    }
    order
}
