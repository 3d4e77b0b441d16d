//! Threads of the libraries.

use std::thread;

/// Size of a thread's stack. The system takes the static thread-local storage of all libraries of the program from it, which may be
/// megabytes; pages that are not used are not allocated.
const STACK_BYTES: usize = 8 << 20;

/// Returns how to start a thread with a name, in the process of any program.
pub fn named(name: impl Into<String>) -> thread::Builder {
    thread::Builder::new().name(name.into()).stack_size(STACK_BYTES)
}
