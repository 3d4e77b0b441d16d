//! Who uses memory that is freed: the streams on which calls have used it, and the guard of unused memory.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::capture::SetUp;
use super::driver::Result;
use super::stream::{Lane, Used};

thread_local! {
    /// Number of [`Unused`] of this thread that are set.
    static UNUSED: Cell<u32> = const { Cell::new(0) };
}

/// The last field of a type whose destructor has waited for all users of the memory in the fields before it: these free it
/// without another wait, which would be one for all work of the device.
#[derive(Default)]
pub(super) struct Unused(bool);

impl Unused {
    /// Begins to free memory that no work uses, until it is dropped by the same thread.
    pub(super) fn begin() -> Self {
        let mut unused = Self::default();
        unused.set();
        unused
    }

    /// Does what [`begin`](Self::begin) does, in a destructor.
    pub(super) fn set(&mut self) {
        if !std::mem::replace(&mut self.0, true) {
            UNUSED.set(UNUSED.get() + 1);
        }
    }

    /// Returns whether this thread frees memory that no work uses.
    pub(super) fn is_set() -> bool {
        UNUSED.get() > 0
    }
}

impl Drop for Unused {
    fn drop(&mut self) {
        if self.0 {
            UNUSED.set(UNUSED.get() - 1);
        }
    }
}

/// The uses of memory that calls borrow and that may be dropped before their work is complete.
#[derive(Default)]
pub(super) struct Uses {
    streams: Mutex<Vec<Used>>,
    /// Whether other work than that of the streams may use it.
    is_unknown: AtomicBool,
}

impl Uses {
    /// Records that other work may use the memory, of which nothing is known.
    pub(super) fn set_unknown(&self) {
        self.is_unknown.store(true, Ordering::Relaxed);
    }

    /// Records that the work that was enqueued on a stream so far may use the memory.
    pub(super) fn record(&self, lane: &Arc<Lane>) {
        let mut streams = self.streams();
        let mut record = || -> Result<()> {
            if lane.is_capturing()? {
                self.set_unknown();
                return Ok(());
            }
            match streams.iter().find(|used| used.is_of(lane)) {
                Some(used) => lane.use_again(used)?,
                None => {
                    let _set_up = SetUp::begin(lane.device().driver(), false)?;
                    streams.retain(|used| !used.is_done());
                    streams.push(lane.used()?);
                }
            }
            Ok(())
        };
        if record().is_err() {
            self.set_unknown();
        }
    }

    /// Waits for the work of the streams. Returns whether there is no other work.
    ///
    /// # Errors
    /// Those of the work.
    pub(super) fn wait(&self) -> Result<bool> {
        let streams = std::mem::take(&mut *self.streams());
        let waited = streams.iter().map(Used::wait).fold(Ok(()), Result::and);
        waited.map(|()| !self.is_unknown.load(Ordering::Relaxed))
    }

    fn streams(&self) -> MutexGuard<'_, Vec<Used>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Uses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Uses").field("is_unknown", &self.is_unknown).finish_non_exhaustive()
    }
}
