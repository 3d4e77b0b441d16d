//! The tests of this crate's public API, in one program: each program links all of the crate. Cargo.toml lists those that need a
//! process of their own.

mod algorithms;
mod algorithms_run;
mod checked;
mod common;
mod communicator;
mod default_plans;
mod dump;
mod empty_calls;
mod errors;
mod evaluated;
mod filetests;
mod lang;
mod late_calls;
mod mutants;
mod ops;
mod process;
mod recovery;
mod results;
mod select;
mod select_everything;
mod stalls;
mod transfers;
mod tune;
