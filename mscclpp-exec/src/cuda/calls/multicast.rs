//! Multicast objects.

use std::os::fd::OwnedFd;

use crate::cuda::driver::{Handle, Result};

/// Multicast objects: physical memory of several devices behind one range of addresses. One is made, all its devices join, each
/// binds memory, and then each maps the addresses.
///
/// `CUDA_ERROR_NOT_SUPPORTED`, `CUDA_ERROR_NOT_PERMITTED`, `CUDA_ERROR_SYSTEM_NOT_READY` and `CUDA_ERROR_ILLEGAL_STATE` may come of
/// every call: the fabric between the devices is not set up, or not for this process.
pub trait Multicast {
    /// Bytes of which the size of a multicast object of so many devices is a multiple, and that of all memory bound to it.
    /// `bytes`: a size that the object will have at least.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE` if there cannot be such an object.
    fn multicast_granularity(&self, devices: u32, bytes: u64) -> Result<u64>;

    /// A new multicast object for so many devices, of so many bytes: whole units.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE` if they are not; `CUDA_ERROR_OUT_OF_MEMORY`.
    fn create_multicast(&self, devices: u32, bytes: u64) -> Result<Handle>;

    /// A multicast object for other processes.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE` if it is no multicast object.
    fn export_multicast(&self, object: Handle) -> Result<OwnedFd>;

    /// Another process's multicast object, which is there as long as anybody has a handle of it.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE` if the file is none.
    fn import_multicast(&self, file: OwnedFd) -> Result<Handle>;

    /// Adds the device to a multicast object. All of its devices are added before memory is bound to it.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE` if it is one of them already, or they are all there; `CUDA_ERROR_OUT_OF_MEMORY`.
    fn multicast_add_device(&self, object: Handle) -> Result<()>;

    /// Puts so many bytes of the device's memory, whole units, behind the first ones of a multicast object: from the first byte of
    /// an allocation that was made to be shared.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE` if it is other memory, too little of it, or not all devices have joined;
    /// `CUDA_ERROR_OUT_OF_MEMORY` if the devices have no room for more multicast objects.
    fn bind_multicast(&self, object: Handle, base: u64, bytes: u64) -> Result<()>;

    /// Takes away what was bound, after all work of all devices that may use it.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE` if so much was not bound.
    fn unbind_multicast(&self, object: Handle, bytes: u64) -> Result<()>;

    /// Addresses of a whole multicast object, for this device and those of these numbers. What is stored there reaches all
    /// members; plain loads there may not be used.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE` if these are not its bytes; `CUDA_ERROR_OUT_OF_MEMORY` without addresses left.
    fn map_multicast(&self, object: Handle, bytes: u64, peers: &[u32]) -> Result<u64>;

    /// Gives the addresses back, after all work of the device that may use them.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE` if they are not mapped; what went wrong on the device meanwhile.
    fn unmap_multicast(&self, address: u64, bytes: u64) -> Result<()>;

    /// Gives a handle back. The object stays as long as it has others, addresses, or memory.
    ///
    /// # Errors
    /// None but those of every call.
    fn release_multicast(&self, object: Handle) -> Result<()>;
}
