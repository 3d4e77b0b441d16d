//! Multicast objects, as CUDA's driver has them: physical memory of several devices behind one range of addresses. All functions
//! want a current context.

use std::ffi::c_void;
use std::os::fd::{AsRawFd, OwnedFd};

use cudarc::driver::sys;

use super::driver::{Handle, Result};
use super::real::named;
use super::share::{self, FILE};

/// What an object is for.
fn wanted(devices: u32, bytes: u64) -> sys::CUmulticastObjectProp {
    sys::CUmulticastObjectProp { numDevices: devices, size: bytes as usize, handleTypes: u64::from(FILE.0), flags: 0 }
}

pub(super) fn unit(devices: u32, bytes: u64) -> Result<u64> {
    let option = sys::CUmulticastGranularity_flags::CU_MULTICAST_GRANULARITY_MINIMUM;
    let mut unit = 0;
    // SAFETY: writes an integer.
    let asked = unsafe { sys::cuMulticastGetGranularity(&mut unit, &wanted(devices, bytes), option) };
    named("cuMulticastGetGranularity", asked.result()).map(|()| unit.max(1) as u64)
}

pub(super) fn create(devices: u32, bytes: u64) -> Result<Handle> {
    let mut object = 0;
    // SAFETY: writes a handle.
    let created = unsafe { sys::cuMulticastCreate(&mut object, &wanted(devices, bytes)) };
    named("cuMulticastCreate", created.result()).map(|()| Handle(object as usize))
}

pub(super) fn export(object: Handle) -> Result<OwnedFd> {
    let mut file = -1;
    // SAFETY: the caller's object; of this type it is exported as one file descriptor.
    let exported = unsafe { sys::cuMemExportToShareableHandle((&raw mut file).cast(), object.0 as u64, FILE, 0) };
    named("cuMemExportToShareableHandle", exported.result())?;
    // SAFETY: the driver opened it for us.
    Ok(unsafe { share::opened(file) })
}

pub(super) fn import(file: &OwnedFd) -> Result<Handle> {
    let (mut object, raw) = (0, file.as_raw_fd() as usize as *mut c_void);
    // SAFETY: writes a handle; the descriptor is open, and stays ours.
    let imported = unsafe { sys::cuMemImportFromShareableHandle(&mut object, raw, FILE) };
    named("cuMemImportFromShareableHandle", imported.result()).map(|()| Handle(object as usize))
}

pub(super) fn join(object: Handle, device: sys::CUdevice) -> Result<()> {
    // SAFETY: the caller's object, and a device that is there.
    named("cuMulticastAddDevice", unsafe { sys::cuMulticastAddDevice(object.0 as u64, device) }.result())
}

pub(super) fn bind(object: Handle, base: u64, bytes: u64) -> Result<()> {
    let memory = share::retain(base)?;
    // SAFETY: the caller's object and memory, which the driver looks at.
    let bound = unsafe { sys::cuMulticastBindMem(object.0 as u64, 0, memory, 0, bytes as usize, 0) };
    let bound = named("cuMulticastBindMem", bound.result());
    // SAFETY: retained above.
    let released = named("cuMemRelease", unsafe { sys::cuMemRelease(memory) }.result());
    bound.and(released)
}

pub(super) fn unbind(object: Handle, device: sys::CUdevice, bytes: u64) -> Result<()> {
    // SAFETY: bound by `bind`, and nobody uses it any more.
    named("cuMulticastUnbind", unsafe { sys::cuMulticastUnbind(object.0 as u64, device, 0, bytes as usize) }.result())
}

pub(super) fn map(object: Handle, bytes: u64, ordinal: i32, peers: &[u32]) -> Result<u64> {
    share::map(object.0 as u64, bytes, ordinal, peers)
}

pub(super) fn unmap(address: u64, bytes: u64) -> Result<()> {
    share::unmap(address, bytes)
}

pub(super) fn release(object: Handle) -> Result<()> {
    // SAFETY: the owner gives the handle up.
    named("cuMemRelease", unsafe { sys::cuMemRelease(object.0 as u64) }.result())
}
