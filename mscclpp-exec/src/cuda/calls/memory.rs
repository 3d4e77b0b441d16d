//! Memory of devices and of the host.

use crate::cuda::driver::{Mapped, Result};

/// Memory of the device and of the host, cleared, written and read while the caller waits.
pub trait Memory {
    /// Memory of the device, not cleared: so many bytes, at least one, from a multiple of 256 on. Other processes can have it
    /// ([`Sharing::export`](super::Sharing::export)).
    ///
    /// # Errors
    /// `CUDA_ERROR_OUT_OF_MEMORY`.
    fn alloc(&self, bytes: u64) -> Result<u64>;

    /// Gives memory back, after all work of the device that may use it.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE` if [`alloc`](Self::alloc) did not give this address; what went wrong on the device meanwhile.
    fn free(&self, address: u64) -> Result<()>;

    /// Zeroed memory of the host that both sides see, and all devices of the process at the same address: page-locked, so many
    /// bytes, at least one, from a multiple of 64 on.
    ///
    /// # Errors
    /// `CUDA_ERROR_OUT_OF_MEMORY`.
    fn alloc_mapped(&self, bytes: u64) -> Result<Mapped>;

    /// Gives it back, after all work of the device that may use it.
    ///
    /// # Errors
    /// As [`free`](Self::free).
    fn free_mapped(&self, mapped: Mapped) -> Result<()>;

    /// Clears memory. What is put on any stream afterwards finds it cleared.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE` if not all of it is the device's memory; what went wrong on the device meanwhile.
    fn memset(&self, address: u64, bytes: u64) -> Result<()>;

    /// Copies to the device; nothing for no bytes. What is put on any stream afterwards finds it copied.
    ///
    /// # Errors
    /// As [`memset`](Self::zero).
    fn memcpy_to_device(&self, to: u64, from: &[u8]) -> Result<()>;

    /// Copies from the device; nothing for no bytes. Work on streams is not waited for.
    ///
    /// # Errors
    /// As [`memset`](Self::zero).
    fn memcpy_to_host(&self, to: &mut [u8], from: u64) -> Result<()>;
}
