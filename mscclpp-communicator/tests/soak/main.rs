//! Long sequences of calls and of failures, after which the process uses no more resources than after the first ones.
//! One test at a time, because they count the resources of their process.
//!
//! `cargo test --release -p mscclpp-communicator --test soak -- --include-ignored` makes a million calls.

mod calls;
mod causes;
#[path = "../faults/fault_case.rs"]
mod fault_case;
mod resources;
#[path = "../faults/rounds.rs"]
mod rounds;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Excludes the other tests of this process.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
