//! The authoring API: thin typed handles over one untyped recorder.
//!
//! Handles are `Copy` and borrow their [`Program`]. Every function is declared once, with `dsl!`: the typed method, the
//! binding that the compile-time evaluator calls, its arity check and its row in the page of what is evaluated are generated from
//! that declaration, so they always agree. No call panics on invalid input: it records a diagnostic instead of an
//! operation, and returns an inert handle that later calls ignore, so that one build reports many errors.

#[macro_use]
mod declare;

mod args;
mod buffer;
mod channel;
mod group;
mod program;
mod rank;
mod recorder;
#[doc(hidden)]
pub mod registry;
mod semaphore;
mod switch;
mod value;

pub use args::{
    AnyChunk, BlockArg, BlockList, Blocks, ChunkList, ChunkRange, InputList, OutputChunk, PacketChunk, PacketList,
    RankArg, RankList,
};
pub use buffer::{AnyBuffer, Buffer, BufferMarker, Chunk, Input, Output, Scratch};
pub use channel::{
    Channel, ChannelMarker, Channels, Handshake, Memory, MemoryChannel, OnlyMemory, OnlyPort, Port, PortChannel,
    SyncCall,
};
pub use group::ThreadBlockGroup;
pub use program::Program;
pub use rank::{Rank, Ranks, Reduction};
pub use semaphore::{Semaphore, SemaphoreCall};
pub use switch::{SwitchChannel, SwitchMember, SwitchReduction};
