//! A connection that carries frames and never blocks, with its buffers.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Instant;

use super::error::Error;
use super::frame::{BODY_BYTES, Frame, MAX_UNAUTHENTICATED_BYTES, Malformed};
use super::poll::{self, Interest};

/// Most bytes that are read in one turn, so that no connection keeps the others waiting.
const TURN_BYTES: usize = 256 << 10;

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct Conn {
    stream: TcpStream,
    /// The other end.
    pub(crate) peer: SocketAddr,
    incoming: Vec<u8>,
    /// How much of `incoming` has been taken.
    taken: usize,
    outgoing: VecDeque<Arc<[u8]>>,
    /// How much of the first of `outgoing` has been written.
    written: usize,
    queued: usize,
    limit: usize,
    /// When something came last.
    pub(crate) heard: Instant,
    /// When something was queued last.
    pub(crate) spoke: Instant,
}

impl Conn {
    /// Takes a connected socket.
    ///
    /// # Errors
    /// What the system says about its settings.
    pub(crate) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let (peer, now) = (stream.peer_addr()?, Instant::now());
        Ok(Self {
            stream,
            peer,
            incoming: Vec::new(),
            taken: 0,
            outgoing: VecDeque::new(),
            written: 0,
            queued: 0,
            limit: MAX_UNAUTHENTICATED_BYTES,
            heard: now,
            spoke: now,
        })
    }

    /// The address of this end.
    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.stream.local_addr()
    }

    /// The other end has proved itself: from now on its frames may be long.
    pub(crate) fn trust(&mut self) {
        self.limit = BODY_BYTES;
    }

    /// Reads what has come; `false` if the other end has closed.
    ///
    /// # Errors
    /// A broken connection.
    pub(crate) fn read(&mut self) -> io::Result<bool> {
        self.incoming.drain(..std::mem::take(&mut self.taken));
        if self.limit != MAX_UNAUTHENTICATED_BYTES {
            return self.read_turn(TURN_BYTES);
        }
        // At the door only what the next frame needs is taken: memory stays small, and what follows the last frame of a
        // stream's opening belongs to the stream.
        loop {
            let turn = Frame::needs(&self.incoming, self.limit);
            let before = self.incoming.len();
            let open = self.read_turn(turn)?;
            if !open || turn == 0 || self.incoming.len() < before + turn {
                return Ok(open);
            }
        }
    }

    fn read_turn(&mut self, turn: usize) -> io::Result<bool> {
        let before = self.incoming.len();
        match (&self.stream).take(turn as u64).read_to_end(&mut self.incoming) {
            Ok(got) if got < turn => {
                self.hear(before);
                Ok(false)
            }
            Ok(_) => {
                self.hear(before);
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.hear(before);
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }

    fn hear(&mut self, before: usize) {
        if self.incoming.len() > before {
            self.heard = Instant::now();
        }
    }

    /// The next frame that is all there.
    ///
    /// # Errors
    /// Bytes that are no frame.
    pub(crate) fn next(&mut self) -> Result<Option<Frame>, Malformed> {
        let found = Frame::decode(&self.incoming[self.taken..], self.limit)?;
        Ok(found.map(|(frame, bytes)| {
            self.taken += bytes;
            frame
        }))
    }

    /// Throws away what has come.
    pub(crate) fn discard(&mut self) {
        self.taken = self.incoming.len();
    }

    /// Queues a frame and writes what can be written at once. A broken connection shows when it is read.
    pub(crate) fn push(&mut self, frame: &Frame) {
        self.push_bytes(frame.encode().into());
    }

    /// Queues an encoded frame that several connections share.
    pub(crate) fn push_bytes(&mut self, bytes: Arc<[u8]>) {
        self.queued += bytes.len();
        self.outgoing.push_back(bytes);
        self.spoke = Instant::now();
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
                    // Reading tells how it ended.
                    self.outgoing.clear();
                    (self.written, self.queued) = (0, 0);
                }
            }
        }
    }

    /// Bytes that wait to be written.
    pub(crate) fn queued(&self) -> usize {
        self.queued
    }

    /// What to wait for: bytes, and room for those that wait.
    pub(crate) fn interest(&self) -> Interest {
        if self.outgoing.is_empty() { Interest::Read } else { Interest::ReadWrite }
    }

    /// Waits for a frame until `until`; `None` is the other end closing, or the end of the time.
    ///
    /// # Errors
    /// Bytes that are no frame, and errors of the system.
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
            // What came before the end still counts.
            if !self.read().unwrap_or(false) && self.taken == self.incoming.len() {
                return Ok(None);
            }
        }
    }

    /// The socket alone, blocking again, for who goes on without frames.
    ///
    /// # Errors
    /// Bytes that have come already and would be lost, and errors of the system.
    pub(crate) fn into_stream(self) -> io::Result<TcpStream> {
        if self.taken != self.incoming.len() || !self.outgoing.is_empty() {
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
