//! Physical memory and multicast objects, which other processes receive as files.

use std::ffi::{c_int, c_uint};
use std::os::fd::{BorrowedFd, IntoRawFd};

use mscclpp_exec::cuda::Export;

use super::{FABRIC, POSIX_FILE_DESCRIPTOR, UNIT, ask, calls, check_handle_types, ordinal, valid};
use crate::code::{self, Code};
use crate::pointers::{self, Kind};
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
    /// Accepts pinned memory of a device that is exported as files, or also by handles of a fabric: the only kinds that the
    /// simulator has. Returns whether there are handles of a fabric.
    fn check(&self) -> Result<bool, Code> {
        let &Self { device, handle_types, .. } = self;
        ordinal(device)?;
        valid(*self == Self { handle_types, ..Self::of(device) })?;
        check_handle_types(handle_types)
    }

    /// Returns the properties of memory of a device.
    fn of(device: c_int) -> Self {
        Self { kind: 1, handle_types: POSIX_FILE_DESCRIPTOR, place: 1, device, description: 0, flags: [0; 8] }
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
        let has_fabric = unsafe { &*wanted }.check()?;
        valid(flags == 0 && bytes > 0 && bytes.is_multiple_of(UNIT))?;
        // For all devices: a later call selects those for which it is mapped.
        let all = state::devices_with_access(state::current()?);
        let mapping = ask(|driver| driver.alloc_shared(bytes as u64, &all))?;
        pointers::add(mapping.address, mapping.bytes, Kind::Device)?;
        Ok(physical::add(mapping, has_fabric))
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

    fn cuMemGetAllocationPropertiesFromHandle(found: *mut Wanted, memory: u64) -> found {
        called_here("cuMemGetAllocationPropertiesFromHandle")?;
        valid(physical::is_handle(memory))?;
        Ok(Wanted::of(pointers::find(memory)?.device as c_int))
    }

    fn cuMemExportToShareableHandle(file: *mut c_int, memory: u64, kind: c_uint, flags: u64) {
        called_here("cuMemExportToShareableHandle")?;
        valid(flags == 0 && (multicast::is_one(memory) || physical::is_handle(memory)))?;
        if kind == FABRIC {
            let handle = match multicast::is_one(memory) {
                true => {
                    let object = multicast::handle(memory)?;
                    ask(|driver| driver.export_multicast_fabric(object))?
                }
                // It was created with such a handle.
                false if !physical::has_fabric(memory) => return Err(code::INVALID_VALUE),
                false => ask(|driver| driver.export_fabric(memory))?,
            };
            // SAFETY: the caller's handle has 64 bytes.
            unsafe { file.cast::<[u8; 64]>().write_unaligned(handle) };
            return Ok(());
        }
        // SAFETY: the caller's descriptor.
        export_file(memory, kind).map(|opened| unsafe { file.write(opened) })
    }

    fn cuMemImportFromShareableHandle(memory: *mut u64, file: usize, kind: c_uint) -> memory {
        called_here("cuMemImportFromShareableHandle")?;
        if kind == FABRIC {
            // SAFETY: the caller's handle has 64 bytes.
            let handle = unsafe { (file as *const [u8; 64]).read_unaligned() };
            // Objects have no length.
            if handle[32..40] == [0; 8] {
                let object = ask(|driver| driver.import_multicast_fabric(handle))?;
                return multicast::add(object, 0);
            }
            let mapping = ask(|driver| driver.import(Export::Fabric(handle), 0))?;
            return Ok(physical::add(mapping, false));
        }
        import_file(file, kind)
    }
}

/// Exports memory or a multicast object as a file.
fn export_file(memory: u64, kind: c_uint) -> Result<c_int, Code> {
    if multicast::is_one(memory) && kind == POSIX_FILE_DESCRIPTOR {
        let object = multicast::handle(memory)?;
        return ask(|driver| driver.export_multicast(object)).map(IntoRawFd::into_raw_fd);
    }
    match (kind, ask(|driver| driver.export(memory))?) {
        (POSIX_FILE_DESCRIPTOR, Export::File(file)) => Ok(file.into_raw_fd()),
        _ => Err(code::INVALID_VALUE),
    }
}

/// Imports memory or a multicast object from a file.
fn import_file(file: usize, kind: c_uint) -> Result<u64, Code> {
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
    ask(|driver| driver.import(Export::File(file.into()), bytes)).map(|mapping| physical::add(mapping, false))
}
