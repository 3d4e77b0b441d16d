//! Untyped values of the authoring API, for the evaluator.

use std::rc::Rc;

use crate::types::{BlockSync, BufferKind, ChannelKind, ReduceOp};

/// Number of a rank (or of another object) for which a diagnostic has been reported; operations on it are ignored.
pub(crate) const POISON: u32 = u32::MAX;

/// A range of chunks of one rank's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkValue {
    /// The owner.
    pub rank: u32,
    /// Which buffer.
    pub buffer: BufferKind,
    /// First chunk.
    pub index: u32,
    /// Number of chunks.
    pub size: u32,
}

impl ChunkValue {
    pub(crate) const POISON: Self = Self { rank: POISON, buffer: BufferKind::Scratch, index: 0, size: 1 };

    pub(crate) fn is_poison(&self) -> bool {
        self.rank == POISON
    }
}

/// A buffer, or for scratch one allocation of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferValue {
    /// The owner.
    pub rank: u32,
    /// Which buffer.
    pub buffer: BufferKind,
    /// First chunk.
    pub start: u32,
    /// Number of chunks.
    pub len: u32,
}

/// A memory or port channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelValue {
    /// Memory or port.
    pub kind: ChannelKind,
    /// The rank that owns this end.
    pub src: u32,
    /// The peer.
    pub dst: u32,
    /// Rank-level number among the owner's channels of the kind.
    pub id: u32,
}

/// A switch channel (`member` = `None`), or one bound to a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchValue {
    /// Number of the switch channel in the program.
    pub channel: u32,
    /// The member to which it is bound.
    pub member: Option<u32>,
}

/// The thread blocks of a group, in order.
pub type GroupValue = Rc<[u32]>;

/// The operations that one call recorded: a contiguous range of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpsValue {
    /// First operation.
    pub first: u32,
    /// Number of operations; 0 if the call recorded none.
    pub count: u32,
}

/// A range of integers; an open end is `None`. `end` is exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeValue {
    /// First number.
    pub start: Option<i128>,
    /// One past the last number.
    pub end: Option<i128>,
}

/// Any argument or result of a call of the authoring API.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `()`
    Unit,
    /// An integer of any type.
    Int(i128),
    /// A boolean.
    Bool(bool),
    /// A range of integers.
    Range(RangeValue),
    /// An array, slice, `Vec` or exhausted iterator.
    List(Rc<Vec<Value>>),
    /// A rank.
    Rank(u32),
    /// A buffer.
    Buffer(BufferValue),
    /// A chunk.
    Chunk(ChunkValue),
    /// A memory or port channel.
    Channel(ChannelValue),
    /// A switch channel.
    Switch(SwitchValue),
    /// A switch channel that is bound to a member.
    SwitchMember(SwitchValue),
    /// A semaphore: rank and number.
    Semaphore(u32, u32),
    /// A thread-block group.
    Group(GroupValue),
    /// The last recorded signal, wait or flush.
    SyncCall(OpsValue, ChannelKind),
    /// The last recorded handshake.
    Handshake(OpsValue, ChannelKind),
    /// The last recorded acquire or release.
    SemaphoreCall(OpsValue),
    /// The last recorded reduction.
    Reduction(OpsValue),
    /// The last recorded switch reduction.
    SwitchReduction(OpsValue),
    /// `BufferKind::…`
    BufferKind(BufferKind),
    /// `BlockSync::…`
    BlockSync(BlockSync),
    /// `ReduceOp::…`
    ReduceOp(ReduceOp),
}

impl Value {
    /// Returns the kind of value in terms of the API, for messages.
    pub fn kind_name(&self) -> &'static str {
        match self {
            Self::Unit => "()",
            Self::Int(_) => "an integer",
            Self::Bool(_) => "a boolean",
            Self::Range(_) => "a range",
            Self::List(_) => "a list",
            Self::Rank(_) => "a `Rank`",
            Self::Buffer(_) => "a `Buffer`",
            Self::Chunk(_) => "a `Chunk`",
            Self::Channel(channel) if channel.kind == ChannelKind::Port => "a `PortChannel`",
            Self::Channel(_) => "a `MemoryChannel`",
            Self::Switch(_) => "a `SwitchChannel`",
            Self::SwitchMember(_) => "a `SwitchMember`",
            Self::Semaphore(..) => "a `Semaphore`",
            Self::Group(_) => "a `ThreadBlockGroup`",
            Self::SyncCall(..) => "a `SyncCall`",
            Self::Handshake(..) => "a `Handshake`",
            Self::SemaphoreCall(_) => "a `SemaphoreCall`",
            Self::Reduction(_) => "a `Reduction`",
            Self::SwitchReduction(_) => "a `SwitchReduction`",
            Self::BufferKind(_) => "a `BufferKind`",
            Self::BlockSync(_) => "a `BlockSync`",
            Self::ReduceOp(_) => "a `ReduceOp`",
        }
    }

    /// Returns the name under which [`registry`](super::registry) lists this value's methods; `None` if it has none
    /// there.
    pub fn type_name(&self) -> Option<&'static str> {
        Some(match self {
            Self::Rank(_) => "Rank",
            Self::Buffer(_) => "Buffer",
            Self::Chunk(_) => "Chunk",
            Self::Channel(channel) if channel.kind == ChannelKind::Port => "PortChannel",
            Self::Channel(_) => "MemoryChannel",
            Self::Switch(_) => "SwitchChannel",
            Self::SwitchMember(_) => "SwitchMember",
            Self::Semaphore(..) => "Semaphore",
            Self::Group(_) => "ThreadBlockGroup",
            Self::SyncCall(..) => "SyncCall",
            Self::Handshake(..) => "Handshake",
            Self::SemaphoreCall(_) => "SemaphoreCall",
            Self::Reduction(_) => "Reduction",
            Self::SwitchReduction(_) => "SwitchReduction",
            _ => return None,
        })
    }
}

/// A call with invalid arguments. rustc rejects the same call with a better text; this error is for the evaluator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgError {
    /// Wrong number of arguments.
    #[error("expected {expected} arguments, found {found}")]
    Count {
        /// The function's number of arguments.
        expected: usize,
        /// The call's number of arguments.
        found: usize,
    },
    /// Wrong kind of argument.
    #[error("expected {expected} as `{name}`, found {found}")]
    Kind {
        /// The parameter.
        name: &'static str,
        /// Its position, from 0; the receiver is `usize::MAX`.
        index: usize,
        /// The expected kind.
        expected: &'static str,
        /// The kind that was found.
        found: &'static str,
    },
}
