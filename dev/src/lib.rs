//! A simulator of CUDA devices: the kernels of `kernels/`, compiled for the CPU, under a seeded scheduler and weak memory.
//!
//! It stands behind the same [`Driver`](mscclpp_exec::cuda::Driver) as CUDA's own, so the executor's host code runs unchanged.
//! Without a C++ compiler there is no simulator, and [`simulator`] says so.
//!
//! What is modelled: threads that run in any order and stop anywhere; block syncs; plain stores that reach other blocks late and
//! out of order until something releases them; addresses that are not allocated; waits that nothing can release. What is not: warps in
//! lock step, caches that keep old values for loads, scopes narrower than the system, timing.

mod accesses;
#[cfg(simulator)]
mod alloc;
#[cfg(simulator)]
mod driver;
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
mod threaded;

pub use accesses::{Access, AccessKind, AccessLog};
pub use options::{MulticastCounts, Options};
pub use threaded::ThreadedKernels;

use mscclpp_exec::cuda::SharedDriver;

/// Names of the bugs that can be planted in the device code; `build.rs` says what each of them is.
pub fn bugs() -> impl Iterator<Item = &'static str> {
    option_env!("SIM_BUGS").unwrap_or_default().split(',').filter(|name| !name.is_empty())
}

/// Bugs of kernels that are written for one plan.
pub fn specialised_bugs() -> impl Iterator<Item = &'static str> {
    option_env!("SIM_SPECIALISED_BUGS").unwrap_or_default().split(',').filter(|name| !name.is_empty())
}

/// Bugs of specialized kernels that what they access shows, though results may be right.
pub fn access_bugs() -> impl Iterator<Item = &'static str> {
    option_env!("SIM_ACCESS_BUGS").unwrap_or_default().split(',').filter(|name| !name.is_empty())
}

/// Bugs of switch channels with multicast objects.
pub fn switch_bugs() -> impl Iterator<Item = &'static str> {
    option_env!("SIM_SWITCH_BUGS").unwrap_or_default().split(',').filter(|name| !name.is_empty())
}

/// Bugs of the barriers of devices around launches.
pub fn barrier_bugs() -> impl Iterator<Item = &'static str> {
    option_env!("SIM_BARRIER_BUGS").unwrap_or_default().split(',').filter(|name| !name.is_empty())
}

/// A simulated device.
///
/// # Errors
/// Says why there is none: this was built without a C++ compiler.
pub fn simulator(options: Options) -> Result<SharedDriver, String> {
    machine(options, 1).map(|mut devices| devices.remove(0))
}

/// The devices of a simulated machine.
///
/// With one, kernels run when they are launched. With several, they run when a thread waits for a stream: all launched
/// kernels at once.
///
/// # Errors
/// As [`simulator`].
///
/// # Panics
/// For no device.
#[cfg(simulator)]
pub fn machine(options: Options, devices: u32) -> Result<Vec<SharedDriver>, String> {
    assert!(devices > 0, "a machine without devices");
    Ok(driver::Simulator::all(options, devices).map(|device| std::sync::Arc::new(device) as SharedDriver).collect())
}

/// The devices of a simulated machine.
///
/// # Errors
/// Says why there are none: this was built without a C++ compiler.
#[cfg(not(simulator))]
pub fn machine(_: Options, _: u32) -> Result<Vec<SharedDriver>, String> {
    Err("built without a C++ compiler, which the simulator needs".into())
}

/// Bytes of the argument of a kernel, as it was compiled for the simulator; `None` if there is no such kernel.
pub fn argument_bytes(kernel: &str) -> Option<usize> {
    #[cfg(simulator)]
    {
        let kernel = std::ffi::CString::new(kernel).ok()?;
        // SAFETY: two texts that end with a zero; what is found is a constant.
        unsafe { native::sim_find(c"f32".as_ptr(), kernel.as_ptr()).as_ref() }.map(|kernel| kernel.bytes)
    }
    #[cfg(not(simulator))]
    {
        let _ = kernel;
        None
    }
}
