//! Plans: the operations of every rank and thread block, on numbered channels, buffers and chunks.
//!
//! [`Plan`] holds a plan as bytes, for embedding and execution. [`raw`] has the same as Rust values, a
//! [`PlanTree`](raw): lowering creates it, the checks read it, the formats write and read it.
//!
//! | module | contents |
//! |---|---|
//! | [`collective`], [`types`] | what a plan is for, and the kinds of its buffers, channels and reductions |
//! | [`raw`] | plans as trees |
//! | [`image`], [`json`], [`text`], [`graph`] | the forms of plans: bytes that executors read, files, text, drawings |
//! | [`diff`], [`stats`] | how two plans differ, and what a plan moves |
//! | [`diag`], [`origin`] | diagnostics and source locations |
//!
//! Invariants: no I/O, no clock, no environment, no hash order, no `unsafe`. Equal inputs give equal bytes.
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate self as mscclpp_plan;

#[cfg(test)]
pub(crate) mod arbitrary;
pub mod collective;
pub mod diag;
pub mod diff;
mod format;
pub mod graph;
pub mod image;
pub mod json;
mod op;
pub mod origin;
#[doc(hidden)]
pub mod parallel;
pub mod raw;
pub mod stats;
#[cfg(test)]
pub(crate) mod testing;
pub mod text;
#[doc(hidden)]
pub mod threads;
pub mod types;

pub use format::Format;
pub use image::plan::Plan;
pub(crate) use raw::{
    BlockTable, BlockTables, BufferRef, ChannelTable, Count, Expectation, IdList, Ids, LoopBody, Op, OpClass, OpKind,
    Operand, Operands, PlanTree, RankPlan, RemoteBuffer, Slice, ThreadBlock,
};
