//! A non-blocking connection that carries frames, with its buffers.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Read};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Instant;

use rustix::net::{SendAncillaryBuffer, SendFlags};

use super::error::Error;
use super::frame::{BODY_BYTES, EncodedFrame, Frame, HEADER_BYTES, MAX_UNAUTHENTICATED_BYTES, Malformed, Prefix};
use super::mac::{SEAL_BYTES, StreamKeys};
use super::options::SHUTDOWN_TIMEOUT;
use super::poll::{self, Interest};
use super::secret::ConnectionKeys;

/// Maximum number of bytes read at once, so that no connection starves the others.
const MAX_READ_BYTES: usize = 256 << 10;
/// Maximum number of frames written at once.
const MAX_BATCH: usize = 16;

/// Sends bytes without the signal SIGPIPE, which a vectored write raises once the other end is closed: only programs whose `main` is
/// Rust's ignore it.
///
/// # Errors
/// Those of `sendmsg`.
#[doc(hidden)]
pub fn send_vectored(stream: &TcpStream, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    Ok(match slices {
        [slice] => rustix::net::send(stream, slice, SendFlags::NOSIGNAL)?,
        slices => rustix::net::sendmsg(stream, slices, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL)?,
    })
}

/// Keys of a connection, and the ranks of this end and of the other one.
#[derive(Debug)]
struct Authenticated {
    keys: ConnectionKeys,
    own: u32,
    peer: u32,
}

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct Conn {
    stream: TcpStream,
    /// Address of the other end.
    pub(crate) peer: SocketAddr,
    incoming: Vec<u8>,
    /// Number of bytes of `incoming` that have been decoded.
    decoded: usize,
    /// Prefix of the next frame, once it has arrived.
    prefix: Option<Prefix>,
    /// Prefixes and bodies of the frames to write.
    outgoing: VecDeque<(Vec<u8>, Arc<[u8]>)>,
    /// Number of bytes of the first element of `outgoing` that have been written.
    written: usize,
    queued: usize,
    limit: usize,
    /// After the handshake.
    authenticated: Option<Authenticated>,
    /// When bytes last arrived.
    pub(crate) last_received: Instant,
    /// When a frame was last queued.
    pub(crate) last_queued: Instant,
}

