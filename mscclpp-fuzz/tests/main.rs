//! The tests of this crate's public API, in one program: each program links all of the crate.

mod corpus;
mod counts;
mod filetests;
mod fuzz;
mod mutation;
mod permutations;
mod rows;
#[path = "../../mscclpp-plan/src/testing.rs"]
#[allow(dead_code, reason = "written for other tests")]
mod testing;
