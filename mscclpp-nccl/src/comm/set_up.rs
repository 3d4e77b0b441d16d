//! Set-up within captures: the driver rejects allocations of a thread that captures a stream unless the thread asks for them.

use std::marker::PhantomData;

use cudarc::driver::sys;
use mscclpp_exec::Error;

use sys::CUstreamCaptureMode::{self, CU_STREAM_CAPTURE_MODE_RELAXED as RELAXED};

/// Lets this thread allocate while it captures a stream, until it is dropped. The memory is no part of the capture.
pub(super) struct SetUp {
    before: CUstreamCaptureMode,
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
        let _ = exchange(self.before);
    }
}

/// Sets the thread's mode of captures, and returns the one before.
fn exchange(mut mode: CUstreamCaptureMode) -> Result<CUstreamCaptureMode, Error> {
    // SAFETY: reads and writes a mode; the driver is loaded, since there is a communicator.
    match unsafe { sys::cuThreadExchangeStreamCaptureMode(&mut mode) } {
        sys::CUresult::CUDA_SUCCESS => Ok(mode),
        code => Err(Error::System {
            what: "cannot allocate while a stream is captured".into(),
            reason: format!("cuThreadExchangeStreamCaptureMode returned {code:?}"),
        }),
    }
}
