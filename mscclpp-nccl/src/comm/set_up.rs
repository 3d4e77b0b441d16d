//! Set-up within captures: the driver rejects allocations of a thread that captures a stream unless the thread asks for them.

use std::marker::PhantomData;

use cudarc::driver::sys;
use mscclpp_exec::Error;

use sys::CUstreamCaptureMode::{self, CU_STREAM_CAPTURE_MODE_RELAXED as RELAXED};

/// Lets this thread allocate while it captures a stream, until it is dropped. The memory is no part of the capture.
pub(super) struct SetUp {
    /// None for a thread without a context: it captures nothing, as the threads in which a group ends.
    before: Option<CUstreamCaptureMode>,
    /// The mode is the thread's.
    _of_thread: PhantomData<*const ()>,
}

impl SetUp {
    /// Begins set-up.
    ///
    /// # Errors
    /// [`Error::System`].
    pub(super) fn begin() -> Result<Self, Error> {
        Ok(Self { before: exchange(RELAXED)?, _of_thread: PhantomData })
    }
}

impl Drop for SetUp {
    fn drop(&mut self) {
        // A destructor cannot report a failure.
        let _ = self.before.map(exchange);
    }
}

/// Sets the thread's mode of captures, and returns the one before; none if the thread has no context.
fn exchange(mut mode: CUstreamCaptureMode) -> Result<Option<CUstreamCaptureMode>, Error> {
    // SAFETY: reads and writes a mode; the driver is loaded, since there is a communicator.
    match unsafe { sys::cuThreadExchangeStreamCaptureMode(&mut mode) } {
        sys::CUresult::CUDA_SUCCESS => Ok(Some(mode)),
        sys::CUresult::CUDA_ERROR_INVALID_CONTEXT => Ok(None),
        code => Err(Error::System {
            what: "cannot allocate while a stream is captured".into(),
            reason: format!("cuThreadExchangeStreamCaptureMode returned {code:?}"),
        }),
    }
}
