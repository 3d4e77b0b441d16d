//! Memory shared between processes: file descriptors for physical memory, handles of CUDA's interprocess communication
//! for other allocations.

use std::ffi::c_void;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use cudarc::driver::sys;

use super::{Cuda, named};
use crate::driver::calls::IpcMemory;
use crate::driver::{Allocation, DriverError, Export, Handle, Mapping, Result};

/// Handle type with which physical memory and multicast objects are exported.
pub(super) const FILE: sys::CUmemAllocationHandleType =
    sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

/// Handle type with which both are exported to other hosts of a fabric.
pub(super) const FABRIC: sys::CUmemAllocationHandleType = sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_FABRIC;

impl Cuda {
    /// Creates physical memory or a multicast object with the types of handles that the device has: those of its fabric too,
    /// unless the driver refuses these.
    pub(super) fn create<T>(&self, create: impl Fn(sys::CUmemAllocationHandleType) -> Result<T>) -> Result<T> {
        if self.properties.fabric.is_none() {
            return create(FILE);
        }
        match create(sys::CUmemAllocationHandleType(FILE.0 | FABRIC.0)) {
            Err(error) if is_fabric_refusal(&error) => create(FILE),
            created => created,
        }
    }
}

impl IpcMemory for Cuda {
    fn allocation(&self, address: u64) -> Result<Allocation> {
        let _current = self.enter()?;
        let (mut base, mut bytes, mut id) = (0, 0, 0_u64);
        // SAFETY: writes two integers.
        let asked = unsafe { sys::cuMemGetAddressRange_v2(&mut base, &mut bytes, address) };
        named("cuMemGetAddressRange", asked.result())?;
        let attribute = sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_BUFFER_ID;
        // SAFETY: this attribute is an integer of 64 bits.
        let asked = unsafe { sys::cuPointerGetAttribute((&raw mut id).cast(), attribute, address) };
        named("cuPointerGetAttribute", asked.result())?;
        Ok(Allocation { base, bytes: bytes as u64, id })
    }

    fn retain(&self, base: u64) -> Result<Option<Handle>> {
        let _current = self.enter()?;
        match retain(base) {
            Err(error) if is_not_physical(&error) => Ok(None),
            retained => retained.map(|memory| Some(Handle(memory as usize))),
        }
    }

    fn release(&self, memory: Handle) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: the owner passes the handle to be released.
        named("cuMemRelease", unsafe { sys::cuMemRelease(memory.0 as u64) }.result())
    }

    fn export(&self, base: u64) -> Result<Export> {
        let _current = self.enter()?;
        let memory = match retain(base) {
            Err(error) if is_not_physical(&error) => {
                let mut handle = sys::CUipcMemHandle { reserved: [0; 64] };
                // SAFETY: writes a handle.
                let exported = unsafe { sys::cuIpcGetMemHandle(&mut handle, base) }.result();
                named("cuIpcGetMemHandle", exported)?;
                return Ok(Export::Ipc(handle.reserved.map(|byte| byte as u8)));
            }
            retained => retained?,
        };
        let mut file = -1;
        // SAFETY: the handle was just retained; of this type it is exported as one file descriptor.
        let exported = unsafe { sys::cuMemExportToShareableHandle((&raw mut file).cast(), memory, FILE, 0) }.result();
        let exported = named("cuMemExportToShareableHandle", exported);
        // SAFETY: retained above.
        let released = named("cuMemRelease", unsafe { sys::cuMemRelease(memory) }.result());
        exported?;
        // SAFETY: the driver opened it for this process.
        let file = unsafe { opened(file) };
        released.map(|()| Export::File(file))
    }

    fn export_fabric(&self, base: u64) -> Result<[u8; 64]> {
        let _current = self.enter()?;
        let memory = retain(base)?;
        let exported = export_fabric(memory);
        // SAFETY: retained above.
        let released = named("cuMemRelease", unsafe { sys::cuMemRelease(memory) }.result());
        exported.and_then(|handle| released.map(|()| handle))
    }

    fn import(&self, export: Export, bytes: u64) -> Result<Mapping> {
        let _current = self.enter()?;
        match export {
            Export::Ipc(handle) => {
                let handle = sys::CUipcMemHandle { reserved: handle.map(|byte| byte as _) };
                let flags = sys::CUipcMem_flags::CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS as u32;
                let mut address = 0;
                // SAFETY: writes an address; an invalid handle is rejected.
                let opened = unsafe { sys::cuIpcOpenMemHandle_v2(&mut address, handle, flags) };
                named("cuIpcOpenMemHandle", opened.result())?;
                Ok(Mapping { address, bytes, is_physical: false })
            }
            Export::File(file) => {
                let memory = import_file(&file)?;
                release(memory, map(memory, bytes, self.device, &[]), bytes)
            }
            Export::Fabric(handle) => {
                let memory = import_fabric(handle)?;
                release(memory, map(memory, bytes, self.device, &[]), bytes)
            }
        }
    }

    fn alloc_shared(&self, bytes: u64, peers: &[u32]) -> Result<Mapping> {
        let _current = self.enter()?;
        let (memory, bytes) = self.create(|handles| {
            // SAFETY: a struct of integers and a pointer that is not used on this system.
            let mut wanted: sys::CUmemAllocationProp = unsafe { std::mem::zeroed() };
            wanted.type_ = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
            wanted.requestedHandleTypes = handles;
            wanted.location = location(self.device);
            let option = sys::CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_RECOMMENDED;
            let mut unit = 0;
            // SAFETY: writes an integer.
            let asked = unsafe { sys::cuMemGetAllocationGranularity(&mut unit, &wanted, option) };
            named("cuMemGetAllocationGranularity", asked.result())?;
            // The driver rejects a size that cannot be rounded up.
            let bytes = bytes.max(1).checked_next_multiple_of(unit.max(1) as u64).unwrap_or(bytes);
            let mut memory = 0;
            // SAFETY: writes a handle.
            let created = unsafe { sys::cuMemCreate(&mut memory, bytes as usize, &wanted, 0) };
            named("cuMemCreate", created.result()).map(|()| (memory, bytes))
        })?;
        let mapped = map(memory, bytes, self.device, peers);
        release(memory, mapped, bytes)
    }

    fn unmap(&self, import: Mapping) -> Result<()> {
        let _current = self.enter()?;
        if import.is_physical {
            return unmap(import.address, import.bytes);
        }
        // SAFETY: opened by `import`.
        named("cuIpcCloseMemHandle", unsafe { sys::cuIpcCloseMemHandle(import.address) }.result())
    }
}

