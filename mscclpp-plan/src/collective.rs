//! The collective that a program implements: chunk counts, and which buffers an in-place call shares.

mod postcondition;

pub use postcondition::{ChunkCounts, OutputContent, Postcondition};

use crate::types::BufferKind;

/// The operation a program implements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CollectiveKind {
    /// Every rank ends with the reduction of all inputs.
    AllReduce,
    /// Every rank ends with the concatenation of all inputs.
    AllGather,
    /// Rank `r` ends with part `r` of the reduction of all inputs.
    ReduceScatter,
    /// Rank `r` ends with part `r` of every rank's input.
    AllToAll,
    /// As `AllToAll`, with parts whose lengths are counts known at run time. A rank's input is its parts for rank 0, 1, …, one
    /// directly after the other, and its output the parts that it receives from rank 0, 1, …
    AllToAllV,
    /// Rank `r` sends its input to rank `r + 1` (modulo the number of ranks).
    SendRecv,
    /// Every rank ends with the root's input.
    Broadcast,
    /// The root ends with the reduction of all inputs.
    Reduce,
    /// Chunk counts chosen by the author; the postconditions are what the program states with
    /// `expect`.
    Custom {
        /// Chunks of every rank's input.
        input: u32,
        /// Chunks of every rank's output.
        output: u32,
    },
    /// A fragment for tests: as `Custom`, under the plan name `test`.
    Test {
        /// Chunks of every rank's input.
        input: u32,
        /// Chunks of every rank's output.
        output: u32,
    },
}

impl CollectiveKind {
    /// Those whose chunk counts follow from the number of ranks.
    const FIXED: [Self; 8] = [
        Self::AllReduce,
        Self::AllGather,
        Self::ReduceScatter,
        Self::AllToAll,
        Self::AllToAllV,
        Self::SendRecv,
        Self::Broadcast,
        Self::Reduce,
    ];

    /// Returns the collective with a [`name`](Self::name); `None` also for `custom` and `test`, which have chunk counts.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::FIXED.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns whether every output is a reduction over all ranks.
    pub const fn is_reduction(self) -> bool {
        matches!(self, Self::AllReduce | Self::ReduceScatter | Self::Reduce)
    }

    /// Returns the alignment of chunks in bytes unless a program or plan text states one: 16, at which devices move whole
    /// vectors, and 1 for `Custom` and `AllToAllV`, whose chunks are exact to the element.
    pub const fn default_alignment(self) -> u32 {
        match self {
            Self::Custom { .. } | Self::AllToAllV => 1,
            _ => 16,
        }
    }

    /// Returns the name used in plan JSON and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AllReduce => "allreduce",
            Self::AllGather => "allgather",
            Self::ReduceScatter => "reducescatter",
            Self::AllToAll => "alltoall",
            Self::AllToAllV => "alltoallv",
            Self::SendRecv => "sendrecv",
            Self::Broadcast => "broadcast",
            Self::Reduce => "reduce",
            Self::Custom { .. } => "custom",
            Self::Test { .. } => "test",
        }
    }
}

/// A collective with its chunking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Collective {
    /// The operation.
    pub kind: CollectiveKind,
    /// Chunks per rank's part of the data. At least 1.
    pub chunk_factor: u32,
    /// Whether input and output of a call are one buffer.
    pub in_place: bool,
    /// The root of `Broadcast` and `Reduce`; 0 for all others.
    pub root: u32,
    /// Whether it takes dividing counts only: the bytes of a rank's part are a multiple of its chunks, each of whole
    /// alignment units, whole elements and, with packets, whole packets of 8 bytes, so that nothing is padded. Other
    /// counts are an error where it is launched.
    pub dividing: bool,
    /// Whether a message consists of rows, which no chunk divides, and the results are normalized row by row: then a launch
    /// has the residual, gamma and other operands of `row_norm`.
    pub rows: bool,
}

impl Collective {
    /// Creates an out-of-place collective with one chunk per part and root 0.
    pub const fn new(kind: CollectiveKind) -> Self {
        Self { kind, chunk_factor: 1, in_place: false, root: 0, dividing: false, rows: false }
    }

    /// Returns the chunks of every rank's input and output buffer, before replication; `None` when they exceed 32 bits.
    pub fn chunks(&self, num_ranks: u32) -> Option<(u32, u32)> {
        let factor = self.chunk_factor;
        let all = num_ranks.checked_mul(factor)?;
        Some(match self.kind {
            CollectiveKind::AllReduce | CollectiveKind::AllToAll | CollectiveKind::AllToAllV => (all, all),
            CollectiveKind::Broadcast | CollectiveKind::Reduce => (all, all),
            CollectiveKind::AllGather => (factor, all),
            CollectiveKind::ReduceScatter => (all, factor),
            CollectiveKind::SendRecv => (factor, factor),
            CollectiveKind::Custom { input, output } | CollectiveKind::Test { input, output } => (input, output),
        })
    }

    /// Returns the buffer and chunk that hold `buffer[index]` of `rank` when the call is in place.
    ///
    /// An in-place call has one buffer: the larger of input and output. This maps a chunk of the smaller one (or, if
    /// they are equal, of the output) into it. `part` is the number of chunks of one rank's part, that is `chunk_factor
    /// × instances`. Scratch and out-of-place buffers map to themselves.
    #[doc(hidden)]
    pub fn canonical_chunk(&self, rank: u32, buffer: BufferKind, index: u32, part: u32) -> (BufferKind, u32) {
        if !self.in_place {
            return (buffer, index);
        }
        let shifted = rank.saturating_mul(part).saturating_add(index);
        match (self.kind, buffer) {
            (CollectiveKind::AllGather, BufferKind::Input) => (BufferKind::Output, shifted),
            (CollectiveKind::AllGather, BufferKind::Output) => (BufferKind::Output, index),
            (CollectiveKind::ReduceScatter, BufferKind::Output) => (BufferKind::Input, shifted),
            (_, BufferKind::Output) => (BufferKind::Input, index),
            (_, buffer) => (buffer, index),
        }
    }
}
