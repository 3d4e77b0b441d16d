//! Events.

use crate::driver::{Handle, Result};

/// Driver calls for events, which are points on streams that other streams wait for.
pub trait Events {
    /// Creates a timing event. It counts as complete until it is recorded.
    ///
    /// # Errors
    /// `CUDA_ERROR_OUT_OF_MEMORY`.
    fn create_event(&self) -> Result<Handle>;

    /// Creates an event without a time, which costs the device less to record.
    ///
    /// # Errors
    /// `CUDA_ERROR_OUT_OF_MEMORY`.
    fn create_untimed_event(&self) -> Result<Handle>;

    /// Records an event on a stream: it is complete when all work that was enqueued before it is. An earlier recording
    /// is replaced, except for waits that were enqueued before.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_HANDLE` if the event and the stream belong to different devices.
    fn record(&self, event: Handle, stream: Handle) -> Result<()>;

    /// Orders the work that is enqueued on a stream from now on after the last recording of an event, on this device or
    /// another one.
    ///
    /// # Errors
    /// `CUDA_ERROR_STREAM_CAPTURE_ISOLATION` if the stream is captured and the event was recorded outside of that
    /// capture.
    fn wait_event(&self, stream: Handle, event: Handle) -> Result<()>;

    /// Records an event whenever a graph reaches this point, of which a stream is captured: a launch of the graph is a recording.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE` if the stream is not captured.
    fn record_in_graph(&self, event: Handle, stream: Handle) -> Result<()>;

    /// Orders the work that follows in a graph, of which a stream is captured, after the last recording of an event before a launch of
    /// the graph.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE` if the stream is not captured.
    fn wait_event_in_graph(&self, stream: Handle, event: Handle) -> Result<()>;

    /// Returns whether all work before an event is complete.
    ///
    /// # Errors
    /// Those of pending work on the device; `CUDA_ERROR_CAPTURED_EVENT` if the event was recorded in a capture.
    fn is_done(&self, event: Handle) -> Result<bool>;

    /// Returns the microseconds between two events, both recorded and complete; the driver's resolution is about half a
    /// microsecond.
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_READY` if one is not complete, `CUDA_ERROR_INVALID_HANDLE` if one was never recorded or has no time.
    fn elapsed_us(&self, from: Handle, to: Handle) -> Result<f64>;

    /// Destroys an event; enqueued waits for it remain in effect.
    ///
    /// # Errors
    /// Only those of every call.
    fn destroy_event(&self, event: Handle) -> Result<()>;
}
