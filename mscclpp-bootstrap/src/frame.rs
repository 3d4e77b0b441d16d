//! What travels between ranks: frames of a bounded length, each with the version of the protocol.
//!
//! A frame is a header of 12 bytes (`MSCB`, version, zero, length; little-endian) and a body. A length over the limit is
//! refused when its header has come, before anything is allocated for it.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use super::error::Error;
use super::rank_info::RankInfo;
use super::secret::{Nonce, Proof};

/// The version of the protocol. Changes with every change of [`Frame`].
pub(crate) const VERSION: u16 = 2;
/// Longest body of a frame before the other end has proved that it knows the secret, in bytes.
pub(crate) const MAX_UNAUTHENTICATED_BYTES: usize = 4 << 10;
/// Longest body of any frame, in bytes.
pub(crate) const BODY_BYTES: usize = 64 << 20;
/// Longest message, in bytes.
pub(crate) const MESSAGE_BYTES: usize = 16 << 20;
/// Longest result of an all-gather, in bytes.
pub(crate) const GATHER_BYTES: usize = 16 << 20;
/// Bytes of a header.
pub(crate) const HEADER_BYTES: usize = 12;
/// Most ranks of a group.
pub(crate) const MAX_RANKS: u32 = 1 << 14;

const MAGIC: [u8; 4] = *b"MSCB";

/// What one process says to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Frame {
    /// First word of whoever connects: what for, and a question that only the secret answers.
    Hello { purpose: Purpose, nonce: Nonce },
    /// The answer, and a question back.
    Challenge { nonce: Nonce, proof: Proof },
    /// The answer to that.
    Response { proof: Proof },
    /// A closed door, and why.
    Rejected(Error),
    /// An open door.
    StreamAccepted,
    /// The right door, but not yet: the old group has not noticed its end.
    Retry,
    /// Who comes to the group.
    Join(RankInfo),
    /// Rank 0 takes a rank in: how long it still waits for the others, and the deadlines that hold from now on.
    Admitted { remaining: Duration, deadline: Duration, heartbeat_timeout: Option<Duration> },
    /// All ranks have come: who they are.
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
    /// A rank has come to a collective call. `group` lists its ranks; none stands for all.
    EnterCollective { context: u64, sequence: u64, call: Call, group: Vec<u32>, bytes: ByteBuf },
    /// All ranks have come to a collective call: what each brought.
    Gathered { context: u64, sequence: u64, parts: Vec<ByteBuf> },
    /// The group is finished.
    Failed(Error),
    /// A rank has ended in order.
    Leave { rank: u32 },
    /// Everything up to the other end's `Leave` has come.
    LeaveAck,
    /// A sign of life.
    Heartbeat,
}

/// Why somebody connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Purpose {
    /// To join a group of `ranks` ranks as `rank`.
    Join { rank: u32, ranks: u32 },
    /// To open a stream from rank `from`, with a number that both ends know.
    Stream { from: u32, context: u64, id: u64 },
}

impl Purpose {
    /// Who connects.
    pub(crate) fn rank(&self) -> u32 {
        match *self {
            Self::Join { rank, .. } => rank,
            Self::Stream { from, .. } => from,
        }
    }
}

/// A collective call, as mismatches name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Call {
    Barrier,
    AllGather,
    Broadcast { root: u32 },
    Split,
    Agree,
}

impl Display for Call {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Barrier => f.write_str("barrier"),
            Self::AllGather => f.write_str("all_gather"),
            Self::Broadcast { root } => write!(f, "broadcast from rank {root}"),
            Self::Split => f.write_str("split"),
            Self::Agree => f.write_str("agree"),
        }
    }
}

/// What is wrong with bytes that should be a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Malformed {
    /// Not our protocol at all.
    Magic([u8; 4]),
    /// Another version of it.
    Version(u16),
    /// A reserved field that is not zero.
    Reserved(u16),
    /// A length over the limit.
    Length { found: usize, limit: usize },
    /// A body that is no frame.
    Body,
    /// A frame that has no place here.
    Unexpected(&'static str),
}

