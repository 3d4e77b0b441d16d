//! The tests of this crate's public API, in one program: each program links all of the crate. Cargo.toml lists those that need a
//! process of their own.

mod algorithms;
mod algorithms_run;
mod checked;
mod common;
mod counts;
mod default_plans;
mod errors;
mod evaluated;
mod filetests;
#[cfg(feature = "cuda")]
mod jit_cache;
mod lang;
mod mutants;
mod ops;
mod process;
mod results;
mod rows;
mod stalls;
mod timeline;
