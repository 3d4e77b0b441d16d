//! Lets UCX work while the engine's rank makes no call.
//!
//! UCX works within calls only, for what a rank sends and for what its peers need of it: to set up a connection, to acknowledge
//! bytes, to send what the system did not take. A rank that has left a launch does not serve its connections (see
//! `process::wire`), so a thread does. It sleeps longer and longer as long as there is nothing to do.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use mscclpp_core::threads;

use super::library::{Library, Unavailable};
use super::worker::Worker;
use mscclpp_base::shm::ProcessMark;

/// Minimum and maximum time after which a worker that its rank does not use is served.
const MIN_SLEEP: Duration = Duration::from_millis(1);
const MAX_SLEEP: Duration = Duration::from_millis(50);

/// A worker, and the thread that lets it work.
pub(super) struct Progress {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    mark: ProcessMark,
}

struct Shared {
    worker: Mutex<Worker>,
    /// Number of times that the rank has used the worker.
    uses: AtomicU64,
    is_over: AtomicBool,
}

impl Progress {
    /// Creates a worker and its thread.
    pub(super) fn new(library: &'static Library) -> Result<Self, Unavailable> {
        let worker = Mutex::new(Worker::new(library, library.context()?).map_err(Unavailable)?);
        let shared = Arc::new(Shared { worker, uses: AtomicU64::new(0), is_over: AtomicBool::new(false) });
        let of_thread = Arc::clone(&shared);
        let thread = threads::named("mscclpp ucx").spawn(move || of_thread.run());
        let thread = thread.map_err(|error| Unavailable(format!("cannot start a thread: {error}")))?;
        Ok(Self { shared, thread: Some(thread), mark: ProcessMark::new() })
    }

    /// Returns the worker, for one call; `None` in a copy of the process, where nothing works for it.
    pub(super) fn worker(&self) -> Option<MutexGuard<'_, Worker>> {
        if self.mark.is_copy() {
            return None;
        }
        // Only the rank counts them.
        self.shared.uses.store(self.shared.uses.load(Relaxed).wrapping_add(1), Relaxed);
        Some(self.shared.worker.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Shared {
    fn run(&self) {
        let (mut sleep, mut uses) = (MIN_SLEEP, 0);
        while !self.is_over.load(Relaxed) {
            std::thread::park_timeout(sleep);
            let now = self.uses.load(Relaxed);
            let is_used = std::mem::replace(&mut uses, now) != now;
            let worker = if is_used { None } else { self.worker.try_lock().ok() };
            // A rank that uses its worker lets it work.
            let has_worked = worker.is_some_and(|worker| (0..64).take_while(|_| worker.progress()).count() > 0);
            sleep = if is_used || has_worked { MIN_SLEEP } else { MAX_SLEEP.min(2 * sleep) };
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.mark.is_copy() {
            // The thread is in the process that was copied, and may have had the lock.
            std::mem::forget((Arc::clone(&self.shared), self.thread.take()));
            return;
        }
        self.shared.is_over.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It does not panic.
            let _ = thread.join();
        }
    }
}
