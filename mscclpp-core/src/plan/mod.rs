//! Plans: the operations of every rank and thread block, on numbered channels, buffers and chunks.
//!
//! [`Plan`] holds a plan as bytes, for embedding and execution. [`raw`] has the same as Rust values, a
//! [`PlanTree`](raw): lowering creates it, the checks read it, the formats write and read it.

#[cfg(test)]
pub(crate) mod arbitrary;
pub mod diff;
mod format;
pub mod graph;
pub mod image;
pub mod json;
mod op;
pub mod raw;
pub mod stats;
pub mod text;

pub use format::Format;
pub use image::plan::Plan;
pub(crate) use raw::{
    BlockTable, BlockTables, BufferRef, ChannelTable, Expectation, Ids, LoopBody, Op, OpKind, Operand, Operands,
    PlanTree, RankPlan, RemoteBuffer, Slice, ThreadBlock,
};
