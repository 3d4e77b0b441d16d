//! The protocol between ranks: frames of bounded length, each with the protocol version.
//!
//! A frame is a header of 12 bytes (`MSCB`, version, zero or one, length; little-endian) and a body. A length over the
//! limit is rejected as soon as the header has arrived, before anything is allocated for the body. After the handshake
//! the field after the version is one, and a [seal](super::mac) between header and body authenticates both.

use std::fmt::{self, Display, Formatter};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use super::error::Error;
use super::mac::{self, Digest, FrameKey, SEAL_BYTES};
use super::protocol::{Nonce, Purpose, VERSION};
use super::rank_info::RankInfo;
use super::secret::Proof;
use super::status::{CommunicatorReport, JobReport, Topic};

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
pub const MAX_RANKS: u32 = 1 << 14;

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
    /// Rank 0 admits a rank: how long it still waits for the others, the timeouts that apply from now on, and the
    /// random number of the job.
    Admitted { remaining: Duration, timeout: Duration, heartbeat_timeout: Option<Duration>, job: Nonce },
    /// All ranks have joined: their identities, and the generation of the job.
    Roster(Vec<RankInfo>, u32),
    /// A message from one rank to another.
    Message {
        from: u32,
        to: u32,
        context: u64,
        tag: u64,
        #[serde(with = "serde_bytes")]
        bytes: Vec<u8>,
    },
    /// A rank enters a collective call, and waits at most `timeout` for the others. `group` lists the communicator's
    /// ranks; empty means all ranks. `place`: source location of the call. `part_of`: the call of the program of which it is a part, which
    /// messages name instead.
    EnterCollective {
        context: u64,
        sequence: u64,
        call: Call,
        part_of: Option<String>,
        place: String,
        group: Vec<u32>,
        timeout: Duration,
        bytes: ByteBuf,
    },
    /// All ranks have entered a collective call: the data of each.
    Gathered { context: u64, sequence: u64, parts: Vec<ByteBuf> },
    /// Rank `from` asks the other ranks of `group` for their reports; empty means all ranks.
    Query { from: u32, context: u64, id: u64, group: Vec<u32> },
    /// The report of a rank, as an answer to a query of rank `to`.
    Report { from: u32, to: u32, context: u64, id: u64, bytes: ByteBuf },
    /// A rank continues without lost ranks of a communicator, of which `group` lists the ranks. `has_failed`: whether the
    /// communicator has, as far as the rank knows.
    EnterShrink { context: u64, group: Vec<u32>, lost: Vec<u32>, has_failed: bool, timeout: Duration },
    /// The number and the ranks of the communicator of the remaining ranks, or why there is none for the receiver.
    Shrunk { context: u64, result: Result<(u64, Vec<u32>), Error> },
    /// All communicators of the job have failed.
    Failed(Error),
    /// A communicator has failed, and with it those that were split from it. `group` lists its ranks; empty means all ranks.
    CommunicatorFailed { context: u64, group: Vec<u32>, error: Error },
    /// A rank is lost: all communicators that contain it have failed.
    Lost { rank: u32, error: Error },
    /// A call of a rank has failed, and no communicator. If the rank ends, this is why. Rank 0 sends its own to all ranks.
    CallFailed(Error),
    /// A rank has noticed the next failure of those that rank 0 has sent.
    FailureAck,
    /// Shutdown frame: a rank leaves in order.
    Leave { rank: u32 },
    /// Acknowledges everything up to the other end's `Leave`.
    LeaveAck,
    /// Shows that the sender is running.
    Heartbeat,
    /// A process that is no rank asks what all ranks report about a topic.
    Observe(Topic),
    /// The answer to that.
    Observed(JobReport),
    /// Rank 0 asks a rank for its reports about a topic.
    Inspect { id: u64, topic: Topic },
    /// The answer to that: a report for each communicator.
    Inspected { id: u64, reports: Vec<CommunicatorReport> },
    /// Where rank 0 of the job listens.
    Located(SocketAddr),
}

