//! Ranges of addresses.

use cudarc::driver::sys;

use super::sharing::{import_fabric, import_file, retain, set_access};
use super::{Cuda, named};
use crate::driver::calls::Addresses;
use crate::driver::{DriverError, Export, Result, Source};

/// Alignment of ranges: that of the largest pages of devices.
const ALIGNMENT: usize = 512 << 20;

impl Addresses for Cuda {
    fn reserve(&self, bytes: u64) -> Result<u64> {
        let _current = self.enter()?;
        let mut address = 0;
        // SAFETY: writes an address.
        let reserved = unsafe { sys::cuMemAddressReserve(&mut address, bytes as usize, ALIGNMENT, 0, 0) };
        named("cuMemAddressReserve", reserved.result()).map(|()| address)
    }

    fn map_into(&self, address: u64, memory: Source, bytes: u64) -> Result<()> {
        let _current = self.enter()?;
        let handle = match memory {
            Source::Own(base) => retain(base)?,
            Source::Exported(Export::File(file)) => import_file(&file)?,
            Source::Exported(Export::Fabric(handle)) => import_fabric(handle)?,
            Source::Exported(Export::Ipc(_)) => return Err(not_physical()),
        };
        // SAFETY: nothing is mapped at these addresses of a reserved range; the driver rejects another number of bytes.
        let mapped = unsafe { sys::cuMemMap(address, bytes as usize, 0, handle, 0) };
        let mapped = named("cuMemMap", mapped.result());
        // SAFETY: the mapping keeps the memory, and no other code has the handle.
        let released = named("cuMemRelease", unsafe { sys::cuMemRelease(handle) }.result());
        mapped?;
        released.and_then(|()| set_access(address, bytes, self.device, &[])).inspect_err(|_| {
            let _ = unmap(address, bytes);
        })
    }

    fn unmap_from(&self, address: u64, bytes: u64) -> Result<()> {
        let _current = self.enter()?;
        unmap(address, bytes)
    }

    fn free_range(&self, address: u64, bytes: u64) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: the owner passes a range of `reserve` to be freed.
        named("cuMemAddressFree", unsafe { sys::cuMemAddressFree(address, bytes as usize) }.result())
    }
}

fn unmap(address: u64, bytes: u64) -> Result<()> {
    // SAFETY: the owner passes addresses of `map_into`, which are no longer in use.
    named("cuMemUnmap", unsafe { sys::cuMemUnmap(address, bytes as usize) }.result())
}

/// The error of the driver for memory of another kind.
fn not_physical() -> DriverError {
    DriverError {
        call: "cuMemImportFromShareableHandle",
        code: sys::CUresult::CUDA_ERROR_INVALID_VALUE as i32,
        name: "CUDA_ERROR_INVALID_VALUE".into(),
        text: "a handle of interprocess communication has no physical memory".into(),
    }
}
