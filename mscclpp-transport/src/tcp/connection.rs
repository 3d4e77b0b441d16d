//! A TCP connection to a peer, with messages that wait to be sent and one that arrives; no call waits.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Read};
use std::net::{Shutdown, TcpStream};

use mscclpp_bootstrap::{BodyHasher, Digest, SEAL_BYTES, StreamKeys, digest};
use smallvec::SmallVec;

use crate::frame::{FRAME_BYTES, Frame, FrameKind, LaunchId, Malformed, RemoteAddress};
use crate::{Buffer, Destination, Lost, Received};
use mscclpp_base::memory::Span;

/// A connection to a peer.
pub(super) struct Connection<B> {
    stream: TcpStream,
    /// Messages to send, and how many bytes of the first one are sent.
    queue: VecDeque<Outgoing<B>>,
    sent: usize,
    /// Number of bytes of the queue that are not sent.
    queued: usize,
    /// Why nothing can be sent any more.
    failed: Option<String>,
    /// Received bytes that no message has taken yet: `read[used..end]`.
    read: Vec<u8>,
    used: usize,
    end: usize,
    incoming: Option<Incoming<B>>,
    /// Why nothing more is received.
    malformed: Option<Malformed>,
    /// Whether nothing more arrives.
    closed: bool,
    /// With which messages are authenticated, if they are. Then the seal of a message follows its frame.
    keys: Option<StreamKeys>,
    /// Computes the digest of the message that arrives.
    hasher: BodyHasher,
}

/// A message to send: its frame and its seal, if it has one, and the first `len` bytes of its source.
struct Outgoing<B> {
    prefix: [u8; FRAME_BYTES + SEAL_BYTES],
    source: Source<B>,
    len: usize,
}

/// Where the bytes of a message are.
pub(super) enum Source<B> {
    None,
    Buffer(B),
    /// In memory that calls of [`Connection::put_from`] pass.
    Memory,
}

/// A message whose frame has arrived.
struct Incoming<B> {
    frame: Frame,
    /// Digest of its bytes that was authenticated.
    digest: Option<Digest>,
    /// Buffer for its bytes, and how many of them it has.
    buffer: Option<B>,
    taken: usize,
}

/// Number of bytes that are read at once, except into a buffer or memory: enough for a put of 16 KiB with its signals, and few of
/// the bytes of a long one, because they are copied.
const READ_BYTES: usize = (1 << 14) + (1 << 12);

/// Number of bytes that are read after those for memory: enough for the messages that follow a put.
const REST_BYTES: usize = 1 << 12;

/// Minimum number of bytes of a put that is sent from memory. A copy of a shorter one is sent together with the signals that follow
/// it, which saves more than the copy takes.
const MIN_MEMORY_BYTES: usize = 1 << 16;

/// Maximum number of messages that are sent at once.
const MAX_BATCH: usize = 16;

/// Maximum number of bytes that are copied to be sent at once: the system takes longer for several parts than the copy does.
const MAX_COPIED_BYTES: usize = 1 << 12;

impl<B: Buffer> Outgoing<B> {
    fn source(&self) -> &[u8] {
        match &self.source {
            Source::Buffer(source) => &source.as_ref()[..self.len],
            Source::None | Source::Memory => &[],
        }
    }
}