impl Frame {
    /// Returns whether the frame ends calls of its receiver.
    pub(crate) fn is_failure(&self) -> bool {
        matches!(self, Self::Failed(_) | Self::CommunicatorFailed { .. } | Self::Lost { .. })
    }
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
    /// The field that distinguishes frames before and after authentication.
    Reserved { expected: u16, found: u16 },
    /// A frame that fails authentication.
    Seal,
    /// The same, with the frame's number and the ranks of both ends.
    Unauthenticated { frame: u64, from: u32, to: u32 },
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
            Self::Unauthenticated { frame, from, to } => {
                return Error::FrameAuthenticationFailed { from, to, frame, connection: "control".into() };
            }
            Self::Magic(found) => format!("expected a frame, found bytes that start with `{}`", found.escape_ascii()),
            Self::Reserved { expected, found } => format!("expected {expected} after the version, found {found}"),
            Self::Length { found, limit } => format!("expected at most {limit} bytes, found a frame of {found} bytes"),
            Self::Seal => "found a frame that fails authentication".into(),
            Self::Body => "cannot decode a frame".into(),
            Self::Unexpected(expected) => format!("expected {expected}, found another frame"),
        };
        Error::Protocol { peer, what }
    }
}

/// An encoded frame without its header, which several connections share.
#[derive(Clone, Debug)]
pub(crate) struct EncodedFrame {
    pub(crate) body: Arc<[u8]>,
    digest: Digest,
}

impl EncodedFrame {
    /// Returns what precedes the body: the header, and with a key the seal.
    pub(crate) fn prefix(&self, key: Option<&mut FrameKey>) -> Vec<u8> {
        let mut prefix = Vec::with_capacity(HEADER_BYTES + SEAL_BYTES);
        prefix.extend_from_slice(&MAGIC);
        prefix.extend_from_slice(&VERSION.to_le_bytes());
        prefix.extend_from_slice(&u16::from(key.is_some()).to_le_bytes());
        prefix.extend_from_slice(&(self.body.len() as u32).to_le_bytes());
        if let Some(key) = key {
            let seal = key.seal(&prefix, &self.digest);
            prefix.extend_from_slice(&seal);
        }
        prefix
    }
}

/// Length of a frame's body, and its digest if the frame is authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prefix {
    /// Length of the prefix itself.
    bytes: usize,
    body_bytes: usize,
    digest: Option<Digest>,
}

impl Prefix {
    /// Decodes what precedes a body; `None` if it is incomplete. With a key, the frame must be authenticated, and the
    /// key counts it.
    ///
    /// # Errors
    /// Bytes that begin no frame of at most `limit` bytes, as soon as this is certain.
    pub(crate) fn decode(bytes: &[u8], limit: usize, key: Option<&mut FrameKey>) -> Result<Option<Self>, Malformed> {
        let Some(key) = key else {
            let Some((header, body_bytes)) = decode_header(bytes, 0)? else { return Ok(None) };
            return Self::within(limit, Self { bytes: header.len(), body_bytes, digest: None });
        };
        // A header that this protocol does not send after the handshake was changed, too.
        let Some((header, body_bytes)) = decode_header(bytes, 1).map_err(|_| Malformed::Seal)? else { return Ok(None) };
        let Some(seal) = bytes[HEADER_BYTES..].first_chunk() else { return Ok(None) };
        let digest = Some(key.open(header, seal).ok_or(Malformed::Seal)?);
        Self::within(limit, Self { bytes: HEADER_BYTES + SEAL_BYTES, body_bytes, digest })
    }

    fn within(limit: usize, prefix: Self) -> Result<Option<Self>, Malformed> {
        match prefix.body_bytes {
            found if found > limit => Err(Malformed::Length { found, limit }),
            _ => Ok(Some(prefix)),
        }
    }

    /// Returns the length of the whole frame.
    pub(crate) fn frame_bytes(&self) -> usize {
        self.bytes + self.body_bytes
    }

