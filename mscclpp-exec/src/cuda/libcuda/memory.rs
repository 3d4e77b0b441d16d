//! Memory of the device and of the host.

use std::ffi::c_void;

use cudarc::driver::{result, sys};

use super::{Cuda, named};
use crate::cuda::calls::Memory;
use crate::cuda::driver::{Mapped, Result};

impl Memory for Cuda {
    fn alloc(&self, bytes: u64) -> Result<u64> {
        let _current = self.enter()?;
        // SAFETY: a context is current. The memory is not from a pool, so that other processes can map it.
        named("cuMemAlloc", unsafe { result::malloc_sync(bytes.max(1) as usize) })
    }

    fn free(&self, address: u64) -> Result<()> {
        let _current = self.enter()?;
        // Pending launches may use it.
        named("cuCtxSynchronize", result::ctx::synchronize())?;
        // SAFETY: the owner passes the address to be freed, and no work is pending.
        named("cuMemFree", unsafe { result::free_sync(address) })
    }

    fn alloc_mapped(&self, bytes: u64) -> Result<Mapped> {
        let _current = self.enter()?;
        let bytes = bytes.max(1) as usize;
        let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
        // SAFETY: a context is current.
        let host = named("cuMemHostAlloc", unsafe { result::malloc_host(bytes, flags) })?;
        // SAFETY: just allocated with this number of bytes.
        unsafe { std::ptr::write_bytes(host.cast::<u8>(), 0, bytes) };
        let mut device = 0;
        // SAFETY: memory that was allocated as mapped.
        let address = unsafe { sys::cuMemHostGetDevicePointer_v2(&mut device, host, 0) }.result();
        match named("cuMemHostGetDevicePointer", address) {
            Ok(()) => Ok(Mapped { host: host as usize, device }),
            Err(error) => {
                // SAFETY: no other code has the address.
                let _ = unsafe { result::free_host(host) };
                Err(error)
            }
        }
    }

    fn free_mapped(&self, mapped: Mapped) -> Result<()> {
        let _current = self.enter()?;
        // Pending launches may use it.
        named("cuCtxSynchronize", result::ctx::synchronize())?;
        // SAFETY: the owner passes the memory to be freed, and no work is pending.
        named("cuMemFreeHost", unsafe { result::free_host(mapped.host as *mut c_void) })
    }

    fn memset(&self, address: u64, bytes: u64) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: the caller's memory. The wait that follows is needed, since the call itself may return earlier.
        named("cuMemsetD8", unsafe { result::memset_d8_sync(address, 0, bytes as usize) })?;
        named("cuCtxSynchronize", result::ctx::synchronize())
    }

    fn memcpy_to_device(&self, to: u64, from: &[u8]) -> Result<()> {
        // The address of an empty slice belongs to no allocation.
        if from.is_empty() {
            return Ok(());
        }
        let _current = self.enter()?;
        // SAFETY: the caller's memory.
        named("cuMemcpyHtoD", unsafe { result::memcpy_htod_sync(to, from) })?;
        // The call returns as soon as the bytes are in a buffer of the driver's. Streams that do not synchronize with
        // the default stream, such as those of this library, would not wait for the rest of the copy. SAFETY: the
        // default stream.
        named("cuStreamSynchronize", unsafe { result::stream::synchronize(std::ptr::null_mut()) })
    }

    fn memcpy_to_host(&self, to: &mut [u8], from: u64) -> Result<()> {
        if to.is_empty() {
            return Ok(());
        }
        let _current = self.enter()?;
        // SAFETY: the caller's memory.
        named("cuMemcpyDtoH", unsafe { result::memcpy_dtoh_sync(to, from) })
    }
}
