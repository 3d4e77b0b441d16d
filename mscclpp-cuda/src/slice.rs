//! Ranges of device memory.

/// A range of a device's memory, whatever its origin: a [`DeviceBuffer`](super::buffer::DeviceBuffer), a
/// [tensor](super::dlpack::Tensor) of another library, an allocation of cudarc's, or any address. It is safe to create,
/// because it is only a number; the contracts of launches state what must hold for the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceSlice {
    /// Address of the first byte.
    pub address: u64,
    /// Number of bytes.
    pub bytes: u64,
}

impl DeviceSlice {
    /// Converts a slice of cudarc's, for launches on a stream that is ordered after the work that cudarc has enqueued
    /// on its own stream: synchronize that stream first, or launch on it
    /// ([`Stream::from_raw`](crate::device::stream::Stream::from_raw)). The slice must live as long as it is used.
    pub fn of_cudarc<T>(slice: &impl cudarc::driver::DevicePtr<T>, stream: &cudarc::driver::CudaStream) -> Self {
        let bytes = (slice.len() * size_of::<T>()) as u64;
        let (address, _done) = slice.device_ptr(stream);
        Self { address, bytes }
    }

    /// An empty range.
    pub const EMPTY: Self = Self { address: 0, bytes: 0 };
}
