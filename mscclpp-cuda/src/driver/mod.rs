//! The interface that the executor requires of a driver: properties of a device here, its calls in [`calls`].
//! `libcuda` implements it for CUDA; tests use a simulator.

pub mod calls;

use std::fmt;
use std::marker::PhantomData;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::jit::{Compiler, JitError};
pub use mscclpp_base::error::driver::DriverError;

pub type Result<T> = std::result::Result<T, DriverError>;

/// A driver's handle: of a module, function, stream, event, graph or multicast object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle(pub usize);

/// Memory that both the host and the device can access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// The host's address.
    pub host: usize,
    /// The device's address.
    pub device: u64,
}

/// The allocation that contains an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Address of its first byte.
    pub base: u64,
    /// Number of bytes.
    pub bytes: u64,
    /// Identifier that no other allocation of the process has or had: memory that is freed and allocated again at the
    /// same address has another one. Physical memory that is mapped at the address of an earlier mapping may have the
    /// same one; it has another handle ([`retain`](calls::IpcMemory::retain)).
    pub id: u64,
}

/// An allocation in the form in which it is sent to another process.
#[derive(Debug)]
pub enum Export {
    /// A handle of CUDA's interprocess communication.
    Ipc([u8; 64]),
    /// A file descriptor, for processes of the same host.
    File(OwnedFd),
    /// A handle of a [`Fabric`], for processes of all hosts in it.
    Fabric([u8; 64]),
}

/// Physical memory that is mapped to further addresses.
#[derive(Debug)]
pub enum Source {
    /// That of an allocation of this process, given by its first byte.
    Own(u64),
    /// That of another process: a [`File`](Export::File), or a handle of a [`Fabric`](Export::Fabric).
    Exported(Export),
}

/// The part of a fabric that a device is connected to: an NVLink domain, whose devices access each other's memory, whatever
/// their hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fabric {
    /// Identifier of the fabric.
    pub cluster: [u8; 16],
    /// Number of the part of it.
    pub clique: u32,
}

/// An allocation that was mapped: one of another process, or one of this process that was allocated to be shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Address of its first byte in this process.
    pub address: u64,
    /// Number of bytes.
    pub bytes: u64,
    /// Whether it is physical memory, which other processes map as a file or by a handle of a fabric.
    pub is_physical: bool,
}

/// Which captures the calls of a thread may invalidate that no capture of its own needs ([`calls`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureMode {
    /// Its own captures, and those of other threads that were begun in this mode. Threads begin in it.
    Global,
    /// Its own captures.
    ThreadLocal,
    /// None: the driver allows the calls.
    Relaxed,
}

/// The contexts of a thread before a guard: the driver's current one, and that of the guard before; as numbers.
pub(super) type Contexts = [usize; 2];

/// Guard of a thread in which a driver's context is current; of [`Driver::enter`].
#[must_use = "the context is current only as long as this exists"]
#[derive(Debug, Default)]
pub struct Entered {
    /// Called when it is dropped.
    leave: Option<(fn(Contexts), Contexts)>,
    _of_thread: PhantomData<*const ()>,
}

impl Entered {
    /// Creates a guard that calls a function when it is dropped.
    pub(super) fn new(leave: fn(Contexts), before: Contexts) -> Self {
        Self { leave: Some((leave, before)), _of_thread: PhantomData }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some((leave, before)) = self.leave {
            leave(before);
        }
    }
}

/// Properties of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Properties {
    /// Number of the device, counted from 0. Devices of one process with the same number are the same device.
    pub ordinal: u32,
    /// Identifier that differs from those of all other devices, also in other processes.
    pub uuid: [u8; 16],
    /// The vendor's name.
    pub name: String,
    /// Major and minor compute capability.
    pub capability: (u32, u32),
    /// Number of streaming multiprocessors.
    pub multiprocessors: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// The driver's version: 1000 times major plus 10 times minor.
    pub driver: u32,
    /// Whether memory can be allocated for sharing as files.
    pub shareable: bool,
    /// The fabric to which the device is connected, if its memory can be exported to other hosts there.
    pub fabric: Option<Fabric>,
    /// Whether the device supports multicast objects, and no variable forbids them.
    pub multicast: bool,
}

/// Another device that a process sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// [`Properties::uuid`] of the device.
    pub uuid: [u8; 16],
    /// Whether the device can access the memory of that one.
    pub can_access: bool,
}

/// One device, as the executor uses it: the device itself here, its calls in the supertraits.
///
/// # Safety
/// Memory must be as specified: [`alloc`](calls::Memory::alloc) and [`alloc_mapped`](calls::Memory::alloc_mapped)
/// return memory that nothing else uses until it is freed, and `alloc_mapped`'s host address is valid and aligned to 64
/// bytes for the requested number of bytes, and zeroed.
pub unsafe trait Driver:
    calls::Memory
    + calls::IpcMemory
    + calls::Addresses
    + calls::Multicast
    + calls::Kernels
    + calls::Streams
    + calls::Graphs
    + calls::Events
    + Send
    + Sync
{
    /// Returns the properties of the device.
    fn properties(&self) -> &Properties;

    /// Returns a number that all devices of a process share and that differs from that of every other process.
    fn process(&self) -> u64;

    /// Makes the device's context current in this thread until the result is dropped, as each call does for itself: several calls
    /// of the thread then ask for the current context once.
    ///
    /// # Errors
    /// Only those of every call.
    fn enter(&self) -> Result<Entered> {
        Ok(Entered::default())
    }

    /// Returns the other devices that this process sees.
    ///
    /// # Errors
    /// Only those of every call.
    fn peers(&self) -> Result<Vec<Peer>>;

    /// Returns whether this device can access the memory of another one, given by its number.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_DEVICE` if there is no such device.
    fn can_access(&self, peer: u32) -> Result<bool>;

    /// Enables access of this device to all memory that another one has or will have, at the same addresses. Enabling
    /// it again is no error.
    ///
    /// # Errors
    /// `CUDA_ERROR_PEER_ACCESS_UNSUPPORTED` if the hardware does not support it, `CUDA_ERROR_TOO_MANY_PEERS` if the
    /// limit of peers is reached, `CUDA_ERROR_INVALID_DEVICE` if there is no such device.
    fn enable_access(&self, peer: u32) -> Result<()>;

    /// Waits until no work is pending on the device.
    ///
    /// # Errors
    /// Those of the work that was pending; `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED` if a stream of the device is captured, by
    /// any thread and in any mode.
    fn wait_idle(&self) -> Result<()>;

    /// Returns the compiler of device code for this device.
    ///
    /// # Errors
    /// The reason why there is none.
    fn compiler(&self) -> std::result::Result<&dyn Compiler, JitError> {
        Err(JitError::Unsupported)
    }
}

/// A shared driver.
pub type SharedDriver = Arc<dyn Driver>;

impl Properties {
    /// Describes the device for messages: name and number.
    #[doc(hidden)]
    pub fn label(&self) -> String {
        format!("device {} ({})", self.ordinal, self.name)
    }
}

impl fmt::Display for Properties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.capability;
        write!(
            f,
            "{} (compute capability {major}.{minor}, {} multiprocessors, {:.0} GiB, driver for CUDA {}.{})",
            self.name,
            self.multiprocessors,
            self.memory as f64 / f64::from(1 << 30),
            self.driver / 1000,
            self.driver % 1000 / 10
        )
    }
}
