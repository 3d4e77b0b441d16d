//! The core of mscclpp: authoring API, program trace, lowering passes, checks and plan formats.
//!
//! ```
//! use mscclpp_core::check::check;
//! use mscclpp_core::collective::CollectiveKind;
//! use mscclpp_core::plan::json::{self, Style};
//! use mscclpp_core::{compile::compile, plan::Plan, spec::AlgoSpec};
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
//! // As a file, and back: the same plan.
//! let mut tree = plan.tree();
//! let file = json::write(&tree, Style::Pretty);
//! assert_eq!(Plan::load(file.as_bytes())?, plan);
//!
//! // Without its last signal it would wait for ever.
//! let ops = &mut tree.ranks[1].blocks[0].ops;
//! ops.retain(|op| op.kind != mscclpp_core::plan::OpKind::Signal);
//! let found = check(&tree);
//! assert!(found.to_string().contains("M0201"), "{found}");
//! # Ok::<(), mscclpp_core::diag::Diagnostics>(())
//! ```
//!
//! | module | what it has |
//! |---|---|
//! | [`dsl`], [`lang`] | the authoring API, and the older chunk-centred one, over the same recorder |
//! | [`spec`], [`collective`], [`types`] | what is said of a program besides its body, and what it promises |
//! | [`compile`](mod@compile) | from a function to a plan, through [`trace`] and [`lower`] |
//! | [`check`] | what a plan must keep, proved of the plan as it stands |
//! | [`plan`] | plans as trees, bytes, JSON, text and drawings; read, compared, exported |
//! | [`diag`], [`origin`] | what is wrong, where it was written, and how to mend it |
//! | [`algorithm`] | what a `#[collective]` leaves in a program |
//!
//! Invariants: no I/O, no clock, no environment, no hash order, no `unsafe`; large plans are worked on by two threads, on whose
//! speed nothing depends. The same input gives the same bytes. It knows neither `syn` nor CUDA.
#![forbid(unsafe_code)]

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;
pub mod algorithm;
pub mod check;
pub mod collective;
pub mod compile;
pub mod diag;
pub mod dsl;
pub mod lang;
pub mod lower;
pub mod origin;
mod parallel;
pub mod plan;
pub mod spec;
#[cfg(test)]
pub(crate) mod testing;
pub mod trace;
pub mod types;

pub use compile::compile;
