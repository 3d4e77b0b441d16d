//! Records on the stream of a connection, beside the messages that UCX carries: what both sides have to agree on, what the
//! receiver has consumed, and the last message. The stream's end is how a closed peer is noticed, whatever UCX notices.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};

use mscclpp_bootstrap::{SEAL_BYTES, StreamKeys, digest};

use super::inbox::Token;
use crate::discard_arrived;
use crate::frame::{FRAME_BYTES, Malformed};

/// Number of bytes of a record's header: its kind, and the length of its body. Other than that of a frame, so that no record has
/// the code of a message although the keys are the same.
const RECORD_BYTES: usize = 2 * 8;

/// Maximum number of bytes of a body. Addresses of UCX have some hundred bytes per device.
const MAX_BODY_BYTES: u64 = 1 << 16;

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Record {
    /// The sender can use UCX: how its messages are recognized, and the address of its worker.
    Address(Token, Vec<u8>),
    /// The sender cannot use UCX: messages follow on the stream.
    Tcp,
    /// How the sender would use UCX for this pair.
    Vote(Vote),
    /// Number of active messages that the sender has consumed.
    Consumed(u64),
    /// The number of active messages that the sender has sent, which are all, and the frame of a last message after them.
    End(u64, Option<[u8; FRAME_BYTES]>),
    /// Why UCX of the sender has lost the receiver.
    Broken(String),
}

/// What UCX would use for a pair of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Vote {
    /// Nothing: it cannot connect.
    Unreachable,
    /// Sockets, or it does not say.
    Sockets,
    Rdma,
    /// Nothing but memory that the ranks share.
    SharedMemory,
}

/// The stream of a connection.
pub(super) struct Control {
    stream: TcpStream,
    keys: Option<StreamKeys>,
    /// Bytes that wait to be sent.
    outgoing: Vec<u8>,
    /// Bytes of the record that arrives.
    incoming: Vec<u8>,
    /// Whether nothing more arrives.
    is_closed: bool,
}

impl Record {
    fn encode(&self) -> (u64, Vec<u8>) {
        match self {
            Self::Address(token, address) => (1, [&token[..], address].concat()),
            Self::Tcp => (2, Vec::new()),
            Self::Vote(vote) => (3, vec![*vote as u8]),
            Self::Consumed(count) => (4, count.to_le_bytes().to_vec()),
            Self::Broken(reason) => (6, reason.as_bytes().to_vec()),
            Self::End(count, last) => {
                (5, [&count.to_le_bytes()[..], last.as_ref().map_or(&[], |frame| frame)].concat())
            }
        }
    }

    fn decode(kind: u64, body: &[u8]) -> Option<Self> {
        let count = |bytes: &[u8]| bytes.try_into().ok().map(u64::from_le_bytes);
        Some(match kind {
            1 => body.split_first_chunk().map(|(token, address)| Self::Address(*token, address.to_vec()))?,
            2 if body.is_empty() => Self::Tcp,
            3 => match body {
                [0] => Self::Vote(Vote::Unreachable),
                [1] => Self::Vote(Vote::Sockets),
                [2] => Self::Vote(Vote::Rdma),
                [3] => Self::Vote(Vote::SharedMemory),
                _ => return None,
            },
            4 => Self::Consumed(count(body)?),
            5 => {
                let (count, last) = body.split_first_chunk::<8>()?;
                let last = if last.is_empty() { None } else { Some(last.try_into().ok()?) };
                Self::End(u64::from_le_bytes(*count), last)
            }
            6 => Self::Broken(String::from_utf8(body.to_vec()).ok()?),
            _ => return None,
        })
    }
}

