//! Ranges of addresses.

use crate::driver::{Result, Source};

/// Driver calls for ranges of addresses, to which physical memory is mapped that has addresses already.
pub trait Addresses {
    /// Reserves a range of unused addresses, a multiple of 4 GiB long, where nothing is mapped.
    ///
    /// # Errors
    /// `CUDA_ERROR_OUT_OF_MEMORY` if there are not as many.
    fn reserve(&self, bytes: u64) -> Result<u64>;

    /// Maps all of an allocation's physical memory, of this number of bytes, at an address of a reserved range where nothing is
    /// mapped, for this device. It exists at least until it is unmapped there.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE` for memory of another kind and for another number of bytes; those of
    /// [`IpcMemory::import`](super::IpcMemory::import).
    fn map_into(&self, address: u64, memory: Source, bytes: u64) -> Result<()>;

    /// Unmaps what [`map_into`](Self::map_into) mapped at an address, and no pending work uses.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE` if nothing of this number of bytes is mapped there.
    fn unmap_from(&self, address: u64, bytes: u64) -> Result<()>;

    /// Frees a reserved range of this number of bytes, where nothing is mapped.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE` for another range.
    fn free_range(&self, address: u64, bytes: u64) -> Result<()>;
}
