//! Finder: proved plans for a collective on a described machine, ranked by their predicted times.
//!
//! ```
//! use mscclpp_core::collective::CollectiveKind::AllReduce;
//! use mscclpp_find::{Finder, Request};
//! use mscclpp_predict::Machine;
//!
//! let machine = Machine::builtin("4xl40s")?;
//! let request = Request { kind: AllReduce, machine: &machine, num_ranks: 4, max_blocks: Some(16), in_place: None };
//! let finder = Finder::new(request);
//! let rankings = finder.rank(&[4096], 1)?;
//! assert!(rankings[0].ranked[0].time_us >= rankings[0].bound.time_us);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Candidates are the built-in algorithms with different numbers of thread blocks, and, for long messages within a node and for those of one root, trees that are packed
//! on the machine's links. The timing model ranks them, and the checks, which share nothing with the finder, accept each one that is returned. Equal
//! arguments give equal results.

#![forbid(unsafe_code)]

mod candidate;
mod families;
mod finder;
mod packed;
mod request;
mod source;
mod trees;

pub use candidate::Candidate;
pub use finder::{FindError, Finder, Ranked, Ranking};
pub use request::Request;
