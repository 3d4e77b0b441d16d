//! Memory of the device and of the host.
//!
//! Memory is cleared and copied on an own stream, which is waited for. The driver's synchronous functions use the default
//! stream, which waits for streams that other code has created, and which no thread may use while one of these is captured.

use std::ffi::c_void;

use cudarc::driver::{result, sys};

use super::{Cuda, named, stream};
use crate::driver::calls::{Memory, Streams};
use crate::driver::{Mapped, Result};

impl Memory for Cuda {
    fn alloc(&self, bytes: u64) -> Result<u64> {
        let _current = self.enter()?;
        // SAFETY: a context is current. The memory is not from a pool, so that other processes can map it.
        named("cuMemAlloc", unsafe { result::malloc_sync(bytes.max(1) as usize) })
    }

    fn free(&self, address: u64) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: the owner passes the address to be freed, which no pending work uses.
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
        // SAFETY: the owner passes the memory to be freed, which no pending work uses.
        named("cuMemFreeHost", unsafe { result::free_host(mapped.host as *mut c_void) })
    }

    fn initialize(&self, zeros: &[(u64, u64)], copies: &[(u64, &[u8])]) -> Result<()> {
        // The address of an empty range belongs to no allocation.
        let (zeros, copies) =
            (zeros.iter().filter(|zeros| zeros.1 > 0), copies.iter().filter(|copy| !copy.1.is_empty()));
        let on = self.own_stream()?;
        let _current = self.enter()?;
        let enqueue = || -> Result<()> {
            // First, because a copy of pageable memory waits for the work before it.
            for &(to, from) in copies {
                // SAFETY: the caller's memory, which is borrowed until the copy is complete, and an own stream.
                named("cuMemcpyHtoDAsync", unsafe { result::memcpy_htod_async(to, from, stream(on)) })?;
            }
            for &(address, bytes) in zeros {
                self.memset_async(address, bytes, on)?;
            }
            Ok(())
        };
        let enqueued = enqueue();
        // A copy may have begun. The call returns as soon as the bytes are in a buffer of the driver's, or earlier.
        let done = self.synchronize(on);
        enqueued.and(done)
    }

    fn memcpy_to_host(&self, to: &mut [u8], from: u64) -> Result<()> {
        if to.is_empty() {
            return Ok(());
        }
        let on = self.own_stream()?;
        let _current = self.enter()?;
        // SAFETY: the caller's memory, which is borrowed until the copy is complete, and an own stream.
        let copied = unsafe { result::memcpy_dtoh_async(to, from, stream(on)) };
        let done = self.synchronize(on);
        named("cuMemcpyDtoHAsync", copied).and(done)
    }
}
