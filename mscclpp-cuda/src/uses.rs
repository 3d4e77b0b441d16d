//! Who uses memory that is freed: the streams on which calls have used it.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::capture::SetUp;
use crate::device::stream::{Lane, Used};
use crate::driver::Result;

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
