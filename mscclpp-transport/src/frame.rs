//! The messages of a connection, and their form on the network.

use std::fmt;

/// Number of bytes of an encoded frame. The bytes of a put follow it.
pub(super) const FRAME_BYTES: usize = 7 * 8;

/// The launch that a message belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaunchId {
    /// Half of the plan's hash. Nodes need not have the same plans, because a preparation can fail on one of them.
    pub plan: u64,
    /// Number of the launch: in the communicator (process executor), or of the plan, counted from 1 (CUDA executor).
    pub launch: u64,
    /// Id of the sender's call, which the process executor compares; otherwise 0.
    pub call: u64,
}

/// A byte of a peer's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteAddress {
    /// The number under which its owner has registered the memory.
    pub key: u64,
    pub offset: u64,
}

impl RemoteAddress {
    /// Returns the address of a byte of a destination of a plan's instruction.
    pub fn of_operand(instr: u32, number: u32, offset: u64) -> Self {
        Self { key: u64::from(instr) << 32 | u64::from(number), offset }
    }

    /// Returns the instruction and the number of its destination.
    pub fn operand(self) -> (u32, u32) {
        ((self.key >> 32) as u32, self.key as u32)
    }
}

/// A message without data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Adds one to a counter: its address, or a channel of the plan as the key.
    Channel(RemoteAddress),
    /// Announces the sender's call.
    Call,
    /// The sender sends nothing more in the launch.
    End,
    /// The sender has completed all its work.
    Leave,
    /// The sender aborted.
    Abort,
}

/// A message, without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    pub launch: LaunchId,
    pub kind: FrameKind,
}

/// Kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// Bytes, which follow.
    Put {
        to: RemoteAddress,
        len: u64,
    },
    /// Zeros, which do not follow.
    Zeros {
        to: RemoteAddress,
        len: u64,
    },
    Signal(Signal),
}

/// Why received bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    Frame([u64; 7]),
    TooLong {
        len: u64,
        most: u64,
    },
    /// The message with this number on the connection, counted from 1, fails authentication.
    Unauthenticated {
        number: u64,
    },
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frame(words) => write!(f, "it sent a frame that no plan expects: {words:x?}"),
            Self::Unauthenticated { number } => write!(f, "message {number} from it failed authentication"),
            Self::TooLong { len, most } => write!(f, "it sent a message of {len} bytes, expected at most {most} bytes"),
        }
    }
}

impl Frame {
    /// Returns the number of bytes that follow.
    pub fn len(&self) -> u64 {
        match self.kind {
            FrameKind::Put { len, .. } => len,
            FrameKind::Zeros { .. } | FrameKind::Signal(_) => 0,
        }
    }

    pub(super) fn encode(&self) -> [u8; FRAME_BYTES] {
        let nowhere = RemoteAddress { key: 0, offset: 0 };
        let (kind, to, len) = match self.kind {
            FrameKind::Put { to, len } => (1, to, len),
            FrameKind::Zeros { to, len } => (2, to, len),
            FrameKind::Signal(Signal::Channel(to)) => (3, to, 0),
            FrameKind::Signal(Signal::Call) => (4, nowhere, 0),
            FrameKind::Signal(Signal::End) => (5, nowhere, 0),
            FrameKind::Signal(Signal::Leave) => (6, nowhere, 0),
            FrameKind::Signal(Signal::Abort) => (7, nowhere, 0),
        };
        let LaunchId { plan, launch, call } = self.launch;
        let mut bytes = [0; FRAME_BYTES];
        for (to, word) in bytes.chunks_exact_mut(8).zip([kind, plan, launch, call, to.key, to.offset, len]) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Returns the frame of which these are the bytes. Only [`encode`](Self::encode)'s form is accepted.
    ///
    /// # Errors
    /// It is no frame, or a put of more than `most` bytes.
    pub(super) fn decode(bytes: &[u8; FRAME_BYTES], most: u64) -> Result<Self, Malformed> {
        let mut words = [0; 7];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        let [kind, plan, launch, call, key, offset, len] = words;
        let to = RemoteAddress { key, offset };
        let kind = match (kind, key, offset, len) {
            (1, ..) if len > most => return Err(Malformed::TooLong { len, most }),
            (1, ..) => FrameKind::Put { to, len },
            (2, ..) => FrameKind::Zeros { to, len },
            (3, _, _, 0) => FrameKind::Signal(Signal::Channel(to)),
            (4, 0, 0, 0) => FrameKind::Signal(Signal::Call),
            (5, 0, 0, 0) => FrameKind::Signal(Signal::End),
            (6, 0, 0, 0) => FrameKind::Signal(Signal::Leave),
            (7, 0, 0, 0) => FrameKind::Signal(Signal::Abort),
            _ => return Err(Malformed::Frame(words)),
        };
        Ok(Self { launch: LaunchId { plan, launch, call }, kind })
    }
}