    /// Decodes the frame that `bytes` begin with; `None` if it is incomplete.
    ///
    /// # Errors
    /// A body that is not the one whose digest was authenticated, or that is not a frame.
    pub(crate) fn decode_frame(&self, bytes: &[u8]) -> Result<Option<Frame>, Malformed> {
        let Some(body) = bytes.get(self.bytes..self.frame_bytes()) else { return Ok(None) };
        if self.digest.is_some_and(|digest| digest != mac::digest(body)) {
            return Err(Malformed::Seal);
        }
        match postcard::take_from_bytes(body) {
            Ok((frame, [])) => Ok(Some(frame)),
            _ => Err(Malformed::Body),
        }
    }
}

/// Returns the header that `bytes` begin with and the length of the body; `None` if it is incomplete.
fn decode_header(bytes: &[u8], authenticated: u16) -> Result<Option<(&[u8; HEADER_BYTES], usize)>, Malformed> {
    let magic = &bytes[..bytes.len().min(4)];
    if !MAGIC.starts_with(magic) {
        let mut found = [0; 4];
        found[..magic.len()].copy_from_slice(magic);
        return Err(Malformed::Magic(found));
    }
    let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
    let [_, _, _, _, v0, v1, a0, a1, length @ ..] = *header;
    let version = u16::from_le_bytes([v0, v1]);
    if version != VERSION {
        return Err(Malformed::Version(version));
    }
    match u16::from_le_bytes([a0, a1]) {
        found if found != authenticated => Err(Malformed::Reserved { expected: authenticated, found }),
        _ => Ok(Some((header, u32::from_le_bytes(length) as usize))),
    }
}

