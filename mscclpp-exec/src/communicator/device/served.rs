//! Whether algorithms serve a call, before it is made.

use std::panic::Location;

use super::OnStream;
use super::connection::Connection;
use super::launch::{DeviceCall, piece_bytes};
use crate::communicator::decide::decide;
use crate::error::Error;
use crate::select::{Backend, Request};

impl OnStream<'_> {
    /// Checks that algorithms serve a call on memory that is not registered: a call that fails may have changed its memory. The
    /// request is one of [`Communicator::request_of`](crate::Communicator::request_of), with the call's reduction, root and mode;
    /// what depends on the devices is added here. The first call connects the ranks, so that all of them make it.
    ///
    /// # Cost
    /// Compiles the plans, which are cached.
    ///
    /// # Errors
    /// [`Error::Select`] and [`Error::NoPlan`] if no algorithm serves the call; those of [`OnStream`].
    #[track_caller]
    pub fn check_request(&self, request: &Request) -> Result<(), Error> {
        let (mut calls, place) = (self.communicator.calls()?, Location::caller());
        // That no algorithm serves it is the answer, and no failure of the communicator.
        let answer = self.communicator.guard(&mut calls, |calls| {
            let (connection, call) = self.begin(calls, place)?;
            match connection.check_request(&call, request) {
                Err(error @ (Error::Select { .. } | Error::NoPlan { .. })) => Ok(Some(error)),
                other => other.map(|()| None),
            }
        })?;
        answer.map_or(Ok(()), Err)
    }
}

impl Connection {
    fn check_request(&self, call: &DeviceCall<'_>, request: &Request) -> Result<(), Error> {
        let &Self { multicast, max_blocks, .. } = self;
        let request = Request { backend: Backend::Cuda, multicast, max_blocks, ..*request };
        if request.bytes == 0 || request.num_ranks == 1 {
            return Ok(());
        }
        let (registry, piece) = (call.communicator.registry()?, piece_bytes(call, &request));
        // All pieces have one size, except the last one.
        for bytes in [piece.min(request.bytes), request.bytes % piece] {
            if bytes > 0 {
                decide(&registry, call.forced.as_ref(), &Request { bytes, ..request }, call.communicator.rank())?;
            }
        }
        Ok(())
    }
}