impl Malformed {
    /// The error that says so about `peer`.
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
    /// The frame with its header.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0; 6]);
        // Only a type that refuses to be serialised fails here, and none in a frame does. An empty body would be refused
        // by the other end, which is the right end for what cannot happen.
        bytes = postcard::to_extend(self, bytes).unwrap_or_default();
        let length = bytes.len().saturating_sub(HEADER_BYTES) as u32;
        if let Some(field) = bytes.get_mut(8..HEADER_BYTES) {
            field.copy_from_slice(&length.to_le_bytes());
        }
        bytes
    }

    /// How many bytes are still to be read until `bytes` hold a frame, or show that they are none: those of the header first.
    pub(crate) fn needs(bytes: &[u8], limit: usize) -> usize {
        match bytes.first_chunk::<HEADER_BYTES>() {
            None => HEADER_BYTES - bytes.len(),
            Some([.., l0, l1, l2, l3]) => {
                let length = u32::from_le_bytes([*l0, *l1, *l2, *l3]) as usize;
                (HEADER_BYTES + length.min(limit)).saturating_sub(bytes.len())
            }
        }
    }

    /// Takes the first frame from the front of `bytes`, and says how many bytes it had; `None` if it is not all there.
    ///
    /// # Errors
    /// Bytes that are no frame, or a frame of more than `limit` bytes: as soon as that is certain.
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
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Frame::decode(&bytes, MAX_UNAUTHENTICATED_BYTES);
        }

        #[test]
        fn any_body_behind_a_right_header_is_read_or_refused(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut bytes = Frame::Heartbeat.encode();
            bytes.truncate(8);
            bytes.extend_from_slice(&(body.len() as u32).to_le_bytes());
            bytes.extend_from_slice(&body);
            if let Ok(found) = Frame::decode(&bytes, MAX_UNAUTHENTICATED_BYTES) {
                prop_assert_eq!(found.map(|(_, taken)| taken), Some(bytes.len()));
            }
        }

        #[test]
        fn frames_come_back_from_a_stream_cut_anywhere(
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
        fn a_flipped_bit_is_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..50), bit in any::<proptest::sample::Index>()) {
            let mut stream = message(bytes).encode();
            let bit = bit.index(stream.len() * 8);
            stream[bit / 8] ^= 1 << (bit % 8);
            let _ = Frame::decode(&stream, MAX_UNAUTHENTICATED_BYTES);
        }
    }

    #[test]
    fn a_long_frame_is_refused_by_its_header() {
        let mut bytes = message(vec![0; MAX_UNAUTHENTICATED_BYTES + 1]).encode();
        bytes.truncate(HEADER_BYTES);
        assert!(matches!(
            Frame::decode(&bytes, MAX_UNAUTHENTICATED_BYTES),
            Err(Malformed::Length { limit: MAX_UNAUTHENTICATED_BYTES, .. })
        ));
        assert_eq!(Frame::decode(&bytes, BODY_BYTES), Ok(None));
    }

    #[test]
    fn another_version_is_named() {
        let mut bytes = Frame::Heartbeat.encode();
        bytes[4] = 7;
        let error = Frame::decode(&bytes, MAX_UNAUTHENTICATED_BYTES).unwrap_err().of("rank 3");
        assert_eq!(error, Error::Version { peer: "rank 3".into(), ours: VERSION, theirs: 7 });
    }

    #[test]
    fn a_web_browser_is_told_from_a_rank() {
        let error = Frame::decode(b"GET / HTTP/1.1\r\n\r\n", MAX_UNAUTHENTICATED_BYTES).unwrap_err().of("10.0.0.1:80");
        assert!(error.to_string().contains("start with `GET `"), "{error}");
    }
}