/// Returns whether the driver has refused to create something because its handles would be those of a fabric: the process has
/// no access to the fabric's service, or the driver does not support it.
fn is_fabric_refusal(error: &DriverError) -> bool {
    const INVALID_VALUE: i32 = 1;
    const NOT_PERMITTED: i32 = 800;
    const NOT_SUPPORTED: i32 = 801;
    matches!(error.code, INVALID_VALUE | NOT_PERMITTED | NOT_SUPPORTED)
}

/// Exports physical memory or a multicast object by a handle of the fabric.
pub(super) fn export_fabric(object: sys::CUmemGenericAllocationHandle) -> Result<[u8; 64]> {
    let mut handle = [0_u8; 64];
    // SAFETY: the caller's object; of this type it is exported as a handle of 64 bytes.
    let exported = unsafe { sys::cuMemExportToShareableHandle((&raw mut handle).cast(), object, FABRIC, 0) };
    named("cuMemExportToShareableHandle", exported.result()).map(|()| handle)
}

/// Imports physical memory or a multicast object from a file.
pub(super) fn import_file(file: &OwnedFd) -> Result<sys::CUmemGenericAllocationHandle> {
    let (mut object, raw) = (0, file.as_raw_fd() as usize as *mut c_void);
    // SAFETY: writes a handle; the descriptor is open during the call.
    let imported = unsafe { sys::cuMemImportFromShareableHandle(&mut object, raw, FILE) };
    named("cuMemImportFromShareableHandle", imported.result()).map(|()| object)
}

/// Imports physical memory or a multicast object by a handle of the fabric.
pub(super) fn import_fabric(mut handle: [u8; 64]) -> Result<sys::CUmemGenericAllocationHandle> {
    let mut object = 0;
    // SAFETY: writes a handle; the other one has 64 bytes, and an invalid one is rejected.
    let imported = unsafe { sys::cuMemImportFromShareableHandle(&mut object, (&raw mut handle).cast(), FABRIC) };
    named("cuMemImportFromShareableHandle", imported.result()).map(|()| object)
}

/// Takes ownership of a descriptor that the driver has opened. It is closed in child processes, which would otherwise
/// keep the memory alive.
///
/// # Safety
/// No other code owns it.
pub(super) unsafe fn opened(file: RawFd) -> OwnedFd {
    // SAFETY: guaranteed by the caller.
    let file = unsafe { OwnedFd::from_raw_fd(file) };
    // The call cannot fail for an open descriptor.
    let _ = rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::CLOEXEC);
    file
}

