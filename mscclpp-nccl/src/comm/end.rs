//! Ends of communicators, and their failures.

use std::sync::atomic::Ordering;
use std::sync::{Arc, TryLockError};
use std::thread;
use std::time::Duration;

use mscclpp_communicator::Communicator;
use mscclpp_core::threads;
use mscclpp_exec::Error;

use super::create::in_progress;
use super::divisions::Division;
use super::{Comm, lock, remove};
use crate::abi::Code;
use crate::entry::{Failure, Result};
use crate::forward::Nested;

/// Flag of a suspension that releases memory.
const SUSPEND_MEMORY: std::ffi::c_int = 1;

/// Interval at which a call polls launches.
const POLL_INTERVAL: Duration = Duration::from_micros(50);

impl Comm {
    /// Returns the failure of calls that were enqueued, if there is one: then it aborts their launches.
    pub(crate) fn check(&self) -> Result<()> {
        let communicator = match self.ready() {
            Err(_) if self.is_starting() => return Ok(()),
            ready => ready?,
        };
        self.check_known_failure()?;
        communicator.check().map_err(|error| self.note(error.into()))?;
        self.nested().map_or(Ok(()), |nested| nested.async_error().map_err(|failure| self.note(failure)))
    }

    /// Does what [`check`](Self::check) does, unless a thread is in a call.
    pub(super) fn watch(&self) {
        if let Ok(_calling) = self.calling.try_lock() {
            let _watching = lock(&self.watching);
            // `note` keeps it. A rank that does not know of it yet may have stored a signal after the last release.
            if self.check().is_err() {
                self.signals.release();
            }
        }
    }

    /// Lets a profiler plugin free what it keeps of the communicator: now, or after the events that have not stopped.
    fn end_profiler(&self) {
        let profiler = lock(&self.profiler).take();
        drop(profiler);
    }

    /// Returns whether all launches are complete.
    pub(super) fn is_idle(&self, communicator: &Communicator) -> std::result::Result<bool, Error> {
        // While it checks, the communicator is busy, which is neither a failure nor a pending launch.
        let _watching = lock(&self.watching);
        Ok(self.signals.is_idle()? && communicator.is_idle()?)
    }

    /// Aborts a new communicator if the program has aborted it while it was created: the creation fails on all ranks.
    ///
    /// # Errors
    /// An invalid usage.
    pub(super) fn check_not_aborted(&self, communicator: &Communicator) -> Result<()> {
        if !self.is_aborted.load(Ordering::SeqCst) {
            return Ok(());
        }
        communicator.abort("ncclCommAbort");
        Err(Failure::usage("the communicator was aborted while it was created"))
    }

    /// Waits until the launches are complete.
    fn drain(&self) -> Result<()> {
        let communicator = self.ready()?;
        loop {
            self.check()?;
            if self.is_idle(&communicator)? {
                return self.check();
            }
            thread::sleep(POLL_INTERVAL);
        }
    }
}

/// Returns the code of a communicator's failure.
pub(crate) fn async_error(comm: &Comm) -> Code {
    if comm.is_starting() {
        return Code::InProgress;
    }
    let _watching = lock(&comm.watching);
    if comm.is_in_progress() {
        return comm.check_known_failure().map_or_else(|failure| failure.code, |()| Code::InProgress);
    }
    // A thread in a call must not find the communicator busy; its call checks as well.
    let checked = match comm.calling.try_lock() {
        Err(TryLockError::WouldBlock) => comm.check_known_failure(),
        _calling => comm.check(),
    };
    checked.map_or_else(|failure| failure.code, |()| Code::Success)
}

/// Admits no further calls of a communicator, and waits until the earlier ones are complete; a thread does so for a caller that does not
/// wait.
pub(crate) fn finalize(comm: &Arc<Comm>) -> Result<()> {
    if comm.config.is_nonblocking {
        comm.ready()?
    } else {
        comm.wait()?
    };
    if comm.is_finalized.swap(true, Ordering::Relaxed) {
        return Err(Failure::argument("the communicator was finalized before"));
    }
    if !comm.config.is_nonblocking {
        comm.wait_for_divisions();
        return complete(comm);
    }
    let of_thread = Division::begin(Arc::clone(comm), true);
    let of = Arc::clone(comm);
    let run = move || {
        let _of_thread = of_thread;
        // Its failure is that of the communicator.
        let _ = complete(&of).map_err(|failure| of.note(failure));
    };
    match threads::named("mscclpp-nccl-end").spawn(run) {
        Ok(_) => Err(in_progress()),
        Err(error) => Err(Failure::new(Code::SystemError, format!("no thread to finalize the communicator: {error}"))),
    }
}

/// Waits until all calls are complete.
fn complete(comm: &Comm) -> Result<()> {
    let _calling = lock(&comm.calling);
    comm.drain()?;
    comm.nested().map_or(Ok(()), Nested::finalize)
}

/// Frees a communicator, after its calls are complete. A failure is no error of this call.
pub(crate) fn destroy(comm: Arc<Comm>) -> Result<()> {
    // A communicator that was never created has nothing to wait for.
    let _ = comm.wait();
    {
        let _calling = comm.calling();
        // Launches of a failed communicator are aborted, those of the real NCCL too.
        if comm.drain().is_err() {
            comm.nested().inspect(|nested| nested.abort());
        }
    }
    remove(comm.handle);
    comm.end_profiler();
    comm.nested().map_or(Ok(()), Nested::destroy)
}

/// Frees a communicator without waiting for its calls: pending launches are aborted, on all ranks that have not completed them.
pub(crate) fn abort(comm: Arc<Comm>) -> Result<()> {
    remove(comm.handle);
    comm.end_profiler();
    // Before it is read whether the communicator is created.
    comm.is_aborted.store(true, Ordering::SeqCst);
    let Ok(communicator) = comm.ready() else { return Ok(()) };
    comm.nested().inspect(|nested| nested.abort());
    // A rank that has completed its calls leaves in order: others may still be in theirs.
    let is_pending = || comm.is_divided() || !comm.is_idle(&communicator).unwrap_or(false);
    if comm.check().is_ok() && is_pending() {
        communicator.abort("ncclCommAbort");
        comm.signals.release();
        // It ends the launches.
        let _ = communicator.check();
    }
    Ok(())
}

/// Ends the calls of a communicator on all ranks, which can continue with a smaller one.
pub(crate) fn revoke(comm: &Comm) -> Result<()> {
    let communicator = comm.ready()?;
    communicator.revoke();
    comm.nested().inspect(|nested| nested.abort());
    // It ends the launches, with the cause on all ranks.
    let _ = comm.check();
    Ok(())
}

/// Drops what calls have prepared, which later calls prepare again. A call of all ranks.
pub(crate) fn suspend(comm: &Comm) -> Result<()> {
    let communicator = comm.for_call()?;
    let _calling = comm.calling();
    comm.drain()?;
    comm.release_prepared(&communicator)?;
    comm.nested().map_or(Ok(()), |nested| nested.suspend(SUSPEND_MEMORY))?;
    comm.is_suspended.store(true, Ordering::Relaxed);
    Ok(())
}

/// Makes a suspended communicator usable: it is, as calls allocate what they need.
pub(crate) fn resume(comm: &Comm) -> Result<()> {
    comm.for_call()?;
    comm.nested().map_or(Ok(()), Nested::resume)?;
    comm.is_suspended.store(false, Ordering::Relaxed);
    Ok(())
}
