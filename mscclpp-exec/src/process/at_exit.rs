//! Ranks leave their job also when the process exits without running destructors: by `std::process::exit`, as interpreters
//! do it. Otherwise their peers would take them for dead while they receive what was sent, and the system would reset
//! connections with unread bytes, and discard what it has yet to send.
//!
//! `_exit`, `abort` and signals run no handlers. A process that ends in this way counts as dead.

use std::mem::{forget, take};
use std::sync::{Arc, Mutex, Once, PoisonError, Weak};

use super::executor::Inner;

/// The executors of this process.
static EXECUTORS: Mutex<Vec<Weak<Inner>>> = Mutex::new(Vec::new());

/// Lets an executor leave when the process exits.
pub(super) fn register(executor: &Arc<Inner>) {
    static HANDLER: Once = Once::new();
    // SAFETY: the handler may run at any time. The system runs it before the library that has it is unloaded. Without it, peers name
    // this rank as dead.
    HANDLER.call_once(|| _ = unsafe { libc::atexit(leave) });
    let mut executors = EXECUTORS.lock().unwrap_or_else(PoisonError::into_inner);
    executors.retain(|executor| executor.strong_count() > 0);
    executors.push(Arc::downgrade(executor));
}

/// Waits for no thread: one may have ended, or called `exit`, with a lock. A process that exits during a call, or with launches on a device
/// that may be pending, has not left in order.
extern "C" fn leave() {
    let executors = EXECUTORS.try_lock().map(|mut executors| take(&mut *executors)).unwrap_or_default();
    // Never freed, because other threads still run.
    let executors = executors.iter().filter_map(Weak::upgrade).collect::<Vec<_>>().leak();
    let sessions: Option<Vec<_>> = executors.iter().map(|executor| executor.session.try_lock().ok()).collect();
    if let Some(mut sessions) = sessions.filter(|sessions| !sessions.iter().any(|session| session.has_device)) {
        sessions.iter_mut().for_each(|session| session.leave());
        executors.iter().for_each(|executor| executor.bootstrap.leave());
        // No thread makes a call any more.
        forget(sessions);
    }
}
