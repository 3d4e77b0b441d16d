//! Streams.

use crate::driver::{Handle, Result};

/// A priority of streams. Streams of different priorities are meant not to share a hardware queue of the device, which executes work
/// in the order in which it was enqueued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// The highest one but one; the lowest one on a device with fewer than three: for transfers that other streams wait for, and
    /// which wait for copies.
    Second,
    /// The highest one: for copies that kernels on other streams wait for.
    Highest,
}

/// Driver calls for streams and for enqueued work other than kernels. Errors of enqueued work are reported by the call
/// that waits for it, or by any later one.
pub trait Streams {
    /// Creates a stream, which does not synchronize with the default stream.
    ///
    /// # Errors
    /// `CUDA_ERROR_OUT_OF_MEMORY`.
    fn create_stream(&self) -> Result<Handle>;

    /// Creates such a stream with one of the device's highest priorities.
    ///
    /// # Errors
    /// `CUDA_ERROR_OUT_OF_MEMORY`.
    fn create_priority_stream(&self, priority: Priority) -> Result<Handle>;

    /// Destroys a stream; the work enqueued on it still completes.
    ///
    /// # Errors
    /// Only those of every call.
    fn destroy_stream(&self, stream: Handle) -> Result<()>;

    /// Returns the identifier of a stream, which no other stream of the process has at any time: a handle may be that of a stream that
    /// was destroyed, and that of each thread's default stream is a name. `None` if the driver has no identifiers, as drivers before
    /// CUDA 12.0, or does not return it.
    fn stream_id(&self, stream: Handle) -> Option<u64>;

    /// Waits until all work on a stream is complete.
    ///
    /// # Errors
    /// Those of pending work on the device; `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED` if the stream is captured, by any
    /// thread.
    fn synchronize(&self, stream: Handle) -> Result<()>;

    /// Returns whether all work on a stream is complete.
    ///
    /// # Errors
    /// Those of [`synchronize`](Self::synchronize).
    fn is_idle(&self, stream: Handle) -> Result<bool>;

    /// Copies between ranges of device memory or mapped host memory that do not overlap, in the order of a stream.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE` if not all of it is such memory.
    fn copy(&self, to: u64, from: u64, bytes: u64, stream: Handle) -> Result<()>;

    /// Clears memory, in the order of a stream.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE` if not all of it is the device's memory.
    fn memset_async(&self, address: u64, bytes: u64, stream: Handle) -> Result<()>;

    /// Stores 8 bytes at a multiple of 8, in the order of a stream: a thread that reads the value, on any device or the
    /// host, then sees all that the stream has written before.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE` if the device cannot access the memory; `CUDA_ERROR_NOT_SUPPORTED` if the device
    /// lacks this operation.
    fn write_value(&self, address: u64, value: u64, stream: Handle) -> Result<()>;

    /// Lets later work of a stream wait until the 8 bytes at a multiple of 8 are at least a value: until their difference, as a
    /// signed number, is not negative.
    ///
    /// # Errors
    /// As [`write_value`](Self::write_value).
    fn wait_value(&self, address: u64, value: u64, stream: Handle) -> Result<()>;
}
