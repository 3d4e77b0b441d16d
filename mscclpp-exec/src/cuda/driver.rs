//! What the executor needs of a driver: facts about a device here, what it does in [`calls`]. [`super::real`] is CUDA's; tests put
//! a simulator in its place.

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use thiserror::Error;

use super::calls;
use super::jit::{Compiler, JitError};

/// A call to the driver that failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{call} failed: {name} ({code}): {text}")]
pub struct DriverError {
    /// The driver's function.
    pub call: &'static str,
    /// Its result.
    pub code: i32,
    /// The result's name, `CUDA_ERROR_OUT_OF_MEMORY`.
    pub name: String,
    /// What the driver says about it.
    pub text: String,
}

impl DriverError {
    /// Whether it was refused because a stream is captured, or spoilt a capture.
    pub fn is_of_a_capture(&self) -> bool {
        (900..=908).contains(&self.code)
    }

    /// Whether the driver cannot use the image that it was to load: not its device's, not its version's, or it has no compiler.
    pub fn is_of_an_image(&self) -> bool {
        matches!(self.code, 200 | 209 | 218 | 221..=223 | 300)
    }
}

pub(super) type Result<T> = std::result::Result<T, DriverError>;

/// A driver's handle: of a module, function, stream, event, graph or multicast object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle(pub usize);

/// Memory that host and device both see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// The host's address.
    pub host: usize,
    /// The device's address.
    pub device: u64,
}

/// What an address belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Its first byte.
    pub base: u64,
    /// Its bytes.
    pub bytes: u64,
    /// No other allocation of the process has or had it: memory that is freed and allocated again at the same address has
    /// another one.
    pub id: u64,
}

/// An allocation as it is sent to another process.
#[derive(Debug)]
pub enum Export {
    /// A handle of CUDA's interprocess communication.
    Ipc([u8; 64]),
    /// A file descriptor.
    File(OwnedFd),
}

/// An allocation that was mapped: another process's, or an own one that was made to be shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Its first byte here.
    pub address: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Whether it is known to other processes as a file.
    pub is_file: bool,
}

/// Facts about a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Properties {
    /// Its number, counted from 0. Devices of one process with the same number are the same device.
    pub ordinal: u32,
    /// Tells the device apart from all others, also in other processes.
    pub uuid: [u8; 16],
    /// As the vendor calls it.
    pub name: String,
    /// Major and minor compute capability.
    pub capability: (u32, u32),
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// The driver's version: 1000 times major plus 10 times minor.
    pub driver: u32,
    /// Whether memory can be made to be shared as files.
    pub shareable: bool,
    /// Whether the device has multicast objects.
    pub multicast: bool,
}

/// One device, as the executor uses it: itself here, what it does in its parts.
///
/// # Safety
/// An implementation's memory must be what it says: [`alloc`](calls::Memory::alloc) and
/// [`alloc_mapped`](calls::Memory::alloc_mapped) hand out memory that nothing else uses until it is freed, `alloc_mapped`'s host
/// address is valid and aligned to 64 bytes for as many bytes as asked for, and zeroed.
pub unsafe trait Driver:
    calls::Memory
    + calls::IpcMemory
    + calls::Multicast
    + calls::Kernels
    + calls::Streams
    + calls::Graphs
    + calls::Events
    + Send
    + Sync
{
    /// Facts about the device.
    fn properties(&self) -> &Properties;

    /// A number that all devices of a process have and no other process.
    fn process(&self) -> u64;

    /// Whether this device can reach the memory of another one, given by its number.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_DEVICE` if there is no such device.
    fn can_access(&self, peer: u32) -> Result<bool>;

    /// Lets this device reach all memory that another one has or will have, at the same addresses. To do so again is no error.
    ///
    /// # Errors
    /// `CUDA_ERROR_PEER_ACCESS_UNSUPPORTED` if it cannot, `CUDA_ERROR_TOO_MANY_PEERS` if it reaches as many as it can already,
    /// `CUDA_ERROR_INVALID_DEVICE` if there is no such device.
    fn enable_access(&self, peer: u32) -> Result<()>;

    /// Waits until nothing is under way on the device.
    ///
    /// # Errors
    /// What went wrong on it meanwhile.
    fn wait_idle(&self) -> Result<()>;

    /// What compiles device code for this device at run time.
    ///
    /// # Errors
    /// Why there is nothing.
    fn compiler(&self) -> std::result::Result<&dyn Compiler, JitError> {
        Err(JitError::Unsupported)
    }

    /// Called first by a thread that serves the device behind the caller's back: its calls do not disturb a capture.
    ///
    /// # Errors
    /// None but those of every call.
    fn enter_helper_thread(&self) -> Result<()>;
}

/// A driver that can be shared.
pub type SharedDriver = Arc<dyn Driver>;

impl Properties {
    /// For messages: name and number.
    pub(super) fn label(&self) -> String {
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
