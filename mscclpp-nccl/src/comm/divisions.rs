//! Divisions of a communicator that are not complete, in which all ranks meet: calls follow those that threads make for callers that do
//! not wait, and an abort ends all of them.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use super::{Comm, lock};

/// The divisions of a communicator that are not complete.
#[derive(Default)]
pub(super) struct Divisions {
    pending: Mutex<Pending>,
    is_changed: Condvar,
}

#[derive(Default)]
struct Pending {
    /// Those whose callers wait for them.
    of_callers: u32,
    /// Those that threads make.
    of_threads: u32,
}

impl Pending {
    fn count(&mut self, is_of_thread: bool) -> &mut u32 {
        if is_of_thread { &mut self.of_threads } else { &mut self.of_callers }
    }
}

/// A division, until it is dropped.
pub(super) struct Division {
    comm: Arc<Comm>,
    is_of_thread: bool,
}

impl Division {
    /// Begins a division, after the earlier ones of threads.
    pub(super) fn begin(comm: Arc<Comm>, is_of_thread: bool) -> Self {
        comm.wait_for_divisions();
        *lock(&comm.divisions.pending).count(is_of_thread) += 1;
        Self { comm, is_of_thread }
    }
}

impl Drop for Division {
    fn drop(&mut self) {
        *lock(&self.comm.divisions.pending).count(self.is_of_thread) -= 1;
        self.comm.divisions.is_changed.notify_all();
    }
}

impl Comm {
    /// Returns whether the communicator is divided.
    pub(super) fn is_divided(&self) -> bool {
        let pending = lock(&self.divisions.pending);
        pending.of_callers + pending.of_threads > 0
    }

    /// Returns whether a thread divides the communicator, whose caller does not wait for it.
    pub(super) fn is_in_progress(&self) -> bool {
        lock(&self.divisions.pending).of_threads > 0
    }

    /// Waits until no thread divides the communicator. All ranks meet in a division, as they do in the first call of a kind and size,
    /// and must do both in the same order.
    pub(super) fn wait_for_divisions(&self) {
        let mut pending = lock(&self.divisions.pending);
        while pending.of_threads > 0 {
            pending = self.divisions.is_changed.wait(pending).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
