//! Multicast objects.

use std::os::fd::OwnedFd;

use cudarc::driver::sys;

use super::sharing::{self, FILE};
use super::{Cuda, named};
use crate::driver::calls::Multicast;
use crate::driver::{Handle, Result};

impl Multicast for Cuda {
    fn multicast_granularity(&self, devices: u32, bytes: u64) -> Result<u64> {
        let _current = self.enter()?;
        let ask = |option| {
            let mut unit = 0;
            // SAFETY: writes an integer.
            let asked = unsafe { sys::cuMulticastGetGranularity(&mut unit, &wanted(devices, bytes, FILE), option) };
            named("cuMulticastGetGranularity", asked.result()).map(|()| unit.max(1) as u64)
        };
        let recommended = ask(sys::CUmulticastGranularity_flags::CU_MULTICAST_GRANULARITY_RECOMMENDED)?;
        match is_moderate(bytes, recommended) {
            true => Ok(recommended),
            false => ask(sys::CUmulticastGranularity_flags::CU_MULTICAST_GRANULARITY_MINIMUM),
        }
    }

    fn create_multicast(&self, devices: u32, bytes: u64) -> Result<Handle> {
        let _current = self.enter()?;
        self.create(|handles| {
            let mut object = 0;
            // SAFETY: writes a handle.
            let created = unsafe { sys::cuMulticastCreate(&mut object, &wanted(devices, bytes, handles)) };
            named("cuMulticastCreate", created.result()).map(|()| Handle(object as usize))
        })
    }

    fn export_multicast(&self, object: Handle) -> Result<OwnedFd> {
        let _current = self.enter()?;
        let mut file = -1;
        // SAFETY: the caller's object; of this type it is exported as one file descriptor.
        let exported = unsafe { sys::cuMemExportToShareableHandle((&raw mut file).cast(), object.0 as u64, FILE, 0) };
        named("cuMemExportToShareableHandle", exported.result())?;
        // SAFETY: the driver opened it for this process.
        Ok(unsafe { sharing::opened(file) })
    }

    fn export_multicast_fabric(&self, object: Handle) -> Result<[u8; 64]> {
        let _current = self.enter()?;
        sharing::export_fabric(object.0 as u64)
    }

    fn import_multicast(&self, file: OwnedFd) -> Result<Handle> {
        let _current = self.enter()?;
        sharing::import_file(&file).map(|object| Handle(object as usize))
    }

    fn import_multicast_fabric(&self, handle: [u8; 64]) -> Result<Handle> {
        let _current = self.enter()?;
        sharing::import_fabric(handle).map(|object| Handle(object as usize))
    }

    fn multicast_add_device(&self, object: Handle) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: the caller's object, and an existing device.
        named("cuMulticastAddDevice", unsafe { sys::cuMulticastAddDevice(object.0 as u64, self.device) }.result())
    }

    fn bind_multicast(&self, object: Handle, base: u64, bytes: u64) -> Result<()> {
        let _current = self.enter()?;
        let memory = sharing::retain(base)?;
        // SAFETY: the caller's object and memory, which the driver checks.
        let bound = unsafe { sys::cuMulticastBindMem(object.0 as u64, 0, memory, 0, bytes as usize, 0) };
        let bound = named("cuMulticastBindMem", bound.result());
        // SAFETY: retained above.
        let released = named("cuMemRelease", unsafe { sys::cuMemRelease(memory) }.result());
        bound.and(released)
    }

    fn unbind_multicast(&self, object: Handle, bytes: u64) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: bound by `bind_multicast`, and no longer in use.
        let unbound = unsafe { sys::cuMulticastUnbind(object.0 as u64, self.device, 0, bytes as usize) };
        named("cuMulticastUnbind", unbound.result())
    }

    fn map_multicast(&self, object: Handle, bytes: u64, peers: &[u32]) -> Result<u64> {
        let _current = self.enter()?;
        sharing::map(object.0 as u64, bytes, self.device, peers)
    }

    fn unmap_multicast(&self, address: u64, bytes: u64) -> Result<()> {
        let _current = self.enter()?;
        sharing::unmap(address, bytes)
    }

    fn release_multicast(&self, object: Handle) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: the owner passes the handle to be released.
        named("cuMemRelease", unsafe { sys::cuMemRelease(object.0 as u64) }.result())
    }
}

/// Returns whether rounding up to a granularity enlarges an object by at most a quarter. The recommended granularity may
/// be 512 MiB, which small buffers must not occupy.
fn is_moderate(bytes: u64, granularity: u64) -> bool {
    bytes.checked_next_multiple_of(granularity).is_some_and(|rounded| rounded - bytes <= bytes / 4)
}

/// Returns the properties of an object for a number of devices.
fn wanted(devices: u32, bytes: u64, handles: sys::CUmemAllocationHandleType) -> sys::CUmulticastObjectProp {
    sys::CUmulticastObjectProp {
        numDevices: devices,
        size: bytes as usize,
        handleTypes: u64::from(handles.0),
        flags: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::is_moderate;

    #[test]
    fn recommended_granularity_is_for_large_objects() {
        const UNIT: u64 = 512 << 20;
        assert!(!is_moderate(1, UNIT) && !is_moderate(UNIT / 2, UNIT) && !is_moderate(UNIT + 1, UNIT));
        assert!(is_moderate(UNIT, UNIT) && is_moderate(UNIT / 8 * 7, UNIT) && is_moderate(9 * UNIT + 1, UNIT));
        assert!(!is_moderate(u64::MAX, UNIT));
    }

    /// An object of a part of an allocation is not larger than the allocation, if both were rounded up.
    #[test]
    fn part_is_not_larger_than_whole() {
        let size = |bytes: u64| bytes.next_multiple_of(if is_moderate(bytes, 64) { 64 } else { 2 });
        for whole in 1..1000 {
            assert!((1..=whole).all(|part| size(part) <= size(whole)), "{whole}");
        }
    }
}
