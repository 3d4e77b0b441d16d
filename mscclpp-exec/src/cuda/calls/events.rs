//! Events.

use crate::cuda::driver::{Handle, Result};

/// Events: places on streams that others wait for.
pub trait Events {
    /// A new event that keeps time. Until it is recorded it counts as done.
    ///
    /// # Errors
    /// `CUDA_ERROR_OUT_OF_MEMORY`.
    fn create_event(&self) -> Result<Handle>;

    /// Puts an event on a stream: it is done when all is that was put there before. Where it was before is forgotten, but by those
    /// that wait for it already.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_HANDLE` if it belongs to another device than the stream.
    fn record(&self, event: Handle, stream: Handle) -> Result<()>;

    /// Makes what is put on a stream from now on wait for an event as it was recorded last, on this device or another one.
    ///
    /// # Errors
    /// `CUDA_ERROR_STREAM_CAPTURE_ISOLATION` if the stream is captured and the event was recorded outside of that capture.
    fn wait_event(&self, stream: Handle, event: Handle) -> Result<()>;

    /// Whether everything before an event is done.
    ///
    /// # Errors
    /// What went wrong on the device; `CUDA_ERROR_CAPTURED_EVENT` if it was recorded in a capture.
    fn is_done(&self, event: Handle) -> Result<bool>;

    /// Microseconds between two events, both recorded and done; the driver counts in steps of about half of one.
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_READY` if one is not done, `CUDA_ERROR_INVALID_HANDLE` if one was never recorded.
    fn elapsed_us(&self, from: Handle, to: Handle) -> Result<f64>;

    /// Gives an event back; what waits for it still does.
    ///
    /// # Errors
    /// None but those of every call.
    fn destroy_event(&self, event: Handle) -> Result<()>;
}
