//! A non-blocking connection that carries frames, with its buffers.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Instant;

use super::error::Error;
use super::frame::{BODY_BYTES, Frame, MAX_UNAUTHENTICATED_BYTES, Malformed};
use super::poll::{self, Interest};

/// Maximum number of bytes read at once, so that no connection starves the others.
const MAX_READ_BYTES: usize = 256 << 10;

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct Conn {
    stream: TcpStream,
    /// Address of the other end.
    pub(crate) peer: SocketAddr,
    incoming: Vec<u8>,
    /// Number of bytes of `incoming` that have been decoded.
    decoded: usize,
    outgoing: VecDeque<Arc<[u8]>>,
    /// Number of bytes of the first element of `outgoing` that have been written.
    written: usize,
    queued: usize,
    limit: usize,
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
            outgoing: VecDeque::new(),
            written: 0,
            queued: 0,
            limit: MAX_UNAUTHENTICATED_BYTES,
            last_received: now,
            last_queued: now,
        })
    }

    /// Returns the local address.
    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.stream.local_addr()
    }

    /// Raises the limit on frame sizes, because the peer has authenticated.
    pub(crate) fn set_authenticated(&mut self) {
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
            let max = Frame::needs(&self.incoming, self.limit);
            let before = self.incoming.len();
            let open = self.read_up_to(max)?;
            if !open || max == 0 || self.incoming.len() < before + max {
                return Ok(open);
            }
        }
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
    /// Bytes that are not a frame.
    pub(crate) fn next(&mut self) -> Result<Option<Frame>, Malformed> {
        let found = Frame::decode(&self.incoming[self.decoded..], self.limit)?;
        Ok(found.map(|(frame, bytes)| {
            self.decoded += bytes;
            frame
        }))
    }

    /// Discards the bytes that have been read.
    pub(crate) fn discard(&mut self) {
        self.decoded = self.incoming.len();
    }

    /// Queues a frame and writes what can be written at once. The next read reports a broken connection.
    pub(crate) fn push(&mut self, frame: &Frame) {
        self.push_bytes(frame.encode().into());
    }

    /// Queues an encoded frame that several connections share.
    pub(crate) fn push_bytes(&mut self, bytes: Arc<[u8]>) {
        self.queued += bytes.len();
        self.outgoing.push_back(bytes);
        self.last_queued = Instant::now();
        self.flush();
    }

    /// Writes what can be written without waiting.
    pub(crate) fn flush(&mut self) {
        while let Some(first) = self.outgoing.front() {
            match (&self.stream).write(&first[self.written..]) {
                Ok(0) => return,
                Ok(wrote) => {
                    self.written += wrote;
                    self.queued -= wrote;
                    if self.written == first.len() {
                        self.outgoing.pop_front();
                        self.written = 0;
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

    /// Returns the number of bytes that are queued for writing.
    pub(crate) fn queued(&self) -> usize {
        self.queued
    }

    /// Returns the readiness to wait for: bytes to read, and room to write if frames are queued.
    pub(crate) fn interest(&self) -> Interest {
        if self.outgoing.is_empty() { Interest::Read } else { Interest::ReadWrite }
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

    /// Returns the socket in blocking mode, for use without frames.
    ///
    /// # Errors
    /// Bytes that were already read or queued and would be lost, and errors of the system.
    pub(crate) fn into_stream(self) -> io::Result<TcpStream> {
        if self.decoded != self.incoming.len() || !self.outgoing.is_empty() {
            return Err(io::Error::other("the peer sent data before the stream was established"));
        }
        self.stream.set_nonblocking(false)?;
        Ok(self.stream)
    }
}

impl AsFd for Conn {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
