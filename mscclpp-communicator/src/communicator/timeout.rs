//! Timeouts of single calls.

use std::time::Duration;

use super::Communicator;
use mscclpp_base::error::Error;

impl Communicator {
    /// Returns a handle of this rank whose calls wait at most `timeout` for the other ranks, in place of the communicator's
    /// [`timeout`](mscclpp_bootstrap::Options::timeout). It bounds the waits of this rank alone: a call in which any rank
    /// waits for too long fails on all of them. The handle is cheap and may be used for one call:
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use mscclpp_core::types::ReduceOp;
    /// # use mscclpp_communicator::Communicator;
    /// # use mscclpp_exec::Error;
    /// # fn main() -> Result<(), Error> {
    /// # let comm = Communicator::local(1)?.remove(0);
    /// # let mut status = [0_u32];
    /// comm.with_timeout(Duration::from_secs(5)).all_reduce_in_place(&mut status, ReduceOp::Max)?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_timeout(&self, timeout: Duration) -> Self {
        Self { timeout: Some(timeout), ..self.clone() }
    }

    /// Returns how long the calls made through this handle wait for the other ranks.
    pub fn timeout(&self) -> Duration {
        self.timeout.unwrap_or_else(|| self.inner.bootstrap.options().timeout)
    }

    /// Makes a call with the timeout of this handle.
    #[inline]
    pub(super) fn with_own_timeout<R>(&self, call: impl FnOnce() -> Result<R, Error>) -> Result<R, Error> {
        let Some(timeout) = self.timeout else { return call() };
        let _applied = self.apply_timeout(timeout)?;
        call()
    }

    /// Sets a timeout until the result is dropped, at the end of a call.
    fn apply_timeout(&self, timeout: Duration) -> Result<AppliedTimeout<'_>, Error> {
        let bootstrap = &self.inner.bootstrap;
        let of_executor = match self.inner.executor.get() {
            Some(executor) => executor.replace_timeout(timeout)?,
            None => bootstrap.options().timeout,
        };
        let of_bootstrap = bootstrap.timeout();
        bootstrap.set_timeout(timeout);
        Ok(AppliedTimeout { communicator: self, of_executor, of_bootstrap })
    }
}

/// The timeouts to restore after a call.
pub(super) struct AppliedTimeout<'a> {
    communicator: &'a Communicator,
    of_executor: Duration,
    of_bootstrap: Duration,
}

impl Drop for AppliedTimeout<'_> {
    fn drop(&mut self) {
        let inner = &self.communicator.inner;
        inner.bootstrap.set_timeout(self.of_bootstrap);
        // The call is over. Another thread may be in a call of the executor, whose timeout then stays this one.
        let _ = inner.executor.get().map(|executor| executor.set_timeout(self.of_executor));
    }
}
