//! CUDA's driver, loaded by the first call that needs it. Without a driver every call here returns an error and never
//! panics: no symbol is used before the library and the device have been found.

mod addresses;
mod events;
mod functions;
mod graphs;
mod kernels;
mod memory;
mod multicast;
mod nvml;
mod open;
mod sharing;
mod streams;

use std::cell::Cell;
use std::sync::{Mutex, OnceLock, PoisonError};

use cudarc::driver::result::{self, DriverError as Cudarc};
use cudarc::driver::sys;

pub(super) use self::open::{count, current};
use crate::driver::calls::{Priority, Streams};
use crate::driver::{Contexts, Driver, DriverError, Entered, Handle, Peer, Properties, Result};
use crate::jit::{Compiler, JitError, Nvrtc};

/// One CUDA device, with its primary context.
pub(super) struct Cuda {
    device: sys::CUdevice,
    context: sys::CUcontext,
    properties: Properties,
    /// Loaded by the first call that needs it.
    compiler: OnceLock<std::result::Result<Nvrtc, JitError>>,
    /// Stream for clearing and copying memory, created by the first of these calls.
    own_stream: Mutex<Option<Handle>>,
}

// SAFETY: a primary context may be current in any number of threads, and the driver's calls are thread-safe. The raw
// handle is only ever passed to the driver.
unsafe impl Send for Cuda {}
// SAFETY: as above.
unsafe impl Sync for Cuda {}

/// Attaches the driver's name and description of the result to a failed call.
fn named<T>(call: &'static str, result: std::result::Result<T, Cudarc>) -> Result<T> {
    result.map_err(|error| {
        let text = |text: std::result::Result<&std::ffi::CStr, Cudarc>| {
            text.map_or_else(
                |_| "an error unknown to this driver".to_owned(),
                |text| text.to_string_lossy().into_owned(),
            )
        };
        DriverError { call, code: error.0 as i32, name: text(error.error_name()), text: text(error.error_string()) }
    })
}

impl Cuda {
    /// Makes the context current in this thread until the result is dropped. Every call needs that; one within another asks no
    /// driver.
    fn enter(&self) -> Result<Entered> {
        let (own, entered) = (self.context as usize, ENTERED.get());
        if entered == own {
            return Ok(Entered::default());
        }
        let before = named("cuCtxGetCurrent", result::ctx::get_current())?.unwrap_or_else(std::ptr::null_mut);
        if before != self.context {
            // SAFETY: the context is retained as long as `self` lives.
            named("cuCtxSetCurrent", unsafe { result::ctx::set_current(self.context) })?;
        }
        ENTERED.set(own);
        Ok(Entered::new(leave, [before as usize, entered]))
    }

    /// Returns the stream for clearing and copying memory, for which streams of callers may wait.
    fn own_stream(&self) -> Result<Handle> {
        let mut own = self.own_stream.lock().unwrap_or_else(PoisonError::into_inner);
        match *own {
            Some(stream) => Ok(stream),
            None => Ok(*own.insert(self.create_priority_stream(Priority::Highest)?)),
        }
    }
}

thread_local! {
    /// The context that is current because a guard of this thread exists; 0 without one.
    static ENTERED: Cell<usize> = const { Cell::new(0) };
}

/// Ends a guard. The context that was current before becomes current again: for a caller that uses other devices through other
/// libraries, that is its current device.
fn leave([context, entered]: Contexts) {
    let own = ENTERED.replace(entered);
    if context != own {
        // SAFETY: it was current, or it is null. A destructor cannot report a failure.
        let _ = unsafe { result::ctx::set_current(context as sys::CUcontext) };
    }
}

impl Drop for Cuda {
    fn drop(&mut self) {
        if let Some(stream) = self.own_stream.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = self.destroy_stream(stream);
        }
        // SAFETY: retained once in `new`. A destructor cannot report a failure.
        let _ = unsafe { result::primary_ctx::release(self.device) };
    }
}

fn stream(handle: Handle) -> sys::CUstream {
    handle.0 as sys::CUstream
}

// SAFETY: memory comes from the driver as the trait's contract requires; `alloc_mapped` clears the memory that it
// returns, and the driver aligns host memory to pages.
unsafe impl Driver for Cuda {
    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn enter(&self) -> Result<Entered> {
        Self::enter(self)
    }

    fn process(&self) -> u64 {
        static NUMBER: OnceLock<u64> = OnceLock::new();
        *NUMBER.get_or_init(|| {
            let mut bytes = [0; 8];
            // Without random bytes only the process's number remains.
            let got = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
            got.map_or_else(|_| u64::from(std::process::id()), |_| u64::from_ne_bytes(bytes))
        })
    }

    fn peers(&self) -> Result<Vec<Peer>> {
        let count = named("cuDeviceGetCount", result::device::get_count())? as u32;
        let peer = |ordinal: u32| {
            let device = named("cuDeviceGet", result::device::get(ordinal as i32))?;
            Ok(Peer { uuid: open::uuid(device)?, can_access: self.can_access(ordinal)? })
        };
        (0..count).filter(|&ordinal| ordinal != self.properties.ordinal).map(peer).collect()
    }

    fn can_access(&self, peer: u32) -> Result<bool> {
        let peer = named("cuDeviceGet", result::device::get(peer as i32))?;
        let mut can = 0;
        // SAFETY: two existing devices; writes one integer.
        let asked = unsafe { sys::cuDeviceCanAccessPeer(&mut can, self.device, peer) };
        named("cuDeviceCanAccessPeer", asked.result()).map(|()| can != 0)
    }

    fn enable_access(&self, peer: u32) -> Result<()> {
        let _current = self.enter()?;
        let peer = named("cuDeviceGet", result::device::get(peer as i32))?;
        // SAFETY: an existing device; released below. The owner of its memory keeps the context alive.
        let context = named("cuDevicePrimaryCtxRetain", unsafe { result::primary_ctx::retain(peer) })?;
        // SAFETY: an existing context.
        let enabled = unsafe { sys::cuCtxEnablePeerAccess(context, 0) }.result();
        // SAFETY: retained above.
        let released = named("cuDevicePrimaryCtxRelease", unsafe { result::primary_ctx::release(peer) });
        match enabled {
            Err(Cudarc(sys::CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)) => released,
            enabled => named("cuCtxEnablePeerAccess", enabled).and(released),
        }
    }

    fn wait_idle(&self) -> Result<()> {
        let _current = self.enter()?;
        named("cuCtxSynchronize", result::ctx::synchronize())
    }

    fn compiler(&self) -> std::result::Result<&dyn Compiler, JitError> {
        let compiler = self.compiler.get_or_init(|| Nvrtc::new(self.properties.capability)).as_ref();
        compiler.map(|nvrtc| nvrtc as &dyn Compiler).map_err(Clone::clone)
    }
}
