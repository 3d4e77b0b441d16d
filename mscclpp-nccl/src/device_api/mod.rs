//! Structures of NCCL's device interface: what programs state of a device communicator, and what their kernels read. Kernels are
//! compiled with NVIDIA's headers of some version, so each structure is that of the version with which the program was compiled.

mod layout;
mod requirements;
mod windows;

pub(crate) use self::layout::{DeviceComm, Layout, resource_window};
pub(crate) use self::requirements::{Requirements, ResourceHandle, lsa_barrier_bytes, write_requirement};
pub(crate) use self::windows::{WindowDescriptor, WindowTable};

/// Unit of the positions of resources in their window.
pub(crate) const RESOURCE_UNIT: u64 = 128;
