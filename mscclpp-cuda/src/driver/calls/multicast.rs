//! Multicast objects.

use std::os::fd::OwnedFd;

use crate::driver::{Handle, Result};

/// Driver calls for multicast objects: physical memory of several devices in one address range. An object is created,
/// all its devices are added, each binds memory, and then each maps the addresses.
///
/// Every call may return `CUDA_ERROR_NOT_SUPPORTED`, `CUDA_ERROR_NOT_PERMITTED`, `CUDA_ERROR_SYSTEM_NOT_READY` and
/// `CUDA_ERROR_ILLEGAL_STATE`: the fabric between the devices is not set up, or not for this process.
pub trait Multicast {
    /// Returns the granularity, in bytes, of a multicast object of this number of devices: its size and that of all
    /// memory bound to it are multiples of it. `bytes`: minimum size of the object. A driver returns the granularity that
    /// is best for performance if it enlarges the object moderately, otherwise the smallest one.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE` if no such object is possible.
    fn multicast_granularity(&self, devices: u32, bytes: u64) -> Result<u64>;

    /// Creates a multicast object for this number of devices with this number of bytes, a multiple of the granularity.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE` if the size is not; `CUDA_ERROR_OUT_OF_MEMORY`.
    fn create_multicast(&self, devices: u32, bytes: u64) -> Result<Handle>;

    /// Exports a multicast object as a file for other processes of the host.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE` if the handle is no multicast object.
    fn export_multicast(&self, object: Handle) -> Result<OwnedFd>;

    /// Exports a multicast object for the hosts of the device's fabric.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE` if the handle is no multicast object; `CUDA_ERROR_NOT_SUPPORTED` without a fabric.
    fn export_multicast_fabric(&self, object: Handle) -> Result<[u8; 64]>;

    /// Imports another process's multicast object, which exists as long as any process has a handle of it.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE` if the file is no multicast object.
    fn import_multicast(&self, file: OwnedFd) -> Result<Handle>;

    /// Imports a multicast object of another host, as [`import_multicast`](Self::import_multicast) does.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE` if the handle is that of no multicast object, or the process may not use the fabric.
    fn import_multicast_fabric(&self, handle: [u8; 64]) -> Result<Handle>;

    /// Adds the device to a multicast object. All of its devices are added before memory is bound to it.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE` if the device was added before, or all devices have been added;
    /// `CUDA_ERROR_OUT_OF_MEMORY`.
    fn multicast_add_device(&self, object: Handle) -> Result<()>;

    /// Binds this number of bytes of the device's memory, a multiple of the granularity, to the beginning of a
    /// multicast object: from the first byte of an allocation that was made to be shared.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE` if it is other memory, too little of it, or not all devices were added;
    /// `CUDA_ERROR_OUT_OF_MEMORY` if the devices have no room for more multicast objects.
    fn bind_multicast(&self, object: Handle, base: u64, bytes: u64) -> Result<()>;

    /// Unbinds the device's memory, after all work of all devices that may use it.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE` if fewer bytes were bound.
    fn unbind_multicast(&self, object: Handle, bytes: u64) -> Result<()>;

    /// Maps a whole multicast object, for this device and those with these numbers, and returns the address. Stores
    /// there reach all members; plain loads there are not allowed.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE` if the object has another size; `CUDA_ERROR_OUT_OF_MEMORY` if no addresses are left.
    fn map_multicast(&self, object: Handle, bytes: u64, peers: &[u32]) -> Result<u64>;

    /// Unmaps the addresses, which no pending work uses.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE` if they are not mapped.
    fn unmap_multicast(&self, address: u64, bytes: u64) -> Result<()>;

    /// Releases a handle. The object exists as long as it has other handles, mappings, or bound memory.
    ///
    /// # Errors
    /// Only those of every call.
    fn release_multicast(&self, object: Handle) -> Result<()>;
}
