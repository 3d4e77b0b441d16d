//! Memory of the device and of the host.

use std::ffi::c_void;

use cudarc::driver::{result, sys};

use super::{Cuda, named};
use crate::cuda::calls::Memory;
use crate::cuda::driver::{Mapped, Result};

impl Memory for Cuda {
    fn alloc(&self, bytes: u64) -> Result<u64> {
        let _current = self.enter()?;
        // SAFETY: a context is current. Not from a pool, so that other processes can map it.
        named("cuMemAlloc", unsafe { result::malloc_sync(bytes.max(1) as usize) })
    }

    fn free(&self, address: u64) -> Result<()> {
        let _current = self.enter()?;
        // Launches under way may use it.
        named("cuCtxSynchronize", result::ctx::synchronize())?;
        // SAFETY: the owner of the address gives it up, and nothing is under way.
        named("cuMemFree", unsafe { result::free_sync(address) })
    }

    fn alloc_mapped(&self, bytes: u64) -> Result<Mapped> {
        let _current = self.enter()?;
        let bytes = bytes.max(1) as usize;
        let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
        // SAFETY: a context is current.
        let host = named("cuMemHostAlloc", unsafe { result::malloc_host(bytes, flags) })?;
        // SAFETY: just allocated with so many bytes.
        unsafe { std::ptr::write_bytes(host.cast::<u8>(), 0, bytes) };
        let mut device = 0;
        // SAFETY: memory that was allocated as mapped.
        let address = unsafe { sys::cuMemHostGetDevicePointer_v2(&mut device, host, 0) }.result();
        match named("cuMemHostGetDevicePointer", address) {
            Ok(()) => Ok(Mapped { host: host as usize, device }),
            Err(error) => {
                // SAFETY: nobody has seen it.
                let _ = unsafe { result::free_host(host) };
                Err(error)
            }
        }
    }

    fn free_mapped(&self, mapped: Mapped) -> Result<()> {
        let _current = self.enter()?;
        // Launches under way may use it.
        named("cuCtxSynchronize", result::ctx::synchronize())?;
        // SAFETY: the owner gives it up, and nothing is under way.
        named("cuMemFreeHost", unsafe { result::free_host(mapped.host as *mut c_void) })
    }

    fn memset(&self, address: u64, bytes: u64) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: the caller's memory. Waited for, since the call itself does not have to.
        named("cuMemsetD8", unsafe { result::memset_d8_sync(address, 0, bytes as usize) })?;
        named("cuCtxSynchronize", result::ctx::synchronize())
    }

    fn memcpy_to_device(&self, to: u64, from: &[u8]) -> Result<()> {
        // The address of an empty slice is nobody's.
        if from.is_empty() {
            return Ok(());
        }
        let _current = self.enter()?;
        // SAFETY: the caller's memory.
        named("cuMemcpyHtoD", unsafe { result::memcpy_htod_sync(to, from) })?;
        // It returns as soon as the bytes are in a buffer of the driver's. Streams that do not wait for the default one, ours
        // too, would not wait for what is left to do there.
        // SAFETY: the default stream.
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
