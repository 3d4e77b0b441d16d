//! Comparison with the plans of the reference system, in one program: each program links all of the crates.

mod check;
#[path = "../../mscclpp-fuzz/tests/corpus/mod.rs"]
mod corpus;
mod fuzz;
mod json;
mod loops;
mod ours;
mod passes;
mod run;
mod views;