impl Control {
    pub(super) fn new(stream: TcpStream, keys: Option<StreamKeys>) -> std::io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, keys, outgoing: Vec::new(), incoming: Vec::new(), is_closed: false })
    }

    /// Sends a record, now or with a later call of [`write`](Self::write).
    pub(super) fn send(&mut self, record: &Record) {
        let (kind, body) = record.encode();
        let header = [kind.to_le_bytes(), (body.len() as u64).to_le_bytes()].concat();
        let seal = self.keys.as_mut().map(|keys| keys.send.seal(&header, &digest(&body)));
        self.outgoing.extend(header.iter().chain(seal.iter().flatten()).chain(&body));
        self.write();
    }

    /// Sends what waits, and returns whether nothing does any more.
    pub(super) fn write(&mut self) -> bool {
        while !self.outgoing.is_empty() {
            match mscclpp_bootstrap::send_vectored(&self.stream, &[std::io::IoSlice::new(&self.outgoing)]) {
                Ok(n) => drop(self.outgoing.drain(..n)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                // The peer's end of the stream says the same.
                Err(_) => self.outgoing.clear(),
            }
        }
        true
    }

    /// Returns the next record, if it is complete. Reads nothing of what follows it.
    ///
    /// # Errors
    /// It is no record, or fails authentication.
    pub(super) fn receive(&mut self) -> Result<Option<Record>, Malformed> {
        let prefix_bytes = RECORD_BYTES + if self.keys.is_some() { SEAL_BYTES } else { 0 };
        if !self.fill(prefix_bytes) {
            return Ok(None);
        }
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| self.incoming[8 * at + byte]));
        let (kind, len) = (word(0), word(1));
        if len > MAX_BODY_BYTES {
            return Err(Malformed::TooLong { len, most: MAX_BODY_BYTES });
        }
        if !self.fill(prefix_bytes + len as usize) {
            return Ok(None);
        }
        let incoming = std::mem::take(&mut self.incoming);
        let (prefix, body) = incoming.split_at(prefix_bytes);
        if let Some(keys) = &mut self.keys {
            let (header, seal) = prefix.split_at(RECORD_BYTES);
            let number = keys.receive.number();
            let opened = seal.first_chunk().and_then(|seal| keys.receive.open(header, seal));
            if opened != Some(digest(body)) {
                return Err(Malformed::Unauthenticated { number });
            }
        }
        Record::decode(kind, body).map(Some).ok_or(Malformed::Frame([kind, len, 0, 0, 0, 0, 0]))
    }

    /// Reads until there are `len` bytes of the record, and returns whether there are.
    fn fill(&mut self, len: usize) -> bool {
        while !self.is_closed && self.incoming.len() < len {
            let filled = self.incoming.len();
            self.incoming.resize(len, 0);
            let read = self.stream.read(&mut self.incoming[filled..]);
            self.incoming.truncate(filled + read.as_ref().map_or(0, |n| *n));
            match read {
                Ok(n) if n > 0 => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                _ => self.is_closed = true,
            }
        }
        self.incoming.len() >= len
    }

    /// Returns whether nothing more arrives.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Ends the stream, as the peer sees it.
    pub(super) fn shutdown(&mut self) {
        let _ = self.stream.flush();
        // A lost peer needs no notification.
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Ends the stream, which is about to be closed.
    pub(super) fn end(&mut self) {
        self.shutdown();
        discard_arrived(&self.stream);
    }

    /// Returns the stream, for messages.
    pub(super) fn into_stream(self) -> TcpStream {
        self.stream
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::streams;

    fn records() -> [Record; 10] {
        [
            Record::Address([3; 16], vec![1, 2, 3]),
            Record::Tcp,
            Record::Vote(Vote::Unreachable),
            Record::Vote(Vote::Sockets),
            Record::Vote(Vote::Rdma),
            Record::Vote(Vote::SharedMemory),
            Record::Consumed(1 << 40),
            Record::End(7, None),
            Record::End(7, Some([9; FRAME_BYTES])),
            Record::Broken("Connection reset by remote peer".into()),
        ]
    }

    fn receive(control: &mut Control) -> Result<Option<Record>, Malformed> {
        loop {
            match control.receive() {
                Ok(None) if !control.is_closed() => {}
                other => return other,
            }
        }
    }

    #[test]
    fn records_arrive_whole_and_leave_what_follows() {
        for keys in [[None, None], StreamKeys::pair().expect("random numbers").map(Some)] {
            let ([one, other], [send, receive_keys]) = (streams(), keys);
            let (mut from, mut to) = (Control::new(one, send).unwrap(), Control::new(other, receive_keys).unwrap());
            for record in records() {
                from.send(&record);
                from.stream.write_all(b"next").expect("a stream");
                assert_eq!(receive(&mut to), Ok(Some(record)));
                let mut next = [0; 4];
                while to.stream.read_exact(&mut next).is_err() {}
                assert_eq!(&next, b"next");
            }
            drop(from);
            assert_eq!(receive(&mut to), Ok(None));
        }
    }

    #[test]
    fn changed_records_are_rejected() {
        let [send, keys] = StreamKeys::pair().expect("random numbers");
        let mut bytes = Vec::new();
        {
            let [one, mut other] = streams();
            Control::new(one, Some(send)).unwrap().send(&Record::Consumed(5));
            other.read_to_end(&mut bytes).expect("a stream");
        }
        for at in 0..bytes.len() {
            let [mut one, other] = streams();
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            one.write_all(&changed).expect("a stream");
            drop(one);
            let found = receive(&mut Control::new(other, Some(keys.clone())).unwrap());
            assert!(!matches!(found, Ok(Some(_))), "byte {at}: {found:?}");
        }
        for bytes in [[9_u64, 0], [2, 1 << 20]] {
            let [mut one, other] = streams();
            one.write_all(&bytes.map(u64::to_le_bytes).concat()).expect("a stream");
            let found = receive(&mut Control::new(other, None).unwrap());
            assert!(found.is_err(), "{found:?}");
        }
    }
}
