//! Memory of devices and of the host.

use std::ffi::{c_int, c_uint};

use mscclpp_exec::cuda::Mapped;

use super::{ask, calls, valid};
use crate::code::{self, Code};
use crate::state::{self, called_here};

/// Flags of `cuMemHostAlloc`: the memory is valid in all contexts, and devices can access it.
const PORTABLE_AND_MAPPED: c_uint = 1 | 2;

/// An attribute of pointers.
const BUFFER_ID: c_int = 7;

calls! {
    fn cuMemAlloc_v2(address: *mut u64, bytes: usize) -> address { ask(|driver| driver.alloc(bytes as u64)) }

    fn cuMemFree_v2(address: u64) {
        state::store_now(None)?;
        ask(|driver| driver.free(address))
    }

    fn cuMemGetAddressRange_v2(base: *mut u64, bytes: *mut usize, address: u64) {
        let found = ask(|driver| driver.allocation(address))?;
        // SAFETY: guaranteed by the caller.
        unsafe {
            base.write(found.base);
            bytes.write(found.bytes as usize);
        }
        Ok(())
    }

    fn cuPointerGetAttribute(value: *mut u64, attribute: c_int, address: u64) -> value {
        if attribute != BUFFER_ID {
            return Err(code::INVALID_VALUE);
        }
        ask(|driver| driver.allocation(address)).map(|found| found.id)
    }

    fn cuMemHostAlloc(memory: *mut usize, bytes: usize, flags: c_uint) -> memory {
        valid(flags == PORTABLE_AND_MAPPED)?;
        let mapped = ask(|driver| driver.alloc_mapped(bytes as u64))?;
        // A driver does not clear it. SAFETY: just allocated with this number of bytes.
        unsafe { (mapped.host as *mut u8).write_bytes(0xcd, bytes) };
        Ok(mapped.host)
    }

    fn cuMemHostGetDevicePointer_v2(address: *mut u64, memory: usize, _flags: c_uint) -> address {
        called_here("cuMemHostGetDevicePointer")?;
        Ok(memory as u64)
    }

    fn cuMemFreeHost(memory: usize) {
        ask(|driver| driver.free_mapped(Mapped { host: memory, device: memory as u64 }))
    }
}
