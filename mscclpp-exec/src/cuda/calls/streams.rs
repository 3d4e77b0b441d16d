//! Streams.

use crate::cuda::driver::{Handle, Result};

/// Streams, and what is put on them that is no kernel. Of what is put on a stream the call that waits for it, or any later one,
/// says what went wrong.
pub trait Streams {
    /// A new stream, which does not wait for the default one.
    ///
    /// # Errors
    /// `CUDA_ERROR_OUT_OF_MEMORY`.
    fn create_stream(&self) -> Result<Handle>;

    /// Gives a stream back; what was put on it is still done.
    ///
    /// # Errors
    /// None but those of every call.
    fn destroy_stream(&self, stream: Handle) -> Result<()>;

    /// Waits until everything on a stream is done.
    ///
    /// # Errors
    /// What went wrong on the device; `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED` if the stream is captured, by whichever thread.
    fn synchronize(&self, stream: Handle) -> Result<()>;

    /// Copies between memories of devices and such that both sides see, which do not overlap, in the order of a stream.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE` if not all of it is such memory.
    fn copy(&self, to: u64, from: u64, bytes: u64, stream: Handle) -> Result<()>;

    /// Clears memory, in the order of a stream.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE` if not all of it is the device's memory.
    fn memset_async(&self, address: u64, bytes: u64, stream: Handle) -> Result<()>;

    /// Stores 8 bytes at a multiple of 8, in the order of a stream: whoever sees the value, on any device or the host, sees all
    /// that the stream has written before.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE` if it is no memory that the device reaches; `CUDA_ERROR_NOT_SUPPORTED` on a device that cannot.
    fn write_value(&self, address: u64, value: u64, stream: Handle) -> Result<()>;
}
