//! The core of mscclpp: authoring API, program trace and lowering passes, over its plans (`mscclpp-plan`) and checks (`mscclpp-check`).
//!
//! ```
//! use mscclpp_core::check::check;
//! use mscclpp_core::collective::CollectiveKind;
//! use mscclpp_core::plan::json::{self, Style};
//! use mscclpp_core::plan::{LoadPlan, Plan};
//! use mscclpp_core::{compile, spec::AlgoSpec};
//!
//! // Two ranks send each other their inputs.
//! let plan = compile(AlgoSpec::new("swap", CollectiveKind::SendRecv, 2), |p| {
//!     for rank in p.ranks() {
//!         let peer = p.rank(1 - rank.id());
//!         let channel = rank.memory_channel(peer);
//!         channel.handshake(0).relaxed(); // the peer's output may be written
//!         channel.put(peer.output().chunk(0), rank.input().chunk(0), 0);
//!         channel.handshake(0); // the data of both has arrived
//!     }
//! })?;
//!
//! // A plan that is written to a file and loaded again is the same plan.
//! let mut tree = plan.tree();
//! let file = json::write(&tree, Style::Pretty);
//! assert_eq!(Plan::load(file.as_bytes())?, plan);
//!
//! // Without its last signal it would wait forever.
//! let ops = &mut tree.ranks[1].blocks[0].ops;
//! ops.retain(|op| op.kind != mscclpp_core::plan::raw::OpKind::Signal);
//! let found = check(&tree);
//! assert!(found.to_string().contains("M0201"), "{found}");
//! # Ok::<(), mscclpp_core::diag::Diagnostics>(())
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`dsl`], [`lang`] | the authoring API, and the older chunk-centered one, over the same recorder |
//! | [`spec`], [`collective`], [`types`] | the properties of a program other than its body, and its postconditions |
//! | [`compile`](fn@compile) | compiles a function to a plan, through [`trace`] and [`lower`] |
//! | [`check`] | static checks of a finished plan, and loading one with them |
//! | [`plan`] | plans as trees, images, JSON, text and drawings: reading, comparing |
//! | [`export`] | plans for the reference executor, within its limits |
//! | [`diag`], [`origin`] | diagnostics and source locations |
//! | [`algorithm`] | what `#[collective]` embeds in a program |
//!
//! Invariants: no I/O, no clock, no environment, no hash order, no `unsafe`; two threads
//! process large plans, and no result depends on their speed. Equal inputs give equal bytes. The crate depends neither
//! on `syn` nor on CUDA.
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate self as mscclpp_core;

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;
pub mod algorithm;
mod compile;
pub mod dsl;
pub mod export;
pub mod lang;
pub mod lower;
pub mod spec;
#[cfg(test)]
pub(crate) mod testing;
pub mod trace;

pub use compile::{compile, compile_trace, compile_tree};
pub use mscclpp_check as check;
pub use mscclpp_plan::{collective, diag, origin, types};
#[doc(hidden)]
pub use mscclpp_plan::{device_opcodes, threads};

/// Plans: the operations of every rank and thread block, on numbered channels, buffers and chunks.
pub mod plan {
    pub use mscclpp_check::LoadPlan;
    pub use mscclpp_plan::{Format, Plan, diff, graph, image, json, raw, stats, text};

    pub(crate) use mscclpp_plan::raw::{
        BlockTable, BlockTables, BufferRef, ChannelTable, Count, Expectation, Ids, LoopBody, Op, OpKind, Operand,
        Operands, PlanTree, RankPlan, RemoteBuffer, Slice, ThreadBlock,
    };
}
