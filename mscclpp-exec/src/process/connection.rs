//! Messages over a TCP connection, sent and received without waiting: a header, then the number of bytes that it
//! states.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::marker::PhantomData;
use std::net::TcpStream;

use bytemuck::Pod;

use crate::error::Error;

/// Header of a message.
pub(crate) trait Header: Pod {
    /// Returns the number of bytes after the header.
    fn bytes(&self) -> u64;
}

/// A connection to a rank of another node.
pub(crate) struct Connection<H> {
    stream: TcpStream,
    waiting: VecDeque<u8>,
    /// Received bytes, up to `end`; those before `used` have been consumed.
    read: Vec<u8>,
    used: usize,
    end: usize,
    /// Whether the rank sends nothing more, because it has left or is lost.
    closed: bool,
    headers: PhantomData<H>,
}

/// Number of bytes that are read at once.
const READ: usize = 1 << 16;

#[cfg_attr(not(feature = "cuda"), allow(dead_code, reason = "the CUDA executor uses more of it"))]
impl<H: Header> Connection<H> {
    /// Wraps a connected socket.
    ///
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

    /// Appends bytes to those that wait to be sent.
    pub(crate) fn push(&mut self, bytes: impl IntoIterator<Item = u8>) {
        self.waiting.extend(bytes);
    }

    /// Returns the number of bytes that wait to be sent.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Returns whether the rank sends nothing more. Earlier messages may still be unread.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Sends waiting bytes, and returns whether any were sent.
    ///
    /// # Errors
    /// The system's error.
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

    /// Reads the available bytes, unless `most` bytes are unread already, and returns whether there were any.
    pub(crate) fn fill(&mut self, most: usize) -> bool {
        let before = self.end;
        while !self.closed && self.end < most {
            if self.fill_once() == 0 {
                break;
            }
        }
        self.end > before
    }

    /// Reads once, and returns the number of bytes.
    fn fill_once(&mut self) -> usize {
        if self.read.len() < self.end + READ {
            self.read.resize(self.end + READ, 0);
        }
        let n = receive(&mut self.stream, &mut self.read[self.end..], &mut self.closed);
        self.end += n;
        n
    }

    /// Returns the message that begins `at` bytes after the consumed ones, if it is complete.
    ///
    /// # Errors
    /// Its header states more than `most` bytes.
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

    /// Sends as many of the given bytes as possible, if none wait before them, and returns how many.
    ///
    /// # Errors
    /// The system's error.
    pub(crate) fn send_now(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.waiting.is_empty() { send(&mut self.stream, bytes) } else { Ok(0) }
    }

    /// Takes the next header, if it is complete; [`take_bytes`](Self::take_bytes) then takes its bytes.
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

    /// Takes the available bytes that follow a header, and returns how many.
    pub(crate) fn take_bytes(&mut self, to: &mut [u8]) -> usize {
        let n = to.len().min(self.end - self.used);
        to[..n].copy_from_slice(&self.read[self.used..][..n]);
        self.consume(n);
        // The rest is read without an intermediate copy.
        let more =
            if n < to.len() && !self.closed { receive(&mut self.stream, &mut to[n..], &mut self.closed) } else { 0 };
        n + more
    }

    /// Sends nothing more: the other end reads the bytes in flight, and then the end of the stream.
    pub(crate) fn finish(&mut self) {
        // A lost rank needs no notification.
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
    }

    /// Marks bytes as consumed.
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

/// Sends as many bytes as possible, and returns how many.
fn send(stream: &mut TcpStream, bytes: &[u8]) -> std::io::Result<usize> {
    loop {
        match stream.write(bytes) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(0),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Reads the available bytes, and returns how many.
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

    /// A number, and the number of bytes that follow.
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
    fn messages_of_any_length_arrive_complete_and_in_order() {
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
    fn messages_can_be_peeked_and_consumed_later() {
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