impl<B: Buffer> Connection<B> {
    /// Wraps a connected socket.
    pub(super) fn new(stream: TcpStream, keys: Option<StreamKeys>) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            queue: VecDeque::new(),
            sent: 0,
            queued: 0,
            failed: None,
            read: Vec::new(),
            used: 0,
            end: 0,
            incoming: None,
            malformed: None,
            closed: false,
            keys,
            hasher: BodyHasher::default(),
        })
    }

    /// Returns the number of bytes before those of a message's source.
    fn prefix_bytes(&self) -> usize {
        FRAME_BYTES + if self.keys.is_some() { SEAL_BYTES } else { 0 }
    }

    /// Appends a message to those that wait to be sent.
    pub(super) fn push(&mut self, frame: &Frame, source: Source<B>) {
        if self.failed.is_none() {
            let mut outgoing = Outgoing { prefix: [0; _], source, len: frame.len() as usize };
            let bytes = frame.encode();
            outgoing.prefix[..FRAME_BYTES].copy_from_slice(&bytes);
            if let Some(keys) = &mut self.keys {
                let seal = keys.send.seal(&bytes, &digest(outgoing.source()));
                outgoing.prefix[FRAME_BYTES..].copy_from_slice(&seal);
            }
            self.queued += self.prefix_bytes() + outgoing.len;
            self.queue.push_back(outgoing);
        }
    }

    /// Sends bytes of a put directly from memory, and returns how many; as
    /// [`Transport::put_from`](crate::Transport::put_from).
    pub(super) fn put_from(&mut self, launch: LaunchId, to: RemoteAddress, source: Span<'_>) -> Option<u64> {
        if self.keys.is_some() || self.failed.is_some() {
            return None;
        }
        let has_begun = self.queue.back().is_some_and(|last| matches!(last.source, Source::Memory));
        if !has_begun && source.len() < MIN_MEMORY_BYTES {
            return None;
        }
        if !has_begun {
            let kind = FrameKind::Put { to, len: source.len() as u64 };
            self.push(&Frame { launch, kind }, Source::Memory);
        }
        if self.queue.len() > 1 {
            self.write();
        }
        let mut passed = 0;
        while let [put] = self.queue.make_contiguous() {
            let prefix = &put.prefix[self.sent.min(FRAME_BYTES)..FRAME_BYTES];
            let left = FRAME_BYTES + put.len - self.sent - prefix.len();
            match source.range(passed, left as u64).send(&self.stream, prefix) {
                Ok(0) => break,
                Ok(n) => {
                    passed += n.saturating_sub(prefix.len()) as u64;
                    self.advance(n);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => self.fail(&error),
            }
        }
        Some(passed)
    }

    /// Returns the number of bytes that wait to be sent.
    pub(super) fn queued(&self) -> usize {
        self.queued
    }

    /// Sends as much as possible, and returns whether that was anything.
    pub(super) fn write(&mut self) -> bool {
        let before = self.queued;
        while self.queued > 0 {
            match self.write_once() {
                Ok(0) => break,
                Ok(n) => self.advance(n),
                Err(error) => {
                    self.fail(&error);
                    return false;
                }
            }
        }
        self.queued < before
    }

    /// Records that nothing can be sent any more.
    fn fail(&mut self, error: &io::Error) {
        self.failed = Some(error.to_string());
        self.discard();
    }

    /// Sends bytes of the first messages, and returns how many. Those in memory that this connection does not have are not
    /// sent, nor what follows them.
    fn write_once(&mut self) -> io::Result<usize> {
        if self.sent >= FRAME_BYTES && matches!(self.queue.front(), Some(Outgoing { source: Source::Memory, .. })) {
            return Ok(0);
        }
        let mut slices = [IoSlice::new(&[]); 2 * MAX_BATCH];
        let mut used = 0;
        for (slices, outgoing) in slices.chunks_exact_mut(2).zip(&self.queue) {
            slices[0] = IoSlice::new(&outgoing.prefix[..self.prefix_bytes()]);
            slices[1] = IoSlice::new(outgoing.source());
            used += 2;
            if matches!(outgoing.source, Source::Memory) {
                break;
            }
        }
        let mut slices = &mut slices[..used];
        IoSlice::advance_slices(&mut slices, self.sent);
        let mut copy = SmallVec::<[u8; MAX_COPIED_BYTES]>::new();
        let mut copied = [IoSlice::new(&[])];
        if slices.len() > 1 && slices.iter().map(|slice| slice.len()).sum::<usize>() <= MAX_COPIED_BYTES {
            slices.iter().for_each(|slice| copy.extend_from_slice(slice));
            copied[0] = IoSlice::new(&copy);
            slices = &mut copied;
        }
        loop {
            match mscclpp_bootstrap::send_vectored(&self.stream, slices) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(0),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    /// Counts bytes as sent, and drops the messages that are.
    fn advance(&mut self, n: usize) {
        self.queued -= n;
        self.sent += n;
        while let Some(first) = self.queue.front().map(|first| self.prefix_bytes() + first.len)
            && self.sent >= first
        {
            self.sent -= first;
            self.queue.pop_front();
        }
    }

    /// Discards the messages that wait to be sent.
    fn discard(&mut self) {
        self.queue.clear();
        (self.sent, self.queued) = (0, 0);
    }

    /// Sends a last message, unless part of an earlier one remains: no frame can follow that. The peer reads what is on
    /// its way, and then the end of the stream.
    pub(super) fn close(&mut self, last: &Frame) {
        self.write();
        if self.sent == 0 {
            if let Some(keys) = &mut self.keys {
                keys.send.forget(self.queue.len() as u64);
            }
            self.discard();
            self.push(last, Source::None);
            self.write();
        }
        self.discard();
        // A lost peer needs no notification.
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Returns the next message, if it is of a launch up to `launch` and complete.
    ///
    /// # Errors
    /// It fails authentication, its frame is invalid, or states more than `most` bytes. No message follows.
    pub(super) fn receive(
        &mut self,
        launch: u64,
        most: u64,
        destination: &mut dyn Destination<B>,
    ) -> Result<Received<B>, Malformed> {
        match self.malformed {
            Some(malformed) => Err(malformed),
            None => {
                self.receive_next(launch, most, destination).inspect_err(|malformed| self.malformed = Some(*malformed))
            }
        }
    }

    fn receive_next(
        &mut self,
        launch: u64,
        most: u64,
        destination: &mut dyn Destination<B>,
    ) -> Result<Received<B>, Malformed> {
        if self.incoming.is_none() {
            let Some((frame, digest)) = self.take_frame(most)? else { return Ok(Received::Nothing) };
            self.incoming = Some(Incoming { frame, digest, buffer: None, taken: 0 });
        }
        if self.incoming.as_ref().is_none_or(|incoming| incoming.frame.launch.launch > launch) {
            return Ok(Received::Nothing);
        }
        let placed = self.receive_into_memory(destination)?;
        let Some(incoming) = &mut self.incoming else { return Ok(Received::Nothing) };
        let len = incoming.frame.len() as usize;
        if incoming.taken < len {
            if let Some(placed) = placed {
                return Ok(if placed > 0 { Received::Part } else { Received::Nothing });
            }
            if incoming.buffer.is_none() {
                incoming.buffer = destination.buffer(len as u64);
            }
            let Some(buffer) = &mut incoming.buffer else { return Ok(Received::Nothing) };
            let to = &mut buffer.as_mut()[incoming.taken..len];
            let n = to.len().min(self.end - self.used);
            to[..n].copy_from_slice(&self.read[self.used..][..n]);
            self.used += n;
            // The rest is read without an intermediate copy.
            let more = if n < to.len() { read(&mut self.stream, &mut to[n..], &mut self.closed) } else { 0 };
            incoming.taken += n + more;
            if incoming.digest.is_some() {
                self.hasher.update(&to[..n + more]);
            }
            if incoming.taken < len {
                return Ok(if n + more > 0 { Received::Part } else { Received::Nothing });
            }
            if incoming.digest.is_some_and(|digest| digest != self.hasher.finish()) {
                // Its frame has been counted.
                let number = self.keys.as_ref().map_or(0, |keys| keys.receive.number() - 1);
                return Err(Malformed::Unauthenticated { number });
            }
        }
        let message = self.incoming.take().map(|Incoming { frame, buffer, .. }| Received::Message(frame, buffer));
        Ok(message.unwrap_or(Received::Nothing))
    }

    /// Receives bytes of the message that arrives into memory of the destination, and returns how many. `None` if the message needs a
    /// buffer, as an authenticated one does, whose bytes become visible only after their digest is verified.
    ///
    /// # Errors
    /// [`Malformed::TooLong`] if the destination has no memory for the last bytes.
    fn receive_into_memory(&mut self, destination: &mut dyn Destination<B>) -> Result<Option<usize>, Malformed> {
        let has_neither = |incoming: &&mut Incoming<B>| incoming.buffer.is_none() && incoming.digest.is_none();
        let Some(incoming) = self.incoming.as_mut().filter(has_neither) else { return Ok(None) };
        let (len, before) = (incoming.frame.len() as usize, incoming.taken);
        while incoming.taken < len {
            let Some(memory) = destination.memory(&incoming.frame, incoming.taken as u64) else {
                return match incoming.taken as u64 {
                    0 => Ok(None),
                    most => Err(Malformed::TooLong { len: len as u64, most }),
                };
            };
            let memory = memory.range(0, (len - incoming.taken) as u64);
            let read = &self.read[self.used..self.end];
            let n = if read.is_empty() {
                (self.used, self.end) = (0, 0);
                self.read.resize(READ_BYTES, 0);
                let n = read_into(&self.stream, memory, &mut self.read[..REST_BYTES], &mut self.closed);
                self.end = n.saturating_sub(memory.len());
                n - self.end
            } else {
                let n = read.len().min(memory.len());
                memory.write(&read[..n]);
                self.used += n;
                n
            };
            if n == 0 {
                break;
            }
            incoming.taken += n;
        }
        Ok(Some(incoming.taken - before))
    }

    /// Takes the next frame, if it is complete, and the digest of the bytes that follow it.
    fn take_frame(&mut self, most: u64) -> Result<Option<(Frame, Option<Digest>)>, Malformed> {
        let prefix_bytes = self.prefix_bytes();
        loop {
            if let Some(prefix) = self.read[self.used..self.end].get(..prefix_bytes)
                && let Some((bytes, seal)) = prefix.split_first_chunk()
            {
                let digest = match &mut self.keys {
                    Some(StreamKeys { receive, .. }) => {
                        let opened = seal.first_chunk().and_then(|seal| receive.open(bytes, seal));
                        Some(opened.ok_or(Malformed::Unauthenticated { number: receive.number() })?)
                    }
                    None => None,
                };
                let frame = Frame::decode(bytes, most)?;
                self.used += prefix_bytes;
                return Ok(Some((frame, digest)));
            }
            // Less than a frame.
            self.read.copy_within(self.used..self.end, 0);
            (self.used, self.end) = (0, self.end - self.used);
            self.read.resize(READ_BYTES, 0);
            match read(&mut self.stream, &mut self.read[self.end..], &mut self.closed) {
                0 => return Ok(None),
                n => self.end += n,
            }
        }
    }

    /// Returns whether the peer is lost, and how.
    pub(super) fn lost(&self) -> Option<Lost> {
        if let Some(why) = &self.failed {
            return Some(Lost::Failed(why.clone()));
        }
        let missing = match &self.incoming {
            Some(Incoming { frame, taken, .. }) => frame.len() as usize - taken,
            None => self.prefix_bytes(),
        };
        (self.closed && self.end - self.used < missing).then_some(Lost::Closed)
    }
}

impl<B> Connection<B> {
    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }
}

/// Reads the available bytes, the first ones into memory and those after them into `rest`, and returns how many.
fn read_into(stream: &TcpStream, memory: Span<'_>, rest: &mut [u8], closed: &mut bool) -> usize {
    while !*closed {
        match memory.receive(stream, rest) {
            Ok(n) if n > 0 => return n,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return 0,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            _ => *closed = true,
        }
    }
    0
}

/// Reads the available bytes, and returns how many.
fn read(stream: &mut TcpStream, to: &mut [u8], closed: &mut bool) -> usize {
    while !*closed {
        match stream.read(to) {
            Ok(n) if n > 0 => return n,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return 0,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            _ => *closed = true,
        }
    }
    0
}

#[cfg(test)]
mod tests;
