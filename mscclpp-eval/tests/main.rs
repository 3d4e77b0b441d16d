//! The tests of this crate's public API, in one program: each program links all of the crate.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests read pages and variables")]

mod checks;
mod expansion;
mod explanations;
mod hostile;
mod ordinary;
mod random;
mod semantics;
