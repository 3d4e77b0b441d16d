//! Failures of calls on device memory, for threads that make none.

use std::cell::Cell;

use super::connection::Connection;
use crate::communicator::Communicator;
use mscclpp_base::error::Error;

impl Communicator {
    /// Returns whether the calls so far have failed, with the root cause, and aborts this rank's pending launches then: work
    /// that waits for them continues. For programs that wait for a stream with other means than
    /// [`OnStream::synchronize`](crate::OnStream::synchronize). Waits for no other rank and no other thread: while one is in a call, the
    /// failure of a rank or of a transfer is returned, and the thread reports a failure of its call.
    ///
    /// # Errors
    /// Those of `synchronize`.
    pub fn check(&self) -> Result<(), Error> {
        let watched = self.watch().and(self.watch_transfers());
        let own = match self.try_calls() {
            Ok(mut calls) => calls.devices.connection.as_mut().map_or(Ok(()), |connection| connection.poll()),
            Err(Error::Busy) => Ok(()),
            Err(error) => Err(error),
        };
        let of_pairs = self.each_pair(Self::check);
        let checked = own.and(watched).and(of_pairs);
        if checked.is_err() {
            // A failure may have become known when some were checked already: their launches must end as well.
            let _ = self.watch().and(self.watch_transfers());
        }
        checked
    }

    /// Checks the other ranks, and aborts this rank's pending launches if one of them has failed, except while another thread is in a
    /// call, which does it. Waits for nothing.
    ///
    /// # Errors
    /// Why the communicator has failed.
    pub(super) fn watch(&self) -> Result<(), Error> {
        match self.try_calls() {
            Ok(mut calls) => match &mut calls.devices.connection {
                Some(connection) => connection.watch(),
                None => self.bootstrap().check_alive().map_err(Error::from),
            },
            Err(Error::Busy) => self.bootstrap().check_alive().map_err(Error::from),
            Err(error) => Err(error),
        }
    }

    /// Checks the transfers, and aborts the pending launches of those that have failed. Waits for nothing.
    ///
    /// # Errors
    /// The first failure of a transfer, or of the other rank of one.
    pub(super) fn watch_transfers(&self) -> Result<(), Error> {
        let of_pairs = self.each_pair(Self::watch);
        self.inner.lanes.check().and(of_pairs)
    }
}

impl Communicator {
    /// Returns whether all launches of this rank's calls on device memory are complete, those of transfers that a thread makes too.
    ///
    /// # Errors
    /// [`Error::Busy`], [`Error::Driver`].
    #[doc(hidden)]
    pub fn is_idle(&self) -> Result<bool, Error> {
        let calls = self.calls()?;
        let connection = calls.devices.connection.as_ref();
        let is_idle = Cell::new(connection.is_none_or(|connection| connection.executor.is_idle()));
        drop(calls);
        is_idle.set(self.inner.lanes.are_idle()? && is_idle.get());
        self.each_pair(|pair| {
            // A thread that is in a call of the pair has not made its launch.
            let idle = match pair.is_idle() {
                Err(Error::Busy) => false,
                idle => idle?,
            };
            is_idle.set(is_idle.get() && idle);
            Ok(())
        })?;
        Ok(is_idle.get())
    }
}

impl Communicator {
    /// Returns the bytes of device memory that calls on this rank keep: internal buffers and scratch of plans, which other ranks access
    /// and which therefore stay until the communicator is dropped, and memory of [`OnStream::alloc`](crate::OnStream::alloc).
    ///
    /// # Errors
    /// [`Error::Busy`].
    #[doc(hidden)]
    pub fn device_memory(&self) -> Result<(u64, u64), Error> {
        let calls = self.calls()?;
        Ok(calls.devices.connection.as_ref().map_or((0, 0), |connection| connection.memory()))
    }
}

impl Connection {
    /// Returns the bytes of internal memory and of allocations.
    fn memory(&self) -> (u64, u64) {
        let staging: u64 = self.staging.iter().flat_map(|buffers| buffers.iter()).map(|buffer| buffer.bytes()).sum();
        (staging + self.executor.scratch_bytes(), self.allocated_bytes())
    }

    /// Checks the launches and the other ranks. Waits for launches only that have aborted themselves, and so have begun: what was aborted
    /// because of another rank may follow launches on the stream that were not.
    fn poll(&mut self) -> Result<(), Error> {
        if self.has_failed || !self.executor.has_aborted() {
            let watched = self.watch();
            if watched.is_err() && self.executor.is_idle() {
                self.posted.ring.stop();
            }
            return watched.and_then(|()| self.check_counts());
        }
        // The launch ends as soon as its thread blocks notice that one of them has aborted.
        self.executor.wait_for_launches()?;
        let stream = self.device.stream()?;
        self.check(&stream)
    }

    /// Checks the other ranks and their calls, and aborts this rank's pending launches after a failure: they wait for ranks that will
    /// not come. Waits for nothing.
    ///
    /// # Errors
    /// Why the communicator has failed.
    pub(super) fn watch(&mut self) -> Result<(), Error> {
        if self.has_failed {
            return self.executor.check();
        }
        let compared = self.bootstrap.check_alive().and_then(|()| self.posted.ring.compare(&self.bootstrap));
        compared.map_err(|cause| {
            let error = self.executor.fail(cause.into());
            self.executor.abort_launches();
            self.has_failed = self.executor.check().is_err();
            error
        })
    }
}
