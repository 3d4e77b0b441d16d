//! Physical memory and multicast objects, which other processes receive as files.

use std::ffi::{c_int, c_uint};
use std::os::fd::{BorrowedFd, IntoRawFd};

use mscclpp_exec::cuda::Export;

use super::{POSIX_FILE_DESCRIPTOR, UNIT, ask, calls, ordinal, valid};
use crate::code::{self, Code};
use crate::state::{self, called_here};
use crate::{multicast, physical};

/// `CUmemAllocationProp`.
#[derive(PartialEq)]
#[repr(C)]
struct Wanted {
    kind: c_uint,
    handle_types: c_uint,
    place: c_uint,
    device: c_int,
    description: usize,
    flags: [u8; 8],
}

impl Wanted {
    /// Accepts pinned memory of a device that is exported as files: the only kind that the simulator has.
    fn check(&self) -> Result<(), Code> {
        let device = self.device;
        ordinal(device)?;
        let file = POSIX_FILE_DESCRIPTOR;
        let expected = Self { kind: 1, handle_types: file, place: 1, device, description: 0, flags: [0; 8] };
        valid(*self == expected)
    }
}

calls! {
    fn cuMemGetAllocationGranularity(unit: *mut usize, wanted: *const Wanted, option: c_uint) -> unit {
        called_here("cuMemGetAllocationGranularity")?;
        // SAFETY: the caller's struct.
        unsafe { &*wanted }.check()?;
        valid(option < 2)?;
        Ok(UNIT)
    }

    fn cuMemCreate(memory: *mut u64, bytes: usize, wanted: *const Wanted, flags: u64) -> memory {
        // SAFETY: the caller's struct.
        unsafe { &*wanted }.check()?;
        valid(flags == 0 && bytes > 0 && bytes.is_multiple_of(UNIT))?;
        // For all devices: a later call selects those for which it is mapped.
        let all = state::devices_with_access(state::current()?);
        ask(|driver| driver.alloc_shared(bytes as u64, &all)).map(physical::add)
    }

    fn cuMemRelease(memory: u64) {
        called_here("cuMemRelease")?;
        if multicast::is_one(memory) {
            return multicast::release(memory);
        }
        physical::release(memory)
    }

    fn cuMemRetainAllocationHandle(memory: *mut u64, address: u64) -> memory {
        called_here("cuMemRetainAllocationHandle")?;
        physical::retain(address)
    }

    fn cuMemExportToShareableHandle(file: *mut c_int, memory: u64, kind: c_uint, flags: u64) -> file {
        called_here("cuMemExportToShareableHandle")?;
        valid(flags == 0 && (multicast::is_one(memory) || physical::is_handle(memory)))?;
        if multicast::is_one(memory) && kind == POSIX_FILE_DESCRIPTOR {
            let object = multicast::handle(memory)?;
            return ask(|driver| driver.export_multicast(object)).map(IntoRawFd::into_raw_fd);
        }
        match (kind, ask(|driver| driver.export(memory))?) {
            (POSIX_FILE_DESCRIPTOR, Export::File(file)) => Ok(file.into_raw_fd()),
            _ => Err(code::INVALID_VALUE),
        }
    }

    fn cuMemImportFromShareableHandle(memory: *mut u64, file: usize, kind: c_uint) -> memory {
        called_here("cuMemImportFromShareableHandle")?;
        if kind != POSIX_FILE_DESCRIPTOR {
            return Err(code::INVALID_VALUE);
        }
        // SAFETY: the caller's descriptor, which is open during the call.
        let file = unsafe { BorrowedFd::borrow_raw(file as c_int) }.try_clone_to_owned();
        let file = std::fs::File::from(file.map_err(|_| code::INVALID_VALUE)?);
        let bytes = file.metadata().map_err(|_| code::INVALID_VALUE)?.len();
        // Physical memory consists of whole units.
        if !bytes.is_multiple_of(UNIT as u64) {
            let object = ask(|driver| driver.import_multicast(file.into()))?;
            return multicast::add(object, 0);
        }
        ask(|driver| driver.import(Export::File(file.into()), bytes)).map(physical::add)
    }
}
