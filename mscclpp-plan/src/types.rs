//! Basic types: kinds of buffers, channels, reductions and synchronization.

use std::fmt;

/// A buffer of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(u8)]
pub enum BufferKind {
    /// The buffer that the caller passes for reading.
    #[default]
    Input,
    /// The buffer that the caller receives results in.
    Output,
    /// Rank-private working memory of the plan; holds plain data or packets.
    Scratch,
}

impl BufferKind {
    /// All kinds, in the order of their discriminants.
    pub const ALL: [Self; 3] = [Self::Input, Self::Output, Self::Scratch];

    /// Returns the one-letter name used in plan JSON: `i`, `o` or `s`.
    #[doc(hidden)]
    pub const fn letter(self) -> &'static str {
        match self {
            Self::Input => "i",
            Self::Output => "o",
            Self::Scratch => "s",
        }
    }

    /// Returns the kind with a one-letter name.
    #[doc(hidden)]
    pub fn from_letter(letter: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.letter() == letter)
    }
}

impl fmt::Display for BufferKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Input => "input",
            Self::Output => "output",
            Self::Scratch => "scratch",
        })
    }
}

/// How a channel moves data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum ChannelKind {
    /// Loads and stores into the peer's mapped memory.
    Memory,
    /// A FIFO that a proxy serves (network, copy engine).
    Port,
    /// Multicast over a group of ranks.
    Switch,
}

impl ChannelKind {
    /// All kinds, in the order of their discriminants.
    pub const ALL: [Self; 3] = [Self::Memory, Self::Port, Self::Switch];

    /// Returns the name used in plan JSON and in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Port => "port",
            Self::Switch => "switch",
        }
    }

    /// Returns the kind with a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl fmt::Display for ChannelKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An element-wise reduction.
///
/// A plan whose reductions are all [`Sum`](Self::Sum) is generic: the caller of a launch may select any operation. Any
/// other operation in a plan is fixed. `Avg` adds at every step and divides by the number of ranks once, at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(u8)]
pub enum ReduceOp {
    /// Addition.
    #[default]
    Sum,
    /// Multiplication.
    Prod,
    /// Minimum.
    Min,
    /// Maximum.
    Max,
    /// Arithmetic mean over the ranks.
    Avg,
}

impl ReduceOp {
    /// All operations, in the order of their discriminants.
    pub const ALL: [Self; 5] = [Self::Sum, Self::Prod, Self::Min, Self::Max, Self::Avg];

    /// Returns the name used in plan JSON, on the command line and in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Prod => "prod",
            Self::Min => "min",
            Self::Max => "max",
            Self::Avg => "avg",
        }
    }

    /// Returns the operation with a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|op| op.name() == name)
    }
}

impl fmt::Display for ReduceOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where a synchronizing operation also synchronizes the threads of its own thread block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum BlockSync {
    /// Nowhere.
    None = 0,
    /// Before the operation, so that it releases the writes of the whole block.
    Before = 1,
    /// After the operation, so that the whole block acquires what it acquired.
    After = 2,
    /// On both sides.
    #[default]
    Both = 3,
}

impl BlockSync {
    const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::None,
            1 => Self::Before,
            2 => Self::After,
            _ => Self::Both,
        }
    }

    /// Returns the union of both.
    #[must_use]
    #[doc(hidden)]
    pub const fn union(self, other: Self) -> Self {
        Self::from_bits(self as u8 | other as u8)
    }

    /// Returns this without the other.
    #[must_use]
    #[doc(hidden)]
    pub const fn without(self, other: Self) -> Self {
        Self::from_bits(self as u8 & !(other as u8))
    }

    /// Returns whether the block is synchronized before the operation.
    #[doc(hidden)]
    pub const fn is_before(self) -> bool {
        self as u8 & 1 != 0
    }

    /// Returns whether the block is synchronized after the operation.
    #[doc(hidden)]
    pub const fn is_after(self) -> bool {
        self as u8 & 2 != 0
    }
}

/// How a program's packets and plain data share scratch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum Protocol {
    /// Scratch is sized for plain data.
    #[default]
    Simple,
    /// Low latency: scratch is sized for packets (data and flags), twice the plain size.
    LL,
}

impl Protocol {
    /// Returns the name used in plan JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Simple => "Simple",
            Self::LL => "LL",
        }
    }
}

/// How chunks are numbered when a program is replicated into several instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum Replication {
    /// Instance `k` of `n` processes every chunk's `k`-th part.
    #[default]
    Interleaved,
    /// No replication: only one instance is possible.
    None,
}
