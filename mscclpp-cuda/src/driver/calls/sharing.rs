//! Memory shared between processes.

use crate::driver::{Allocation, Export, Handle, Mapping, Result};

/// Driver calls for memory shared between processes.
pub trait IpcMemory {
    /// Returns the allocation that contains an address of the device's memory.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE` or `CUDA_ERROR_NOT_FOUND` if it is no such address.
    fn allocation(&self, address: u64) -> Result<Allocation>;

    /// Returns a handle of the physical memory that is mapped at the first byte of an allocation, which exists at least
    /// until the handle is released; `None` for an allocation of another kind. Another mapping at the same address has
    /// another handle.
    ///
    /// # Errors
    /// Only those of every call.
    fn retain(&self, base: u64) -> Result<Option<Handle>>;

    /// Releases a handle of [`retain`](Self::retain).
    ///
    /// # Errors
    /// Only those of every call.
    fn release(&self, memory: Handle) -> Result<()>;

    /// Exports an allocation of this process, given by its first byte, for other processes.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE` if the address is no allocation's first byte, or the driver has no handle for such
    /// memory: that of another process, or an allocation from a pool.
    fn export(&self, base: u64) -> Result<Export>;

    /// Exports an allocation of [`alloc_shared`](Self::alloc_shared), given by its first byte, for the hosts of the device's
    /// [`Fabric`](crate::driver::Fabric).
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_SUPPORTED` and `CUDA_ERROR_NOT_PERMITTED` where there is no fabric, or the process may not use it;
    /// `CUDA_ERROR_INVALID_VALUE` for other memory.
    fn export_fabric(&self, base: u64) -> Result<[u8; 64]>;

    /// Maps an allocation of this number of bytes of another process, which must keep it as long as this process does.
    /// The same handle may be mapped several times.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_CONTEXT` for a handle of this process; `CUDA_ERROR_TOO_MANY_PEERS` and
    /// `CUDA_ERROR_MAP_FAILED` if the device cannot access the memory; `CUDA_ERROR_INVALID_HANDLE` or
    /// `CUDA_ERROR_INVALID_VALUE` for an invalid handle, and for a handle of a fabric that the process may not use.
    fn import(&self, export: Export, bytes: u64) -> Result<Mapping>;

    /// Allocates memory that can be shared, not cleared: [`export`](Self::export) returns it as a file, and where the process
    /// can use the device's fabric, [`export_fabric`](Self::export_fabric) returns a handle. The size is at
    /// least this number of bytes, rounded up to whole units of physical memory. This device and those with these
    /// numbers can access it.
    ///
    /// # Errors
    /// `CUDA_ERROR_OUT_OF_MEMORY`; `CUDA_ERROR_NOT_SUPPORTED` and `CUDA_ERROR_NOT_PERMITTED` where sharing by files is
    /// not available; `CUDA_ERROR_INVALID_DEVICE` for a device that does not exist, or that cannot access this device's
    /// memory.
    fn alloc_shared(&self, bytes: u64, peers: &[u32]) -> Result<Mapping>;

    /// Unmaps a mapping that no pending work uses, imported or allocated here.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE` if it is not mapped.
    fn unmap(&self, import: Mapping) -> Result<()>;
}
