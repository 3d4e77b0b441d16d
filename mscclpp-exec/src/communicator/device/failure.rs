//! Failures of calls on device memory, for threads that make none.

use std::cell::Cell;

use super::connection::Connection;
use crate::communicator::Communicator;
use crate::error::Error;

impl Communicator {
    /// Returns whether the calls so far have failed, with the root cause, and aborts this rank's pending launches then: work
    /// that waits for them continues. For programs that wait for a stream with other means than
    /// [`OnStream::synchronize`](crate::OnStream::synchronize). Waits for no other rank; while another thread is in a call, it
    /// returns at once.
    ///
    /// # Errors
    /// Those of `synchronize`.
    pub fn check(&self) -> Result<(), Error> {
        let mut calls = match self.calls() {
            Err(Error::Busy) => return Ok(()),
            calls => calls?,
        };
        let own = match &mut calls.devices.connection {
            Some(connection) => connection.poll(),
            None => self.bootstrap().check_alive().map_err(Error::from),
        };
        drop(calls);
        // Launches of transfers end as well.
        let of_pairs = self.each_pair(Self::check);
        own.and(self.inner.lanes.check()).and(of_pairs)
    }
}

impl Communicator {
    /// Returns whether all launches of this rank's calls on device memory are complete, those of transfers that a thread makes too.
    ///
    /// # Errors
    /// [`Error::Busy`], [`Error::Driver`].
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
    /// Returns the bytes of device memory that calls on this rank keep: internal buffers and scratch of plans, which
    /// [`force_algorithm`](Self::force_algorithm) releases, and memory of [`OnStream::alloc`](crate::OnStream::alloc).
    ///
    /// # Errors
    /// [`Error::Busy`].
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

    /// Checks the launches and the other ranks.
    fn poll(&mut self) -> Result<(), Error> {
        if !self.executor.has_aborted() {
            let compared = self.bootstrap.check_alive().and_then(|()| self.posted.ring.compare(&self.bootstrap));
            return compared.map_err(|cause| self.fail(cause.into()));
        }
        // The launch ends as soon as its thread blocks notice that one of them has aborted.
        self.executor.wait_for_launches()?;
        let stream = self.device.stream()?;
        self.check(&stream)
    }
}
