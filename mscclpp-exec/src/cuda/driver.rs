//! What the executor needs of a driver. [`super::real`] is CUDA's; tests put a simulator in its place.

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use thiserror::Error;

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

/// A driver's handle: of a module, function, stream, event or graph.
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

/// One device, as the executor uses it. Addresses are the device's.
///
/// # Safety
/// An implementation's memory must be what it says: `alloc` and `alloc_mapped` hand out memory that nothing else uses until it
/// is freed, `alloc_mapped`'s host address is valid and aligned to 64 bytes for as many bytes as asked for, and zeroed.
pub unsafe trait Driver: Send + Sync {
    /// Facts about the device.
    fn properties(&self) -> &Properties;
    /// A number that all devices of a process have and no other process.
    fn process(&self) -> u64;
    /// What an address of the device's memory belongs to.
    fn allocation(&self, address: u64) -> Result<Allocation>;
    /// An allocation of this process, given by its first byte, for others.
    fn export(&self, base: u64) -> Result<Export>;
    /// Maps an allocation of so many bytes of another process, which has it as long as this one.
    fn import(&self, export: Export, bytes: u64) -> Result<Mapping>;
    /// Memory that is made to be shared, at least so much, not cleared: [`export`](Self::export) gives it as a file. Besides
    /// this device those of these numbers reach it.
    fn alloc_shared(&self, bytes: u64, peers: &[u32]) -> Result<Mapping>;
    /// Bytes of which the size of a multicast object of so many devices is a multiple, and that of all memory bound to it.
    fn multicast_unit(&self, devices: u32, bytes: u64) -> Result<u64>;
    /// A new multicast object for so many devices, of so many bytes.
    fn create_multicast(&self, devices: u32, bytes: u64) -> Result<Handle>;
    /// A multicast object for other processes.
    fn export_multicast(&self, object: Handle) -> Result<OwnedFd>;
    /// Another process's multicast object, which is there as long as anybody has a handle of it.
    fn import_multicast(&self, file: OwnedFd) -> Result<Handle>;
    /// Adds the device to a multicast object. All of its devices are added before memory is bound to it.
    fn join_multicast(&self, object: Handle) -> Result<()>;
    /// Puts so many bytes of the device's memory behind a multicast object: from the first byte of an allocation that was made to
    /// be shared.
    fn bind_multicast(&self, object: Handle, base: u64, bytes: u64) -> Result<()>;
    /// Takes away what was bound, after all work of all devices that may use it.
    fn unbind_multicast(&self, object: Handle, bytes: u64) -> Result<()>;
    /// Addresses of a multicast object, for this device and those of these numbers.
    fn map_multicast(&self, object: Handle, bytes: u64, peers: &[u32]) -> Result<u64>;
    /// Gives the addresses back, after all work of the device that may use them.
    fn unmap_multicast(&self, address: u64, bytes: u64) -> Result<()>;
    /// Gives a handle back. The object stays as long as it has others, addresses, or memory.
    fn release_multicast(&self, object: Handle) -> Result<()>;
    /// Gives back what was mapped, after all work of the device that may use it.
    fn close(&self, import: Mapping) -> Result<()>;
    /// Whether this device can reach the memory of another one.
    fn can_access(&self, peer: u32) -> Result<bool>;
    /// Lets this device reach all memory that another one has or will have, at the same addresses.
    fn enable_access(&self, peer: u32) -> Result<()>;
    /// Waits until nothing is under way on the device.
    fn wait_idle(&self) -> Result<()>;
    /// Memory, not cleared.
    fn alloc(&self, bytes: u64) -> Result<u64>;
    /// Gives memory back, after all work of the device that may use it.
    fn free(&self, address: u64) -> Result<()>;
    /// Zeroed memory that both sides see, and all devices of the process at the same address.
    fn alloc_mapped(&self, bytes: u64) -> Result<Mapped>;
    /// Gives it back, after all work of the device that may use it.
    fn free_mapped(&self, mapped: Mapped) -> Result<()>;
    /// Clears memory; done when this returns.
    fn zero(&self, address: u64, bytes: u64) -> Result<()>;
    /// Copies to the device; done when this returns.
    fn upload(&self, to: u64, from: &[u8]) -> Result<()>;
    /// Copies from the device; done when this returns.
    fn download(&self, to: &mut [u8], from: u64) -> Result<()>;
    /// Copies between memories of devices and such that both sides see, in the order of a stream.
    fn copy(&self, to: u64, from: u64, bytes: u64, stream: Handle) -> Result<()>;
    /// Clears memory, in the order of a stream.
    fn zero_on(&self, address: u64, bytes: u64, stream: Handle) -> Result<()>;
    /// Loads kernels: those of a data type and accumulator, by their name, and their code.
    fn load(&self, name: &str, image: &[u8]) -> Result<Handle>;
    /// Finds a kernel in a module.
    fn function(&self, module: Handle, name: &str) -> Result<Handle>;
    /// Unloads a module.
    fn unload(&self, module: Handle) -> Result<()>;
    /// Blocks of so many threads of a kernel that run at once on one multiprocessor.
    fn blocks_per_multiprocessor(&self, function: Handle, threads: u32) -> Result<u32>;
    /// Launches a kernel with one argument, in the order of a stream.
    ///
    /// # Safety
    /// The kernel takes one argument of `argument`'s bytes, and all memory that it reaches through it is there until it is done.
    unsafe fn launch(&self, function: Handle, blocks: u32, threads: u32, stream: Handle, argument: &[u8])
    -> Result<()>;
    /// A new stream that does not wait for the default one.
    fn create_stream(&self) -> Result<Handle>;
    /// Gives a stream back; what was put on it is still done.
    fn destroy_stream(&self, stream: Handle) -> Result<()>;
    /// Waits until everything on a stream is done.
    fn synchronize(&self, stream: Handle) -> Result<()>;
    /// Whether a stream records a graph at present.
    fn is_capturing(&self, stream: Handle) -> Result<bool>;
    /// Begins to record what is put on a stream.
    fn begin_capture(&self, stream: Handle) -> Result<()>;
    /// Ends that, and makes what was recorded a graph that can be launched.
    fn end_capture(&self, stream: Handle) -> Result<Handle>;
    /// Launches a graph.
    fn launch_graph(&self, graph: Handle, stream: Handle) -> Result<()>;
    /// Gives a graph back.
    fn destroy_graph(&self, graph: Handle) -> Result<()>;
    /// A new event that keeps time.
    fn create_event(&self) -> Result<Handle>;
    /// Puts an event on a stream.
    fn record(&self, event: Handle, stream: Handle) -> Result<()>;
    /// Makes a stream wait for an event.
    fn wait_event(&self, stream: Handle, event: Handle) -> Result<()>;
    /// Stores 8 bytes, in the order of a stream, for all to see.
    fn write_value(&self, address: u64, value: u64, stream: Handle) -> Result<()>;
    /// Whether everything before an event is done.
    fn is_done(&self, event: Handle) -> Result<bool>;
    /// Microseconds between two events that are done.
    fn elapsed_us(&self, from: Handle, to: Handle) -> Result<f64>;
    /// Gives an event back.
    fn destroy_event(&self, event: Handle) -> Result<()>;
    /// What compiles device code for this device at run time.
    ///
    /// # Errors
    /// Why there is nothing.
    fn compiler(&self) -> std::result::Result<&dyn Compiler, JitError> {
        Err(JitError::Unsupported)
    }
    /// Called first by a thread that serves the device behind the caller's back: its calls do not disturb a capture.
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
