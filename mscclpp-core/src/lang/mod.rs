//! The older, chunk-centred way of writing programs (MSCCLPPLang), as a thin layer over the same recorder.
//!
//! A program takes a chunk of a rank's buffer and calls `put`, `get`, `signal`, `wait`, `copy` or `reduce` on it; channels
//! are made on demand. It gives the same [`Trace`](crate::trace::Trace) as the [authoring API](crate::dsl), so everything
//! behind it is the same. It records natively, at run time or in `build.rs`; `#[collective]` evaluates the newer API only.
//!
//! ```
//! use mscclpp_core::lang::{Buffer, ChannelType::Sm, Collective, MscclppProgram};
//!
//! // Once all have begun, every rank puts its chunk into every other rank's output.
//! let program = MscclppProgram::new("allgather", Collective::all_gather(4, 1, true), 4, 1);
//! let plan = program.compile(|p| {
//!     for r in 0..4 {
//!         for peer in (0..4).filter(|peer| *peer != r) {
//!             p.chunk(r, Buffer::Input, 0, 1).signal(peer, Buffer::Output, r, 0, Sm);
//!         }
//!         for peer in (0..4).filter(|peer| *peer != r) {
//!             p.chunk(r, Buffer::Output, peer, 1).wait(peer, Buffer::Input, 0, 0, Sm);
//!         }
//!     }
//!     for r in 0..4 {
//!         let c = p.chunk(r, Buffer::Input, 0, 1);
//!         for peer in (0..4).filter(|peer| *peer != r) {
//!             c.put(peer, Buffer::Output, r, 0, Sm);
//!             c.signal(peer, Buffer::Output, r, 0, Sm);
//!         }
//!     }
//!     for r in 0..4 {
//!         for peer in (0..4).filter(|peer| *peer != r) {
//!             p.chunk(r, Buffer::Output, peer, 1).wait(peer, Buffer::Input, 0, 0, Sm);
//!         }
//!     }
//! });
//! assert!(plan.is_ok());
//! ```
//!
//! # Differences from the original
//! - Python's defaults are written out: a buffer of `None` is the chunk's own, an index of -1 the chunk's own or, in
//!   scratch, behind what the rank has used so far. The thread block is always named; the original dropped operations
//!   without one.
//! - A signal synchronises its thread block in front, a wait and a flush behind; all other block syncs are found by
//!   lowering. As in the original, nothing orders different thread blocks but barriers and signals.
//! - A wait and its signal run on thread blocks of the same number and name the same pair of buffers: sender's, then
//!   receiver's. That, with the kind, is what tells channels between two ranks apart.
//! - Instances are interleaved. The original's default (`duplicated`) gives the same results wherever it was right.
//! - Mistakes are reported together, with their places, when recording ends.

mod chunk;
mod collective;
mod context;
mod program;

pub use crate::types::{BufferKind as Buffer, Protocol, ReduceOp};
pub use chunk::ChunkRef;
pub use collective::Collective;
pub use context::{ProgramContext, RankRef};
pub use program::MscclppProgram;

use crate::types::ChannelKind;

/// How a chunk operation reaches the other rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ChannelType {
    /// The GPU copies: a memory channel.
    #[default]
    Sm,
    /// A CPU thread copies: a port channel.
    Proxy,
}

impl ChannelType {
    /// The later name of [`Sm`](Self::Sm).
    pub const MEMORY: Self = Self::Sm;
    /// The later name of [`Proxy`](Self::Proxy).
    pub const PORT: Self = Self::Proxy;

    pub(crate) const fn kind(self) -> ChannelKind {
        match self {
            Self::Sm => ChannelKind::Memory,
            Self::Proxy => ChannelKind::Port,
        }
    }
}

/// What the source of a packet put holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum DataFormat {
    /// Plain data.
    #[default]
    Raw,
    /// Packets, in scratch.
    Packet,
}

/// How a packet put goes. A [`ChannelType`] alone stands for plain data over it, with no scratch of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PacketOptions {
    /// What the source holds.
    pub src_format: DataFormat,
    /// How the packets travel.
    pub chan_type: ChannelType,
    /// Scratch of the sending rank in which packets are made before a proxy takes them. Plain data over
    /// [`ChannelType::Proxy`] needs it.
    pub temp_buffer: Option<Buffer>,
    /// Where in `temp_buffer`; -1 is behind what the rank has used so far.
    pub temp_buffer_index: i64,
}

impl From<ChannelType> for PacketOptions {
    fn from(chan_type: ChannelType) -> Self {
        Self { chan_type, temp_buffer_index: -1, ..Self::default() }
    }
}
