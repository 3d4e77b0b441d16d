//! Captures and graphs.

use crate::cuda::driver::{Handle, Result};

/// Captures of streams, and the graphs that they make.
pub trait Graphs {
    /// Whether a stream records a graph at present; so it does until its capture ends, spoilt or not.
    ///
    /// # Errors
    /// `CUDA_ERROR_STREAM_CAPTURE_IMPLICIT` for the default stream, while one is captured that waits for it.
    fn is_capturing(&self, stream: Handle) -> Result<bool>;

    /// Begins to record what is put on a stream, instead of doing it. Other calls of this thread can spoil that, of
    /// other threads only a wait for the stream.
    ///
    /// # Errors
    /// If the stream is captured already, or is the default one.
    fn begin_capture(&self, stream: Handle) -> Result<()>;

    /// Ends that, in the same thread, and makes what was recorded a graph that can be launched.
    ///
    /// # Errors
    /// `CUDA_ERROR_STREAM_CAPTURE_INVALIDATED` if the capture was spoilt, `CUDA_ERROR_STREAM_CAPTURE_UNJOINED` if other streams were
    /// drawn in that did not come back, `CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD`. The stream records no more, but after the last of
    /// these.
    fn end_capture(&self, stream: Handle) -> Result<Handle>;

    /// Launches a graph, in the order of a stream, and behind its own earlier launches on any stream.
    ///
    /// # Errors
    /// None but those of every call. What goes wrong in the graph a later one says.
    fn launch_graph(&self, graph: Handle, stream: Handle) -> Result<()>;

    /// Gives a graph back; launches under way are still done.
    ///
    /// # Errors
    /// None but those of every call.
    fn destroy_graph(&self, graph: Handle) -> Result<()>;
}
