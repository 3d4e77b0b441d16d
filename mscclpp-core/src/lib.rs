//! The core of mscclpp: authoring API, program trace, lowering passes, checks and plan formats.
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
pub mod vocab;