impl Frame {
    /// Encodes the frame without its header.
    pub(crate) fn encode(&self) -> EncodedFrame {
        // Encoding fails only for types that cannot be serialized, which no frame contains. If it failed nevertheless,
        // the other end would reject the empty body.
        let body: Arc<[u8]> = postcard::to_extend(self, Vec::with_capacity(64)).unwrap_or_default().into();
        EncodedFrame { digest: mac::digest(&body), body }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message(bytes: Vec<u8>) -> Frame {
        Frame::Message { from: 1, to: 2, context: 3, tag: 4, bytes }
    }

    /// Returns the bytes of a frame.
    fn encode(frame: &Frame, key: Option<&mut FrameKey>) -> Vec<u8> {
        let encoded = frame.encode();
        [&encoded.prefix(key), &encoded.body[..]].concat()
    }

    /// Decodes the first frame of `bytes`, and returns it with its length; `None` if it is incomplete.
    fn decode(bytes: &[u8], limit: usize, key: Option<&mut FrameKey>) -> Result<Option<(Frame, usize)>, Malformed> {
        let Some(prefix) = Prefix::decode(bytes, limit, key)? else { return Ok(None) };
        Ok(prefix.decode_frame(bytes)?.map(|frame| (frame, prefix.frame_bytes())))
    }

    fn keys() -> (FrameKey, FrameKey) {
        (FrameKey::new(&[7; 32]), FrameKey::new(&[7; 32]))
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_decoded_or_rejected(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes, MAX_UNAUTHENTICATED_BYTES, None);
            prop_assert!(!matches!(decode(&bytes, BODY_BYTES, Some(&mut keys().1)), Ok(Some(_))));
        }

        #[test]
        fn arbitrary_body_after_valid_header_is_decoded_or_rejected(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut bytes = encode(&Frame::Heartbeat, None);
            bytes.truncate(8);
            bytes.extend_from_slice(&(body.len() as u32).to_le_bytes());
            bytes.extend_from_slice(&body);
            if let Ok(found) = decode(&bytes, MAX_UNAUTHENTICATED_BYTES, None) {
                prop_assert_eq!(found.map(|(_, taken)| taken), Some(bytes.len()));
            }
        }

        #[test]
        fn frames_of_a_stream_cut_anywhere_are_decoded(
            first in proptest::collection::vec(any::<u8>(), 0..50), cut in 0usize..200, authenticated in any::<bool>(),
        ) {
            let frames = [message(first), Frame::Leave { rank: 9 }, Frame::Heartbeat];
            let (mut send, mut receive) = keys();
            let stream: Vec<u8> =
                frames.iter().flat_map(|frame| encode(frame, authenticated.then_some(&mut send))).collect();
            let (mut seen, mut at, mut prefix) = (Vec::new(), 0, None);
            for end in [cut.min(stream.len()), stream.len()] {
                loop {
                    let bytes = &stream[at..end];
                    if prefix.is_none() {
                        let key = authenticated.then_some(&mut receive);
                        prefix = Prefix::decode(bytes, MAX_UNAUTHENTICATED_BYTES, key).unwrap();
                    }
                    let Some(known) = prefix else { break };
                    let Some(frame) = known.decode_frame(bytes).unwrap() else { break };
                    seen.push(frame);
                    (at, prefix) = (at + known.frame_bytes(), None);
                }
            }
            prop_assert_eq!(&seen[..], &frames[..]);
        }

        #[test]
        fn flipped_bit_does_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..50), bit in any::<proptest::sample::Index>()) {
            let mut stream = encode(&message(bytes), None);
            let bit = bit.index(stream.len() * 8);
            stream[bit / 8] ^= 1 << (bit % 8);
            let _ = decode(&stream, MAX_UNAUTHENTICATED_BYTES, None);
        }

        #[test]
        fn flipped_bit_of_an_authenticated_frame_is_rejected_when_its_prefix_or_body_is_complete(
            bytes in proptest::collection::vec(any::<u8>(), 0..50), bit in any::<proptest::sample::Index>(),
        ) {
            let (mut send, mut receive) = keys();
            let mut stream = encode(&message(bytes), Some(&mut send));
            let bit = bit.index(stream.len() * 8);
            stream[bit / 8] ^= 1 << (bit % 8);
            // A changed length is not waited for.
            let end = if bit / 8 < HEADER_BYTES + SEAL_BYTES { HEADER_BYTES + SEAL_BYTES } else { stream.len() };
            prop_assert!(decode(&stream[..end], BODY_BYTES, Some(&mut receive)).is_err());
        }
    }

    #[test]
    fn frame_over_the_limit_is_rejected_by_its_header() {
        let mut bytes = encode(&message(vec![0; MAX_UNAUTHENTICATED_BYTES + 1]), None);
        bytes.truncate(HEADER_BYTES);
        assert!(matches!(
            decode(&bytes, MAX_UNAUTHENTICATED_BYTES, None),
            Err(Malformed::Length { limit: MAX_UNAUTHENTICATED_BYTES, .. })
        ));
        assert_eq!(decode(&bytes, BODY_BYTES, None), Ok(None));
    }

    #[test]
    fn other_version_is_reported() {
        let mut bytes = encode(&Frame::Heartbeat, None);
        let theirs = VERSION + 1;
        bytes[4..6].copy_from_slice(&theirs.to_le_bytes());
        let error = decode(&bytes, MAX_UNAUTHENTICATED_BYTES, None).unwrap_err().of("rank 3");
        assert_eq!(error, Error::Version { peer: "rank 3".into(), ours: VERSION, theirs });
    }

    #[test]
    fn frames_with_and_without_seal_are_distinguished() {
        let (mut send, mut receive) = keys();
        let found = decode(&encode(&Frame::Heartbeat, Some(&mut send)), BODY_BYTES, None);
        assert_eq!(found, Err(Malformed::Reserved { expected: 0, found: 1 }));
        let found = decode(&encode(&Frame::Heartbeat, None), BODY_BYTES, Some(&mut receive));
        assert_eq!(found, Err(Malformed::Seal));
    }

    #[test]
    fn http_request_is_reported_as_foreign_protocol() {
        let error = decode(b"GET / HTTP/1.1\r\n\r\n", MAX_UNAUTHENTICATED_BYTES, None).unwrap_err().of("10.0.0.1:80");
        assert!(error.to_string().contains("start with `GET `"), "{error}");
    }
}