impl Conn {
    /// Wraps a connected socket.
    ///
    /// # Errors
    /// The system's error about the socket's settings.
    pub(crate) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let (peer, now) = (stream.peer_addr()?, Instant::now());
        Ok(Self {
            stream,
            peer,
            incoming: Vec::new(),
            decoded: 0,
            prefix: None,
            outgoing: VecDeque::new(),
            written: 0,
            queued: 0,
            limit: MAX_UNAUTHENTICATED_BYTES,
            authenticated: None,
            last_received: now,
            last_queued: now,
        })
    }

    /// Returns the local address.
    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.stream.local_addr()
    }

    /// Authenticates all further frames: the peer has proved that it knows the secret. `own`, `peer`: ranks of both ends.
    pub(crate) fn authenticate(&mut self, keys: ConnectionKeys, own: u32, peer: u32) {
        self.authenticated = Some(Authenticated { keys, own, peer });
    }

    /// Raises the limit on frame sizes. The peer must have authenticated.
    pub(crate) fn raise_limit(&mut self) {
        self.limit = BODY_BYTES;
    }

    /// Reads the available bytes. Returns `false` if the other end has closed the connection.
    ///
    /// # Errors
    /// A broken connection.
    pub(crate) fn read(&mut self) -> io::Result<bool> {
        self.incoming.drain(..std::mem::take(&mut self.decoded));
        if self.limit != MAX_UNAUTHENTICATED_BYTES {
            return self.read_up_to(MAX_READ_BYTES);
        }
        // Before authentication, only the bytes of the next frame are read: memory stays small, and the bytes after the
        // last frame of a stream's handshake belong to the stream.
        loop {
            let max = self.missing_bytes();
            let before = self.incoming.len();
            let open = self.read_up_to(max)?;
            if !open || max == 0 || self.incoming.len() < before + max {
                return Ok(open);
            }
        }
    }

    /// Returns how many bytes to read until the next frame is complete or known to be invalid: those of its prefix first.
    fn missing_bytes(&mut self) -> usize {
        let seal_bytes = if self.authenticated.is_some() { SEAL_BYTES } else { 0 };
        let end = match self.next_prefix() {
            Ok(Some(prefix)) => prefix.frame_bytes(),
            Ok(None) => HEADER_BYTES + seal_bytes,
            // The next call of `next` reports it.
            Err(_) => 0,
        };
        (self.decoded + end).saturating_sub(self.incoming.len())
    }

    /// Returns the prefix of the next frame, if it has arrived.
    fn next_prefix(&mut self) -> Result<Option<Prefix>, Malformed> {
        if self.prefix.is_none() {
            let key = self.authenticated.as_mut().map(|one| &mut one.keys.frames.receive);
            self.prefix = Prefix::decode(&self.incoming[self.decoded..], self.limit, key)?;
        }
        Ok(self.prefix)
    }

    fn read_up_to(&mut self, max: usize) -> io::Result<bool> {
        let before = self.incoming.len();
        match (&self.stream).take(max as u64).read_to_end(&mut self.incoming) {
            Ok(got) if got < max => {
                self.record_receipt(before);
                Ok(false)
            }
            Ok(_) => {
                self.record_receipt(before);
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.record_receipt(before);
                Ok(true)
            }
            // The other end has closed the connection before it read all that was sent.
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted) => {
                self.record_receipt(before);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    fn record_receipt(&mut self, before: usize) {
        if self.incoming.len() > before {
            self.last_received = Instant::now();
        }
    }

    /// Returns the next complete frame.
    ///
    /// # Errors
    /// Bytes that are not a frame, or not the next one that the peer has sent. No frame follows.
    pub(crate) fn next(&mut self) -> Result<Option<Frame>, Malformed> {
        let found = self.next_prefix().and_then(|prefix| {
            let Some(prefix) = prefix else { return Ok(None) };
            let frame = prefix.decode_frame(&self.incoming[self.decoded..])?;
            Ok(frame.map(|frame| (frame, prefix.frame_bytes())))
        });
        match (found, &self.authenticated) {
            (Ok(None), _) => Ok(None),
            (Ok(Some((frame, bytes))), _) => {
                self.decoded += bytes;
                self.prefix = None;
                Ok(Some(frame))
            }
            (Err(Malformed::Seal), Some(Authenticated { keys, own, peer })) => {
                // A valid prefix has been counted.
                let frame = keys.frames.receive.number() - u64::from(self.prefix.is_some());
                Err(Malformed::Unauthenticated { frame, from: *peer, to: *own })
            }
            (Err(malformed), _) => Err(malformed),
        }
    }

    /// Discards the bytes that have been read. No frame can follow.
    pub(crate) fn discard(&mut self) {
        self.decoded = self.incoming.len();
    }

    /// Queues a frame and writes what can be written at once. The next read reports a broken connection.
    pub(crate) fn push(&mut self, frame: &Frame) {
        self.push_encoded(&frame.encode());
    }

    /// Queues an encoded frame that several connections share.
    pub(crate) fn push_encoded(&mut self, frame: &EncodedFrame) {
        let prefix = frame.prefix(self.authenticated.as_mut().map(|one| &mut one.keys.frames.send));
        self.queued += prefix.len() + frame.body.len();
        self.outgoing.push_back((prefix, Arc::clone(&frame.body)));
        self.last_queued = Instant::now();
        self.flush();
    }

    /// Writes what can be written without waiting.
    pub(crate) fn flush(&mut self) {
        while !self.outgoing.is_empty() {
            match self.write_once() {
                Ok(0) => return,
                Ok(wrote) => {
                    self.written += wrote;
                    self.queued -= wrote;
                    while let Some(first) = self.outgoing.front().map(|(prefix, body)| prefix.len() + body.len())
                        && self.written >= first
                    {
                        self.outgoing.pop_front();
                        self.written -= first;
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => {
                    // The next read reports the error.
                    self.outgoing.clear();
                    (self.written, self.queued) = (0, 0);
                }
            }
        }
    }

    /// Writes bytes of the first frames, and returns how many.
    fn write_once(&self) -> io::Result<usize> {
        let mut slices = [IoSlice::new(&[]); 2 * MAX_BATCH];
        for (slices, (prefix, body)) in slices.chunks_exact_mut(2).zip(&self.outgoing) {
            slices[0] = IoSlice::new(prefix);
            slices[1] = IoSlice::new(body);
        }
        let mut slices = &mut slices[..2 * self.outgoing.len().min(MAX_BATCH)];
        IoSlice::advance_slices(&mut slices, self.written);
        send_vectored(&self.stream, slices)
    }

    /// Sends the queued frames and nothing more, and discards what arrives. Returns `false` once the other end has closed
    /// the connection: closing it earlier could discard frames that the other end has not read.
    pub(crate) fn finish(&mut self) -> bool {
        self.flush();
        if self.outgoing.is_empty() {
            // A closed connection needs no notification.
            let _ = self.stream.shutdown(Shutdown::Write);
        }
        // Nothing is decoded any more.
        self.limit = BODY_BYTES;
        self.discard();
        self.read().unwrap_or(false)
    }

    /// Returns the number of bytes that are queued for writing.
    pub(crate) fn queued(&self) -> usize {
        self.queued
    }

    /// Returns the readiness to wait for: bytes to read, and room to write if frames are queued.
    pub(crate) fn interest(&self) -> Interest {
        if self.outgoing.is_empty() { Interest::Read } else { Interest::ReadWrite }
    }

    /// Sends a last frame, and waits up to [`SHUTDOWN_TIMEOUT`] until the other end has closed the connection.
    pub(crate) fn close_after(&mut self, last: &Frame) {
        self.push(last);
        self.wait_closed();
    }

    /// Sends the queued frames, and waits up to [`SHUTDOWN_TIMEOUT`] until the other end has closed the connection.
    pub(crate) fn wait_closed(&mut self) {
        let until = Instant::now() + SHUTDOWN_TIMEOUT;
        while self.finish() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || poll::wait(&[(self.as_fd(), self.interest())], Some(left)).is_err() {
                return;
            }
        }
    }

    /// Waits for a frame until `until`. `None` means that the other end closed the connection, or that the time is
    /// over.
    ///
    /// # Errors
    /// Bytes that are not a frame, and errors of the system.
    pub(crate) fn wait_frame(&mut self, until: Instant) -> Result<Option<Frame>, Error> {
        loop {
            if let Some(frame) = self.next().map_err(|malformed| malformed.of(self.peer))? {
                return Ok(Some(frame));
            }
            let now = Instant::now();
            if now >= until {
                return Ok(None);
            }
            let interest = self.interest();
            poll::wait(&[(self.as_fd(), interest)], Some(until - now))?;
            self.flush();
            // Bytes that arrived before the end of the stream still count.
            if !self.read().unwrap_or(false) && self.decoded == self.incoming.len() {
                return Ok(None);
            }
        }
    }

    /// Returns the socket in blocking mode, for use without frames, and the keys for it.
    ///
    /// # Errors
    /// Bytes that were already read or queued and would be lost, and errors of the system.
    pub(crate) fn into_stream(self) -> io::Result<(TcpStream, StreamKeys)> {
        let keys = self.authenticated.ok_or_else(|| io::Error::other("the peer has not authenticated"))?.keys.stream;
        if self.decoded != self.incoming.len() || !self.outgoing.is_empty() {
            return Err(io::Error::other("the peer sent data before the stream was established"));
        }
        self.stream.set_nonblocking(false)?;
        Ok((self.stream, keys))
    }
}

impl AsFd for Conn {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
