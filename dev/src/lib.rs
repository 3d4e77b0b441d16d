//! A simulator of CUDA devices: the kernels of `kernels/`, compiled for the CPU, under a seeded scheduler and weak
//! memory.
//!
//! It implements the same [`Driver`](mscclpp_exec::cuda::Driver) trait as CUDA's driver, so the executor's host code
//! runs unchanged. Without a C++ compiler there is no simulator, and [`simulator`] returns an error.
//!
//! The model includes threads that run in any order and are preempted anywhere; block syncs; plain stores that reach
//! other blocks late and out of order until a release; unallocated addresses; waits that no operation can release. It
//! does not include warps in lock step, caches that return stale values for loads, scopes narrower than the system, or
//! timing.

mod accesses;
#[cfg(simulator)]
mod alloc;
#[cfg(simulator)]
mod driver;
#[cfg(simulator)]
mod file;
#[cfg(simulator)]
mod host;
#[cfg(simulator)]
mod launch;
#[cfg(simulator)]
mod multicast;
#[cfg(simulator)]
mod native;
mod options;
#[cfg(simulator)]
mod plugin;
mod ranges;
mod threaded;
mod trace;

pub use accesses::{Access, AccessKind, AccessLog};
pub use options::{CallCounts, MulticastCounts, Options};
pub use threaded::ThreadedKernels;
pub use trace::{Step, Trace, TracedObject};

use mscclpp_exec::cuda::SharedDriver;

/// Returns the names of the bugs that can be injected into the device code; `build.rs` describes each of them.
pub fn bugs() -> impl Iterator<Item = &'static str> {
    option_env!("SIM_BUGS").unwrap_or_default().split(',').filter(|name| !name.is_empty())
}

/// Returns the bugs of specialized kernels.
pub fn specialized_bugs() -> impl Iterator<Item = &'static str> {
    option_env!("SIM_SPECIALIZED_BUGS").unwrap_or_default().split(',').filter(|name| !name.is_empty())
}

/// Returns the bugs of specialized kernels that are visible in their accesses, though results may be right.
pub fn access_bugs() -> impl Iterator<Item = &'static str> {
    option_env!("SIM_ACCESS_BUGS").unwrap_or_default().split(',').filter(|name| !name.is_empty())
}

/// Returns the bugs of switch channels with multicast objects.
pub fn switch_bugs() -> impl Iterator<Item = &'static str> {
    option_env!("SIM_SWITCH_BUGS").unwrap_or_default().split(',').filter(|name| !name.is_empty())
}

/// Returns the bugs of launch barriers.
pub fn barrier_bugs() -> impl Iterator<Item = &'static str> {
    option_env!("SIM_BARRIER_BUGS").unwrap_or_default().split(',').filter(|name| !name.is_empty())
}

/// Returns a simulated device.
///
/// # Errors
/// If this was built without a C++ compiler, as the message states.
pub fn simulator(options: Options) -> Result<SharedDriver, String> {
    machine(options, 1).map(|mut devices| devices.remove(0))
}

/// Returns the devices of a simulated host.
///
/// With one device, kernels run when they are launched. With several devices, they run when a thread waits for a
/// stream: all launched kernels at once.
///
/// # Errors
/// Those of [`simulator`].
///
/// # Panics
/// If the number of devices is 0.
#[cfg(simulator)]
pub fn machine(options: Options, devices: u32) -> Result<Vec<SharedDriver>, String> {
    assert!(devices > 0, "a machine without devices");
    Ok(driver::Simulator::all(options, devices).map(|device| std::sync::Arc::new(device) as SharedDriver).collect())
}

/// Returns the devices of a simulated host.
///
/// # Errors
/// Always, as this was built without a C++ compiler.
#[cfg(not(simulator))]
pub fn machine(_: Options, _: u32) -> Result<Vec<SharedDriver>, String> {
    Err("built without a C++ compiler, which the simulator needs".into())
}

/// What launches of a kernel depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelProperties {
    /// Bytes of its argument.
    pub argument: usize,
    /// Whether its blocks have all threads of a launch, in up to three dimensions of which its argument knows.
    pub has_all_threads: bool,
}

/// Returns the properties of a kernel in code that the simulator's compiler has returned; `None` if there is no such kernel.
pub fn compiled_kernel(code: &[u8], kernel: &str) -> Option<KernelProperties> {
    #[cfg(simulator)]
    return plugin::Plugin::load(code).ok()?.properties(kernel);
    #[cfg(not(simulator))]
    {
        let _ = (code, kernel);
        None
    }
}

/// Returns the bytes of the argument of a kernel, as it was compiled for the simulator; `None` if there is no such
/// kernel.
pub fn argument_bytes(kernel: &str) -> Option<usize> {
    #[cfg(simulator)]
    {
        let kernel = std::ffi::CString::new(kernel).ok()?;
        // SAFETY: two texts that end with a zero; the result points to a constant.
        unsafe { native::sim_find(c"f32".as_ptr(), kernel.as_ptr()).as_ref() }.map(|kernel| kernel.bytes)
    }
    #[cfg(not(simulator))]
    {
        let _ = kernel;
        None
    }
}
