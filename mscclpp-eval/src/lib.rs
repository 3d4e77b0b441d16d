//! The engine of `#[collective]`: it evaluates a subset of Rust while a crate compiles, records the collective that the
//! function describes, and writes the plan into the crate.
//!
//! The phases, each in its own module: `args` reads the attribute; `lower` turns `syn`'s tree into `ast` and refuses what is
//! not in the subset; `types` infers what evaluation depends on; `eval` runs the tree and calls the authoring API;
//! `mscclpp_core` lowers, checks and encodes the plan; `emit` writes the expansion. `lang` holds the tables of what the
//! subset knows. It is a library of its own, and the macro crate only calls it, so that it can be tested and measured from
//! source text.
//!
//! Invariants: no I/O, no environment, no clock, no hash order. The same tokens give the same expansion.
#![forbid(unsafe_code)]

mod args;
mod ast;
mod depth;
mod driver;
mod emit;
mod eval;
mod expand;
mod lang;
mod lower;
pub mod probe;
mod report;
mod spans;
mod subset;
mod types;

pub use expand::{collective, collectives};
pub use subset::page as subset_page;