/// Retains the physical memory at an address and returns another handle of it.
pub(super) fn retain(base: u64) -> Result<sys::CUmemGenericAllocationHandle> {
    let mut memory = 0;
    // SAFETY: writes a handle.
    let retained = unsafe { sys::cuMemRetainAllocationHandle(&mut memory, base as *mut c_void) };
    named("cuMemRetainAllocationHandle", retained.result()).map(|()| memory)
}

/// Returns whether the physical memory at an address was refused because the address is that of another kind of memory.
fn is_not_physical(error: &DriverError) -> bool {
    let refusals = [sys::CUresult::CUDA_ERROR_INVALID_VALUE, sys::CUresult::CUDA_ERROR_NOT_SUPPORTED];
    refusals.map(|refusal| refusal as i32).contains(&error.code)
}

/// Releases the handle of physical memory, so that only its mapping keeps the memory, or nothing does if the mapping
/// failed.
fn release(memory: sys::CUmemGenericAllocationHandle, mapped: Result<u64>, bytes: u64) -> Result<Mapping> {
    // SAFETY: a mapping keeps the memory, and no other code has the handle.
    let released = named("cuMemRelease", unsafe { sys::cuMemRelease(memory) }.result());
    let address = mapped?;
    if let Err(error) = released {
        let _ = unmap(address, bytes);
        return Err(error);
    }
    Ok(Mapping { address, bytes, is_physical: true })
}

/// Returns the location of a device's memory.
fn location(ordinal: i32) -> sys::CUmemLocation {
    /// `CUmemLocation`, whose number is a field or, in bindings from CUDA 13.2 on, a member of a union.
    #[repr(C)]
    struct Location {
        kind: sys::CUmemLocationType,
        id: i32,
    }
    let location = Location { kind: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id: ordinal };
    // SAFETY: a kind and a number of four bytes each, in this order, in C and in all bindings; all values are valid.
    unsafe { std::mem::transmute::<Location, sys::CUmemLocation>(location) }
}

/// Maps physical memory at an unused address, for a device and others.
pub(super) fn map(memory: sys::CUmemGenericAllocationHandle, bytes: u64, ordinal: i32, peers: &[u32]) -> Result<u64> {
    let (mut address, size) = (0, bytes as usize);
    // Aligned as whole units of physical memory (usually 2 MiB) and of multicast objects (up to 512 MiB) require.
    let align = 1 << bytes.trailing_zeros().min(29);
    // SAFETY: writes an address.
    let reserved = unsafe { sys::cuMemAddressReserve(&mut address, size, align, 0, 0) };
    named("cuMemAddressReserve", reserved.result())?;
    // SAFETY: the range was just reserved.
    let mapped = named("cuMemMap", unsafe { sys::cuMemMap(address, size, 0, memory, 0) }.result());
    if let Err(error) = mapped {
        // SAFETY: reserved above, and nothing is mapped there.
        let _ = unsafe { sys::cuMemAddressFree(address, size) };
        return Err(error);
    }
    if let Err(error) = set_access(address, bytes, ordinal, peers) {
        let _ = unmap(address, bytes);
        return Err(error);
    }
    Ok(address)
}

/// Lets a device and others access mapped memory.
pub(super) fn set_access(address: u64, bytes: u64, ordinal: i32, peers: &[u32]) -> Result<()> {
    let flags = sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    let all = [ordinal].into_iter().chain(peers.iter().map(|&peer| peer as i32));
    let all: Vec<_> = all.map(|device| sys::CUmemAccessDesc { location: location(device), flags }).collect();
    // SAFETY: the caller has mapped the range; the array has this number of descriptions.
    let set = unsafe { sys::cuMemSetAccess(address, bytes as usize, all.as_ptr(), all.len()) };
    named("cuMemSetAccess", set.result())
}

/// Unmaps memory that `map` mapped and that is no longer in use.
pub(super) fn unmap(address: u64, bytes: u64) -> Result<()> {
    // SAFETY: mapped by `map`.
    named("cuMemUnmap", unsafe { sys::cuMemUnmap(address, bytes as usize) }.result())?;
    // SAFETY: reserved by `map`.
    named("cuMemAddressFree", unsafe { sys::cuMemAddressFree(address, bytes as usize) }.result())
}
