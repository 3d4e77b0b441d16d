//! The protocol between ranks: frames of bounded length, each with the protocol version.
//!
//! A frame is a header of 12 bytes (`MSCB`, version, zero, length; little-endian) and a body. A length over the limit
//! is rejected as soon as the header has arrived, before anything is allocated for the body.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use super::error::Error;
use super::protocol::{Purpose, VERSION};
use super::rank_info::RankInfo;
use super::secret::{Nonce, Proof};

/// Maximum length of a frame's body before the peer has authenticated, in bytes.
pub(crate) const MAX_UNAUTHENTICATED_BYTES: usize = 4 << 10;
/// Maximum length of any frame's body, in bytes.
pub(crate) const BODY_BYTES: usize = 64 << 20;
/// Maximum length of a message, in bytes.
pub(crate) const MESSAGE_BYTES: usize = 16 << 20;
/// Maximum length of an all-gather's result, in bytes.
pub(crate) const GATHER_BYTES: usize = 16 << 20;
/// Length of a header, in bytes.
pub(crate) const HEADER_BYTES: usize = 12;
/// Maximum number of ranks of a communicator.
pub(crate) const MAX_RANKS: u32 = 1 << 14;

const MAGIC: [u8; 4] = *b"MSCB";

/// A protocol message from one process to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Frame {
    /// First frame of the initiator: its purpose and its nonce.
    Hello { purpose: Purpose, nonce: Nonce },
    /// The responder's proof, and its nonce.
    Challenge { nonce: Nonce, proof: Proof },
    /// The initiator's proof.
    Response { proof: Proof },
    /// The connection is rejected, with the reason.
    Rejected(Error),
    /// The stream is accepted.
    StreamAccepted,
    /// This is the right port, but the old communicator has not shut down yet; the caller should retry.
    Retry,
    /// Identity of a rank that joins.
    Join(RankInfo),
    /// Rank 0 admits a rank: how long it still waits for the others, and the timeouts that apply from now on.
    Admitted { remaining: Duration, timeout: Duration, heartbeat_timeout: Option<Duration> },
    /// All ranks have joined: their identities.
    Roster(Vec<RankInfo>),
    /// A message from one rank to another.
    Message {
        from: u32,
        to: u32,
        context: u64,
        tag: u64,
        #[serde(with = "serde_bytes")]
        bytes: Vec<u8>,
    },
    /// A rank enters a collective call. `group` lists the communicator's ranks; empty means all ranks. `place`: source
    /// location of the call.
    EnterCollective { context: u64, sequence: u64, call: Call, place: String, group: Vec<u32>, bytes: ByteBuf },
    /// All ranks have entered a collective call: the data of each.
    Gathered { context: u64, sequence: u64, parts: Vec<ByteBuf> },
    /// Rank `from` asks the other ranks of `group` for their reports; empty means all ranks.
    Query { from: u32, context: u64, id: u64, group: Vec<u32> },
    /// The report of a rank, as an answer to a query of rank `to`.
    Report { from: u32, to: u32, context: u64, id: u64, bytes: ByteBuf },
    /// The communicator has failed.
    Failed(Error),
    /// Shutdown frame: a rank leaves in order.
    Leave { rank: u32 },
    /// Acknowledges everything up to the other end's `Leave`.
    LeaveAck,
    /// Shows that the sender is running.
    Heartbeat,
}

/// A collective call, as mismatch errors name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Call {
    Barrier,
    AllGather,
    Broadcast { root: u32 },
    Split,
    Agree,
    Compare,
}

impl Display for Call {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Barrier => f.write_str("barrier"),
            Self::AllGather => f.write_str("all_gather"),
            Self::Broadcast { root } => write!(f, "broadcast from rank {root}"),
            Self::Split => f.write_str("split"),
            Self::Agree => f.write_str("agree"),
            Self::Compare => f.write_str("compare"),
        }
    }
}

/// Why bytes are not a valid frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Malformed {
    /// Not this protocol.
    Magic([u8; 4]),
    /// Another version of this protocol.
    Version(u16),
    /// A reserved field that is not zero.
    Reserved(u16),
    /// A length over the limit.
    Length { found: usize, limit: usize },
    /// A body that is not a frame.
    Body,
    /// A frame that is unexpected in the current state.
    Unexpected(&'static str),
}

impl Malformed {
    /// Returns the error that reports this about `peer`.
    pub(crate) fn of(self, peer: impl Display) -> Error {
        let peer = peer.to_string();
        let what = match self {
            Self::Version(theirs) => return Error::Version { peer, ours: VERSION, theirs },
            Self::Magic(found) => format!("expected a frame, found bytes that start with `{}`", found.escape_ascii()),
            Self::Reserved(found) => format!("expected 0 in a reserved field, found {found}"),
            Self::Length { found, limit } => format!("expected at most {limit} bytes, found a frame of {found} bytes"),
            Self::Body => "cannot decode a frame".into(),
            Self::Unexpected(expected) => format!("expected {expected}, found another frame"),
        };
        Error::Protocol { peer, what }
    }
}

