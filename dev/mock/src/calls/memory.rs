//! Memory of devices and of the host.

use std::ffi::{c_int, c_uint};

use mscclpp_exec::cuda::Mapped;

use super::{ask, calls, valid};
use crate::code::{self, Code};
use crate::pointers::{self, Kind};
use crate::state::{self, called_here};
use crate::{pools, streams};

/// Flags of `cuMemHostAlloc`: portable, mapped, write-combined. All of the simulator's memory of the host is mapped in all contexts.
const HOST_FLAGS: c_uint = 1 | 2 | 4;

/// Flags of `cuMemHostRegister`: portable, mapped, of a device's registers, read-only.
const REGISTER_FLAGS: c_uint = 1 | 2 | 4 | 8;

/// Bytes of a device's memory.
pub(super) const MEMORY: u64 = 1 << 34;

// Attributes of pointers.
const CONTEXT: c_int = 1;
const MEMORY_TYPE: c_int = 2;
const DEVICE_POINTER: c_int = 3;
const HOST_POINTER: c_int = 4;
const SYNC_MEMOPS: c_int = 6;
const BUFFER_ID: c_int = 7;
const IS_MANAGED: c_int = 8;
const DEVICE_ORDINAL: c_int = 9;
const IS_LEGACY_CUDA_IPC_CAPABLE: c_int = 10;
const RANGE_START_ADDRESS: c_int = 11;
const RANGE_SIZE: c_int = 12;
const MEMPOOL_HANDLE: c_int = 17;

/// Attributes whose values are integers; those of the others are addresses and identifiers.
const INTEGERS: [c_int; 4] = [MEMORY_TYPE, IS_MANAGED, DEVICE_ORDINAL, IS_LEGACY_CUDA_IPC_CAPABLE];

calls! {
    fn cuMemAlloc_v2(address: *mut u64, bytes: usize) -> address {
        let address = ask(|driver| driver.alloc(bytes as u64))?;
        pointers::add(address, bytes as u64, Kind::Device)?;
        Ok(address)
    }

    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        let used = pointers::used(state::current()?).min(MEMORY);
        // SAFETY: guaranteed by the caller.
        unsafe {
            free.write((MEMORY - used) as usize);
            total.write(MEMORY as usize);
        }
        Ok(())
    }

    fn cuMemFree_v2(address: u64) {
        state::store_now(None)?;
        ask(|driver| driver.free(address))?;
        pointers::remove(address);
        Ok(())
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

    // Unlike for a single attribute, other memory is no error: its attributes are zero.
    fn cuPointerGetAttributes(count: c_uint, attributes: *const c_int, values: *const *mut u64, address: u64) {
        called_here("cuPointerGetAttributes")?;
        for at in 0..count as usize {
            // SAFETY: the caller's arrays have this number of elements.
            let (attribute, value) = unsafe { (*attributes.add(at), *values.add(at)) };
            // SAFETY: guaranteed by the caller.
            if unsafe { cuPointerGetAttribute(value, attribute, address) } != code::SUCCESS {
                let bytes = if INTEGERS.contains(&attribute) { size_of::<c_int>() } else { size_of::<u64>() };
                // SAFETY: as above.
                unsafe { value.cast::<u8>().write_bytes(0, bytes) };
            }
        }
        Ok(())
    }

    fn cuPointerSetAttribute(_value: *const u64, attribute: c_int, address: u64) {
        valid(attribute == SYNC_MEMOPS)?;
        pointers::find(address).map(drop)
    }

    fn cuPointerGetAttribute(value: *mut u64, attribute: c_int, address: u64) {
        let number = match attribute {
            MEMORY_TYPE => Some(pointers::find(address)?.kind as c_int),
            DEVICE_ORDINAL => Some(pointers::find(address)?.device as c_int),
            IS_MANAGED => pointers::find(address).map(|_| Some(0))?,
            IS_LEGACY_CUDA_IPC_CAPABLE => Some(c_int::from(pointers::find(address)?.kind == Kind::Device)),
            _ => None,
        };
        if let Some(number) = number {
            // SAFETY: the values of these attributes are integers.
            unsafe { value.cast::<c_int>().write(number) };
            return Ok(());
        }
        let result = match attribute {
            BUFFER_ID => ask(|driver| driver.allocation(address)).map(|found| found.id),
            CONTEXT => pointers::find(address).map(|found| found.device as u64 + 1),
            DEVICE_POINTER => pointers::find(address).map(|_| address),
            HOST_POINTER => match pointers::find(address)?.kind {
                Kind::Host => Ok(address),
                Kind::Device => Err(code::INVALID_VALUE),
            },
            RANGE_START_ADDRESS => pointers::find(address).map(|found| found.base),
            MEMPOOL_HANDLE => pointers::find(address).map(|_| 0),
            RANGE_SIZE => pointers::find(address).map(|found| found.bytes),
            _ => Err(code::INVALID_VALUE),
        };
        // SAFETY: the values of the other attributes are addresses and identifiers.
        result.map(|result| unsafe { value.write(result) })
    }

    fn cuMemHostAlloc(memory: *mut usize, bytes: usize, flags: c_uint) -> memory {
        valid(flags & !HOST_FLAGS == 0)?;
        let mapped = ask(|driver| driver.alloc_mapped(bytes as u64))?;
        // A driver does not clear it. SAFETY: just allocated with this number of bytes.
        unsafe { (mapped.host as *mut u8).write_bytes(0xcd, bytes) };
        pointers::add(mapped.device, bytes as u64, Kind::Host)?;
        Ok(mapped.host)
    }

    fn cuMemHostGetDevicePointer_v2(address: *mut u64, memory: usize, _flags: c_uint) -> address {
        called_here("cuMemHostGetDevicePointer")?;
        Ok(memory as u64)
    }

    fn cuMemFreeHost(memory: usize) {
        ask(|driver| driver.free_mapped(Mapped { host: memory, device: memory as u64 }))?;
        pointers::remove(memory as u64);
        Ok(())
    }

    fn cuMemHostRegister_v2(memory: usize, bytes: usize, flags: c_uint) {
        called_here("cuMemHostRegister")?;
        valid(memory != 0 && bytes > 0 && flags & !REGISTER_FLAGS == 0)?;
        pointers::register(memory as u64, bytes as u64)
    }

    fn cuMemHostUnregister(memory: usize) {
        called_here("cuMemHostUnregister")?;
        pointers::unregister(memory as u64)
    }

    fn cuMemAllocAsync(address: *mut u64, bytes: usize, stream: usize) -> address {
        called_here("cuMemAllocAsync")?;
        valid(bytes > 0)?;
        streams::resolve(stream)?;
        let address = pools::alloc(bytes as u64)?;
        pointers::add(address, bytes as u64, Kind::Device)?;
        Ok(address)
    }

    fn cuMemFreeAsync(address: u64, stream: usize) {
        called_here("cuMemFreeAsync")?;
        pools::free(address, streams::resolve(stream)?)
    }
}
