//! Messages over a TCP connection, sent and taken without waiting: a header, then as many bytes as it says.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::marker::PhantomData;
use std::net::TcpStream;

use bytemuck::Pod;

use crate::error::Error;

/// What goes before the bytes of a message.
pub(crate) trait Header: Pod {
    /// Bytes that follow.
    fn bytes(&self) -> u64;
}

/// A connection to a rank of another node.
pub(crate) struct Connection<H> {
    stream: TcpStream,
    waiting: VecDeque<u8>,
    /// Room for what is read, up to `end`; what lies before `used` was understood.
    read: Vec<u8>,
    used: usize,
    end: usize,
    /// The rank sends nothing more: it has left, or is gone.
    closed: bool,
    headers: PhantomData<H>,
}

/// Bytes that are read at once.
const READ: usize = 1 << 16;

#[cfg_attr(not(feature = "cuda"), allow(dead_code, reason = "the CUDA executor uses more of it"))]
impl<H: Header> Connection<H> {
    /// # Errors
    /// [`Error::System`].
    pub(crate) fn new(rank: u32, stream: TcpStream) -> Result<Self, Error> {
        let failed = |error: std::io::Error| Error::System {
            what: format!("set up a connection to rank {rank}"),
            why: error.to_string(),
        };
        stream.set_nonblocking(true).map_err(failed)?;
        let (waiting, read) = (VecDeque::new(), Vec::new());
        Ok(Self { stream, waiting, read, used: 0, end: 0, closed: false, headers: PhantomData })
    }

    /// Puts bytes behind what waits to be sent.
    pub(crate) fn push(&mut self, bytes: impl IntoIterator<Item = u8>) {
        self.waiting.extend(bytes);
    }

    /// Bytes that wait to be sent.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Whether the rank sends nothing more. What it sent before may still be unread.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Sends what waits; whether that was anything.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn write(&mut self) -> std::io::Result<bool> {
        let before = self.waiting.len();
        while !self.waiting.is_empty() {
            match send(&mut self.stream, self.waiting.as_slices().0)? {
                0 => break,
                n => drop(self.waiting.drain(..n)),
            }
        }
        Ok(self.waiting.len() < before)
    }

    /// Reads what is there, unless `most` bytes are unread already; whether that was anything.
    pub(crate) fn fill(&mut self, most: usize) -> bool {
        let before = self.end;
        while !self.closed && self.end < most {
            if self.fill_once() == 0 {
                break;
            }
        }
        self.end > before
    }

    /// Reads once.
    fn fill_once(&mut self) -> usize {
        if self.read.len() < self.end + READ {
            self.read.resize(self.end + READ, 0);
        }
        let n = receive(&mut self.stream, &mut self.read[self.end..], &mut self.closed);
        self.end += n;
        n
    }

    /// The message that begins `at` bytes behind what was understood, if all of it is there.
    ///
    /// # Errors
    /// It says that it has more than `most` bytes.
    pub(crate) fn message(&self, at: usize, most: u64) -> Result<Option<(H, &[u8])>, String> {
        let rest = self.read.get(self.used + at..self.end);
        let Some((header, rest)) = rest.and_then(|rest| rest.split_at_checked(size_of::<H>())) else {
            return Ok(None);
        };
        let header: H = bytemuck::pod_read_unaligned(header);
        if header.bytes() > most {
            return Err(format!("it sent a message of {} bytes, expected at most {most} bytes", header.bytes()));
        }
        Ok(rest.get(..header.bytes() as usize).map(|bytes| (header, bytes)))
    }

    /// Sends as much of these as goes, if nothing waits before them; how much that was.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn send_now(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.waiting.is_empty() { send(&mut self.stream, bytes) } else { Ok(0) }
    }

    /// Takes the next header, if all of it is there; its bytes are taken next, by [`take_bytes`](Self::take_bytes).
    pub(crate) fn take_header(&mut self) -> Option<H> {
        while self.end - self.used < size_of::<H>() {
            if self.closed || self.fill_once() == 0 {
                return None;
            }
        }
        let header = bytemuck::pod_read_unaligned(&self.read[self.used..][..size_of::<H>()]);
        self.consume(size_of::<H>());
        Some(header)
    }

    /// Takes as much as there is of bytes that follow a header; how much that was.
    pub(crate) fn take_bytes(&mut self, to: &mut [u8]) -> usize {
        let n = to.len().min(self.end - self.used);
        to[..n].copy_from_slice(&self.read[self.used..][..n]);
        self.consume(n);
        // The rest need not be copied.
        let more =
            if n < to.len() && !self.closed { receive(&mut self.stream, &mut to[n..], &mut self.closed) } else { 0 };
        n + more
    }

    /// Sends nothing more: the other end reads what is under way, and then that there is no more.
    pub(crate) fn finish(&mut self) {
        // Who is gone needs not be told.
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
    }

    /// So many bytes were understood.
    pub(crate) fn consume(&mut self, bytes: usize) {
        self.used += bytes;
        if self.used == self.end {
            (self.used, self.end) = (0, 0);
        } else if self.used >= READ {
            self.read.copy_within(self.used..self.end, 0);
            (self.used, self.end) = (0, self.end - self.used);
        }
    }
}

