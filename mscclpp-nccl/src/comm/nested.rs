//! A communicator of the real NCCL: what is forwarded to it.

use std::collections::HashSet;
use std::ffi::c_void;

use mscclpp_communicator::Communicator;
use mscclpp_exec::Error;
use mscclpp_exec::cuda::Stream;
use mscclpp_select::Request;

use super::{Comm, all, lock};
use crate::abi::{Code, Handle};
use crate::entry::{Failure, Result};
use crate::forward::Nested;

/// Maximum number of requests that are kept; beyond it they are forgotten.
const MAX_SERVED: usize = 1024;

/// Requests that algorithms serve.
pub(super) type Served = HashSet<Request>;

impl Comm {
    /// Returns the communicator of the real NCCL, if there is one.
    pub(crate) fn nested(&self) -> Option<&Nested> {
        self.nested.get()
    }

    /// Makes calls of the communicator of the real NCCL. Failures that are not those of arguments and usage stay the
    /// communicator's failure.
    ///
    /// # Errors
    /// Those of the calls.
    pub(crate) fn forward(&self, run: impl FnOnce(&Nested) -> Result<()>) -> Result<()> {
        let nested = self.nested().ok_or_else(|| {
            let text = "the communicator was created before a NCCL was named with MSCCLPP_NCCL_LIB_PATH";
            Failure::usage(text)
        })?;
        run(nested).map_err(|failure| match failure.code {
            Code::InvalidArgument | Code::InvalidUsage => failure,
            _ => self.note(failure),
        })
    }

    /// Checks that an algorithm serves a request, unless it was checked before.
    ///
    /// # Errors
    /// [`Error::Select`] or [`Error::NoPlan`] if none does; those of [`check_request`](mscclpp_communicator::OnStream::check_request).
    pub(crate) fn check_served(
        &self,
        communicator: &Communicator,
        stream: &Stream,
        request: &Request,
    ) -> std::result::Result<(), Error> {
        if lock(&self.served).contains(request) {
            return Ok(());
        }
        communicator.on(stream).check_request(request)?;
        let mut served = lock(&self.served);
        if served.len() >= MAX_SERVED {
            served.clear();
        }
        served.insert(*request);
        Ok(())
    }
}

/// Returns the handle of the real NCCL's communicator.
///
/// # Errors
/// Those of [`find`](super::find); an invalid usage if there is none.
pub(crate) fn nested_handle(comm: Handle) -> Result<usize> {
    let comm = super::find(comm)?;
    comm.for_call()?;
    let mut handle = 0;
    comm.forward(|nested| {
        handle = nested.handle()?;
        Ok(())
    })?;
    Ok(handle)
}

/// Returns the real NCCL's handle of a window.
///
/// # Errors
/// An invalid argument for another handle; an invalid usage for a window that the real NCCL does not have.
pub(crate) fn nested_window(window: *mut c_void) -> Result<usize> {
    let found = all().iter().find_map(|comm| comm.memories.nested_window(window as usize));
    let found = found.ok_or_else(|| Failure::argument(format!("window is {window:p}, no window of this process")))?;
    found.ok_or_else(|| Failure::usage(format!("window {window:p} is not registered with the real NCCL")))
}
