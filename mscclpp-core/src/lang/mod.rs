//! The older, chunk-centered API (MSCCLPPLang), as a thin layer over the same recorder.
//!
//! A program takes a chunk of a rank's buffer and calls `put`, `get`, `signal`, `wait`, `copy` or `reduce` on it;
//! channels are created on demand. It produces the same [`Trace`](crate::trace::Trace) as the [authoring
//! API](crate::dsl), so the later stages are the same. It records natively, at run time or in `build.rs`;
//! `#[collective]` evaluates the newer API only.
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
//! - Python's defaults are explicit: a buffer of `None` is the chunk's own, an index of -1 the chunk's own or, in
//!   scratch, the end of what the rank has used so far. The thread block is always given; the original dropped
//!   operations without one.
//! - A signal synchronizes its thread block before it, a wait and a flush after it; lowering finds all other block
//!   syncs. As in the original, only barriers and signals order different thread blocks.
//! - A wait and its signal are executed by thread blocks of the same number and name the same pair of buffers:
//!   sender's, then receiver's. These and the kind identify a channel between two ranks.
//! - Instances are interleaved. The original's default (`duplicated`) has the same results wherever it was correct.
//! - Mistakes are reported together, with their locations, when recording ends.

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

/// How a chunk operation accesses the other rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ChannelType {
    /// A memory channel: the GPU copies.
    #[default]
    Sm,
    /// A port channel: a CPU thread copies.
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

/// Format of the source of a packet put.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum DataFormat {
    /// Plain data.
    #[default]
    Raw,
    /// Packets, in scratch.
    Packet,
}

/// Options of a packet put. A [`ChannelType`] alone represents plain data over it, without a temporary buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PacketOptions {
    /// Format of the source.
    pub src_format: DataFormat,
    /// The channel of the packets.
    pub chan_type: ChannelType,
    /// Scratch of the sending rank in which packets are created before a proxy sends them. Plain data over
    /// [`ChannelType::Proxy`] needs it.
    pub temp_buffer: Option<Buffer>,
    /// Index in `temp_buffer`; -1 is the end of what the rank has used so far.
    pub temp_buffer_index: i64,
}

impl From<ChannelType> for PacketOptions {
    fn from(chan_type: ChannelType) -> Self {
        Self { chan_type, temp_buffer_index: -1, ..Self::default() }
    }
}
