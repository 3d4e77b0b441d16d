//! Memory of devices and of the host.

use std::ffi::{c_int, c_uint};

use crate::driver;
use crate::error::{self, Code};
use crate::runtime::runtime;

// Attributes of pointers.
const MEMORY_TYPE: c_int = 2;
const DEVICE_ORDINAL: c_int = 9;

/// Device of memory that belongs to none.
const NO_DEVICE: c_int = -2;

/// `cudaPointerAttributes`.
#[repr(C)]
struct PointerAttributes {
    kind: c_int,
    device: c_int,
    device_pointer: u64,
    host_pointer: u64,
    reserved: [u64; 8],
}

/// Kind of memory, with the values of `cudaMemoryType`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Unregistered = 0,
    Host = 1,
    Device = 2,
}

/// Returns the kind of memory at an address.
pub(crate) fn kind(address: u64) -> Kind {
    match driver::cuPointerGetAttribute(MEMORY_TYPE, address) {
        Ok(1) => Kind::Host,
        Ok(_) => Kind::Device,
        Err(_) => Kind::Unregistered,
    }
}

/// Returns whether arguments of an allocation of the host are valid.
fn alloc_host(bytes: usize, flags: c_uint) -> Result<usize, Code> {
    driver::cuMemHostAlloc(bytes.max(1), flags)
}

runtime! {
    fn cudaMalloc(address: *mut u64, bytes: usize) -> address {
        if bytes == 0 { Ok(0) } else { driver::cuMemAlloc_v2(bytes) }
    }

    fn cudaFree(address: u64) {
        if address == 0 { Ok(()) } else { driver::cuMemFree_v2(address) }
    }

    fn cudaMallocAsync(address: *mut u64, bytes: usize, stream: usize) -> address {
        if bytes == 0 { Ok(0) } else { driver::cuMemAllocAsync(bytes, stream) }
    }

    fn cudaFreeAsync(address: u64, stream: usize) {
        if address == 0 { Ok(()) } else { driver::cuMemFreeAsync(address, stream) }
    }

    fn cudaHostAlloc(memory: *mut usize, bytes: usize, flags: c_uint) -> memory { alloc_host(bytes, flags) }

    fn cudaMallocHost(memory: *mut usize, bytes: usize) -> memory { alloc_host(bytes, 0) }

    fn cudaFreeHost(memory: usize) {
        if memory == 0 { Ok(()) } else { driver::cuMemFreeHost(memory) }
    }

    fn cudaHostRegister(memory: usize, bytes: usize, flags: c_uint) { driver::cuMemHostRegister_v2(memory, bytes, flags) }

    fn cudaHostUnregister(memory: usize) { driver::cuMemHostUnregister(memory) }

    fn cudaMemGetInfo(free: *mut usize, total: *mut usize) {
        if free.is_null() || total.is_null() {
            return Err(error::INVALID_VALUE);
        }
        // SAFETY: guaranteed by the caller.
        unsafe { driver::cuMemGetInfo_v2(free, total) }
    }

    fn cudaPointerGetAttributes(attributes: *mut PointerAttributes, address: u64) -> attributes {
        let kind = kind(address);
        let device = match kind {
            Kind::Unregistered => NO_DEVICE,
            Kind::Host | Kind::Device => driver::cuPointerGetAttribute(DEVICE_ORDINAL, address)? as c_int,
        };
        Ok(PointerAttributes {
            kind: kind as c_int,
            device,
            device_pointer: if kind == Kind::Unregistered { 0 } else { address },
            host_pointer: if kind == Kind::Device { 0 } else { address },
            reserved: [0; 8],
        })
    }
}