/// Sends as much as goes; how much that was.
fn send(stream: &mut TcpStream, bytes: &[u8]) -> std::io::Result<usize> {
    loop {
        match stream.write(bytes) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(0),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Reads what is there; how much that was.
fn receive(stream: &mut TcpStream, to: &mut [u8], closed: &mut bool) -> usize {
    loop {
        match stream.read(to) {
            Ok(n) if n > 0 => return n,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return 0,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            _ => {
                *closed = true;
                return 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Its number, and how many bytes follow.
    impl Header for [u64; 2] {
        fn bytes(&self) -> u64 {
            self[1]
        }
    }

    fn pair() -> [Connection<[u64; 2]>; 2] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let one = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
        let (other, _) = listener.accept().expect("somebody");
        [Connection::new(1, one).expect("a socket"), Connection::new(0, other).expect("a socket")]
    }

    fn body(number: u64, bytes: u64) -> Vec<u8> {
        (0..bytes).map(|at| (at.wrapping_mul(31) + number) as u8).collect()
    }

    #[test]
    fn messages_of_any_length_arrive_whole_and_in_order() {
        let [mut from, mut to] = pair();
        let lens = [0, 1, 70_000, 3, 5_000_000, 0, 65_536 - 16, 12];
        let (mut sending, mut sent) = ((0_u64..).zip(lens).peekable(), None::<(Vec<u8>, usize)>);
        let (mut receiving, mut expected) = (None::<(u64, Vec<u8>, usize)>, (0_u64..).zip(lens));
        let mut arrived = 0;
        while arrived < lens.len() {
            match &mut sent {
                None => {
                    if let Some((number, bytes)) = sending.next() {
                        from.push(bytemuck::bytes_of(&[number, bytes]).iter().copied());
                        sent = Some((body(number, bytes), 0));
                    }
                    from.write().expect("it is there");
                }
                Some((bytes, done)) => {
                    from.write().expect("it is there");
                    *done += from.send_now(&bytes[*done..]).expect("it is there");
                    if *done == bytes.len() {
                        sent = None;
                    }
                }
            }
            if receiving.is_none() {
                receiving = to.take_header().map(|[number, bytes]| (number, vec![0; bytes as usize], 0));
            }
            if let Some((number, bytes, done)) = &mut receiving {
                *done += to.take_bytes(&mut bytes[*done..]);
                if *done == bytes.len() {
                    assert_eq!(expected.next(), Some((*number, bytes.len() as u64)));
                    assert!(*bytes == body(*number, bytes.len() as u64), "message {number}");
                    (arrived, receiving) = (arrived + 1, None);
                }
            }
        }
        from.finish();
        while !to.is_closed() {
            assert_eq!(to.take_header(), None);
        }
    }

    #[test]
    fn messages_can_be_left_and_looked_at_again() {
        let [mut from, mut to] = pair();
        for number in 0..3_u64 {
            from.push(bytemuck::bytes_of(&[number, 5]).iter().copied().chain(*b"bytes"));
        }
        while from.write().expect("it is there") || from.waiting() > 0 {}
        while to.message(2 * 21, 5).expect("5 are right").is_none() {
            to.fill(1 << 20);
        }
        assert_eq!(to.message(21, 5).expect("5 are right"), Some(([1, 5], &b"bytes"[..])));
        assert!(to.message(0, 4).expect_err("more than 4").contains("expected at most 4 bytes"));
        to.consume(2 * 21);
        assert_eq!(to.take_header(), Some([2, 5]));
    }
}
