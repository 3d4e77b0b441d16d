//! The evaluator of `#[collective]`: it evaluates a subset of Rust while a crate compiles, records the collective that
//! the function describes, and embeds the plan in the crate.
//!
//! Each phase has its own module: `args` reads the attribute; `build_hir` converts `syn`'s tree to `hir` and rejects what
//! is not in the subset; `types` infers what evaluation depends on; `eval` runs the tree and calls the authoring API;
//! `mscclpp_core` lowers, checks and encodes the plan; `emit` writes the expansion. `lang` holds the tables of the
//! subset. This is a library that the macro crate only calls, so that it can be tested and measured from source text.
//!
//! Invariants: no I/O, no environment, no clock, no hash order. The same tokens give the same expansion.
#![forbid(unsafe_code)]

mod args;
mod build_hir;
mod depth;
mod driver;
mod emit;
mod eval;
mod expand;
mod hir;
mod lang;
pub mod probe;
mod report;
mod spans;
mod subset;
mod types;

pub use expand::{collective, collectives};
pub use subset::page as subset_page;
