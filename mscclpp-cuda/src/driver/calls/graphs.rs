//! Captures and graphs.

use crate::driver::{CaptureMode, Handle, Result};

/// Driver calls for captures of streams and for the resulting graphs.
pub trait Graphs {
    /// Returns whether a stream is being captured, which it is until its capture ends, invalidated or not.
    ///
    /// # Errors
    /// `CUDA_ERROR_STREAM_CAPTURE_IMPLICIT` for the default stream, while a stream that synchronizes with it is
    /// captured.
    fn is_capturing(&self, stream: Handle) -> Result<bool>;

    /// Returns the identifier of a stream's capture, which no other capture of the process has; `None` if it is not captured, or the
    /// driver has no identifiers, as drivers before CUDA 12.3.
    ///
    /// # Errors
    /// As [`is_capturing`](Self::is_capturing).
    fn capture_id(&self, stream: Handle) -> Result<Option<u64>>;

    /// Begins to capture the work that is enqueued on a stream, instead of executing it. Other calls of this thread can
    /// invalidate the capture; of other threads only a wait for the stream can.
    ///
    /// # Errors
    /// If the stream is captured already, or is the default stream.
    fn begin_capture(&self, stream: Handle) -> Result<()>;

    /// Sets the mode of this thread, and returns its mode before.
    ///
    /// # Errors
    /// Only those of every call.
    fn exchange_capture_mode(&self, mode: CaptureMode) -> Result<CaptureMode>;

    /// Ends the capture of a stream, in the thread that began it, and instantiates the graph.
    ///
    /// # Errors
    /// `CUDA_ERROR_STREAM_CAPTURE_INVALIDATED` if the capture was invalidated, `CUDA_ERROR_STREAM_CAPTURE_UNJOINED` if
    /// other streams were forked from the capture and not joined, `CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD`. The capture
    /// has ended, except after the last of these.
    fn end_capture(&self, stream: Handle) -> Result<Handle>;

    /// Launches a graph, in the order of a stream, and after its own earlier launches on any stream.
    ///
    /// # Errors
    /// Only those of every call. Errors of the graph are reported by a later call.
    fn launch_graph(&self, graph: Handle, stream: Handle) -> Result<()>;

    /// Destroys a graph; its pending launches still complete.
    ///
    /// # Errors
    /// Only those of every call.
    fn destroy_graph(&self, graph: Handle) -> Result<()>;
}
