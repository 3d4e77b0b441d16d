//! Memory of devices and of the host.

use crate::driver::{Mapped, Result};

/// Driver calls for memory of the device and of the host, which is cleared, written and read synchronously.
pub trait Memory {
    /// Allocates device memory, not cleared: the given number of bytes, at least one, aligned to 256. Other processes
    /// can map it ([`IpcMemory::export`](super::IpcMemory::export)).
    ///
    /// # Errors
    /// `CUDA_ERROR_OUT_OF_MEMORY`.
    fn alloc(&self, bytes: u64) -> Result<u64>;

    /// Frees memory that no pending work uses.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE` if [`alloc`](Self::alloc) did not return this address.
    fn free(&self, address: u64) -> Result<()>;

    /// Allocates zeroed host memory that the host and, at the same address, all devices of the process can access:
    /// page-locked, the given number of bytes, at least one, aligned to 64.
    ///
    /// # Errors
    /// `CUDA_ERROR_OUT_OF_MEMORY`.
    fn alloc_mapped(&self, bytes: u64) -> Result<Mapped>;

    /// Frees mapped host memory that no pending work uses.
    ///
    /// # Errors
    /// Those of [`free`](Self::free).
    fn free_mapped(&self, mapped: Mapped) -> Result<()>;

    /// Clears ranges of memory, given by address and bytes, and copies bytes to other addresses of the device. Work that is
    /// enqueued on any stream afterwards reads the result. Waits once for all of it, and for no work on streams; has no effect
    /// for 0 bytes.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE` if not all of it is the device's memory.
    fn initialize(&self, zeros: &[(u64, u64)], copies: &[(u64, &[u8])]) -> Result<()>;

    /// Clears memory, as [`initialize`](Self::initialize) does.
    ///
    /// # Errors
    /// Those of [`initialize`](Self::initialize).
    fn memset(&self, address: u64, bytes: u64) -> Result<()> {
        self.initialize(&[(address, bytes)], &[])
    }

    /// Copies to the device, as [`initialize`](Self::initialize) does.
    ///
    /// # Errors
    /// Those of [`initialize`](Self::initialize).
    fn memcpy_to_device(&self, to: u64, from: &[u8]) -> Result<()> {
        self.initialize(&[], &[(to, from)])
    }

    /// Copies from the device; has no effect for 0 bytes. Does not wait for work on streams.
    ///
    /// # Errors
    /// Those of [`initialize`](Self::initialize).
    fn memcpy_to_host(&self, to: &mut [u8], from: u64) -> Result<()>;
}
