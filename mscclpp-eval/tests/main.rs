//! The tests of this crate's public API, in one program: each program links all of the crate.

mod checks;
mod expansion;
mod explanations;
mod hostile;
mod ordinary;
mod random;
mod semantics;
mod subset_page;