impl Frame {
    /// Encodes the frame with its header.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0; 6]);
        // Encoding fails only for types that cannot be serialized, which no frame contains. If it failed nevertheless,
        // the other end would reject the empty body.
        bytes = postcard::to_extend(self, bytes).unwrap_or_default();
        let length = bytes.len().saturating_sub(HEADER_BYTES) as u32;
        if let Some(field) = bytes.get_mut(8..HEADER_BYTES) {
            field.copy_from_slice(&length.to_le_bytes());
        }
        bytes
    }

    /// Returns how many more bytes to read until `bytes` hold a frame or are known to be invalid: those of the header
    /// first.
    pub(crate) fn needs(bytes: &[u8], limit: usize) -> usize {
        match bytes.first_chunk::<HEADER_BYTES>() {
            None => HEADER_BYTES - bytes.len(),
            Some([.., l0, l1, l2, l3]) => {
                let length = u32::from_le_bytes([*l0, *l1, *l2, *l3]) as usize;
                (HEADER_BYTES + length.min(limit)).saturating_sub(bytes.len())
            }
        }
    }

    /// Decodes the first frame of `bytes`, and returns it with its length; `None` if it is incomplete.
    ///
    /// # Errors
    /// Bytes that are not a frame, or a frame of more than `limit` bytes, as soon as this is certain.
    pub(crate) fn decode(bytes: &[u8], limit: usize) -> Result<Option<(Self, usize)>, Malformed> {
        let magic = &bytes[..bytes.len().min(4)];
        if !MAGIC.starts_with(magic) {
            let mut found = [0; 4];
            found[..magic.len()].copy_from_slice(magic);
            return Err(Malformed::Magic(found));
        }
        let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let [_, _, _, _, v0, v1, r0, r1, length @ ..] = *header;
        let version = u16::from_le_bytes([v0, v1]);
        if version != VERSION {
            return Err(Malformed::Version(version));
        }
        let reserved = u16::from_le_bytes([r0, r1]);
        if reserved != 0 {
            return Err(Malformed::Reserved(reserved));
        }
        let length = u32::from_le_bytes(length) as usize;
        if length > limit {
            return Err(Malformed::Length { found: length, limit });
        }
        let end = HEADER_BYTES + length;
        let Some(body) = bytes.get(HEADER_BYTES..end) else { return Ok(None) };
        match postcard::take_from_bytes(body) {
            Ok((frame, [])) => Ok(Some((frame, end))),
            _ => Err(Malformed::Body),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message(bytes: Vec<u8>) -> Frame {
        Frame::Message { from: 1, to: 2, context: 3, tag: 4, bytes }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_decoded_or_rejected(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Frame::decode(&bytes, MAX_UNAUTHENTICATED_BYTES);
        }

        #[test]
        fn arbitrary_body_after_valid_header_is_decoded_or_rejected(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut bytes = Frame::Heartbeat.encode();
            bytes.truncate(8);
            bytes.extend_from_slice(&(body.len() as u32).to_le_bytes());
            bytes.extend_from_slice(&body);
            if let Ok(found) = Frame::decode(&bytes, MAX_UNAUTHENTICATED_BYTES) {
                prop_assert_eq!(found.map(|(_, taken)| taken), Some(bytes.len()));
            }
        }

        #[test]
        fn frames_of_a_stream_cut_anywhere_are_decoded(
            first in proptest::collection::vec(any::<u8>(), 0..50), cut in 0usize..200,
        ) {
            let frames = [message(first), Frame::Leave { rank: 9 }, Frame::Heartbeat];
            let stream: Vec<u8> = frames.iter().flat_map(Frame::encode).collect();
            let (mut seen, mut at) = (Vec::new(), 0);
            for end in [cut.min(stream.len()), stream.len()] {
                while let Some((frame, taken)) = Frame::decode(&stream[at..end], MAX_UNAUTHENTICATED_BYTES).unwrap() {
                    seen.push(frame);
                    at += taken;
                }
            }
            prop_assert_eq!(&seen[..], &frames[..]);
        }

        #[test]
        fn flipped_bit_does_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..50), bit in any::<proptest::sample::Index>()) {
            let mut stream = message(bytes).encode();
            let bit = bit.index(stream.len() * 8);
            stream[bit / 8] ^= 1 << (bit % 8);
            let _ = Frame::decode(&stream, MAX_UNAUTHENTICATED_BYTES);
        }
    }

    #[test]
    fn frame_over_the_limit_is_rejected_by_its_header() {
        let mut bytes = message(vec![0; MAX_UNAUTHENTICATED_BYTES + 1]).encode();
        bytes.truncate(HEADER_BYTES);
        assert!(matches!(
            Frame::decode(&bytes, MAX_UNAUTHENTICATED_BYTES),
            Err(Malformed::Length { limit: MAX_UNAUTHENTICATED_BYTES, .. })
        ));
        assert_eq!(Frame::decode(&bytes, BODY_BYTES), Ok(None));
    }

    #[test]
    fn other_version_is_reported() {
        let mut bytes = Frame::Heartbeat.encode();
        bytes[4] = 7;
        let error = Frame::decode(&bytes, MAX_UNAUTHENTICATED_BYTES).unwrap_err().of("rank 3");
        assert_eq!(error, Error::Version { peer: "rank 3".into(), ours: VERSION, theirs: 7 });
    }

    #[test]
    fn http_request_is_reported_as_foreign_protocol() {
        let error = Frame::decode(b"GET / HTTP/1.1\r\n\r\n", MAX_UNAUTHENTICATED_BYTES).unwrap_err().of("10.0.0.1:80");
        assert!(error.to_string().contains("start with `GET `"), "{error}");
    }
}
