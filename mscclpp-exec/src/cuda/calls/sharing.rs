//! Memory between processes.

use crate::cuda::driver::{Allocation, Export, Mapping, Result};

/// Memory between processes.
pub trait IpcMemory {
    /// What an address of the device's memory belongs to.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE` or `CUDA_ERROR_NOT_FOUND` if it is no such address.
    fn allocation(&self, address: u64) -> Result<Allocation>;

    /// An allocation of this process, given by its first byte, for others.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE` if the address is no allocation's first byte, or the driver has no handle for such memory:
    /// another process's, and what comes from a pool.
    fn export(&self, base: u64) -> Result<Export>;

    /// Maps an allocation of so many bytes of another process, which has it as long as this one. The same handle may be mapped
    /// several times.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_CONTEXT` for a handle of this process; `CUDA_ERROR_TOO_MANY_PEERS` and `CUDA_ERROR_MAP_FAILED` if the
    /// device cannot reach the memory; `CUDA_ERROR_INVALID_HANDLE` or `CUDA_ERROR_INVALID_VALUE` for what is no allocation.
    fn import(&self, export: Export, bytes: u64) -> Result<Mapping>;

    /// Memory that is made to be shared, not cleared: [`export`](Self::export) gives it as a file. At least so many bytes,
    /// rounded up to whole units of physical memory. Besides this device those of these numbers reach it.
    ///
    /// # Errors
    /// `CUDA_ERROR_OUT_OF_MEMORY`; `CUDA_ERROR_NOT_SUPPORTED` and `CUDA_ERROR_NOT_PERMITTED` where there are no such files;
    /// `CUDA_ERROR_INVALID_DEVICE` for a device that there is not, or that cannot reach this one's memory.
    fn alloc_shared(&self, bytes: u64, peers: &[u32]) -> Result<Mapping>;

    /// Gives back what was mapped, imported or made, after all work of the device that may use it.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE` if it is not mapped; what went wrong on the device meanwhile.
    fn unmap(&self, import: Mapping) -> Result<()>;
}
