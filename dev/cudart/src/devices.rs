//! Devices, the device of each thread, and access to the memory of others.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::sync::{Mutex, PoisonError};

use crate::driver;
use crate::error::{self, Code};
use crate::properties::{Properties, properties};
use crate::runtime::{give, runtime};

/// Version of the runtime: the oldest one of this name.
const VERSION: c_int = 13_000;

// Attributes.
const PCI_BUS: c_int = 33;
const PCI_DEVICE: c_int = 34;
const PCI_DOMAIN: c_int = 50;

thread_local! {
    static DEVICE: Cell<c_int> = const { Cell::new(0) };
}

/// Returns the primary context of a device, which is retained once.
fn context(device: c_int) -> Result<usize, Code> {
    static CONTEXTS: Mutex<BTreeMap<c_int, usize>> = Mutex::new(BTreeMap::new());
    let mut contexts = CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(context) = contexts.get(&device) {
        return Ok(*context);
    }
    driver::cuInit(0)?;
    let context = driver::cuDevicePrimaryCtxRetain(device)?;
    contexts.insert(device, context);
    Ok(context)
}

/// Makes the context of the thread's device current.
pub(crate) fn enter() -> Result<(), Code> {
    let context = context(DEVICE.get())?;
    if driver::cuCtxGetCurrent()? == context {
        return Ok(());
    }
    driver::cuCtxSetCurrent(context)
}

/// Defines functions that need no context.
macro_rules! queries {
    ($(fn $name:ident($($argument:ident: $type:ty),*) $(-> $out:ident)? $body:block)*) => {$(
        /// # Safety
        /// As in CUDA's runtime: pointers must be valid for the function's use of them.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $type),*) -> Code {
            let result = || $body;
            error::finish(runtime!(@give $($out)? result()))
        }
    )*};
}

queries! {
    fn cudaGetDeviceCount(count: *mut c_int) -> count { driver::cuInit(0).and_then(|()| driver::cuDeviceGetCount()) }

    fn cudaGetDevice(device: *mut c_int) -> device { Ok(DEVICE.get()) }

    fn cudaSetDevice(device: c_int) {
        driver::cuInit(0)?;
        if !(0..driver::cuDeviceGetCount()?).contains(&device) {
            return Err(error::INVALID_DEVICE);
        }
        DEVICE.set(device);
        enter()
    }

    fn cudaDriverGetVersion(version: *mut c_int) -> version { driver::cuDriverGetVersion() }

    fn cudaRuntimeGetVersion(version: *mut c_int) -> version { Ok(VERSION) }

    fn cudaDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) -> value {
        driver::cuDeviceGetAttribute(attribute, device)
    }

    fn cudaGetDeviceProperties(found: *mut Properties, device: c_int) -> found { properties(device) }

    fn cudaDeviceGetPCIBusId(text: *mut c_char, len: c_int, device: c_int) {
        let number = |attribute| driver::cuDeviceGetAttribute(attribute, device);
        let id = format!("{:04x}:{:02x}:{:02x}.0", number(PCI_DOMAIN)?, number(PCI_BUS)?, number(PCI_DEVICE)?);
        let id = CString::new(id).map_err(|_| error::INVALID_VALUE)?;
        let bytes = id.as_bytes_with_nul();
        if text.is_null() || usize::try_from(len).is_ok_and(|len| len < bytes.len()) || len < 0 {
            return Err(error::INVALID_VALUE);
        }
        // SAFETY: the caller's buffer has `len` bytes.
        unsafe { text.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(())
    }

    fn cudaDeviceCanAccessPeer(can: *mut c_int, device: c_int, peer: c_int) -> can {
        context(device)?;
        driver::cuDeviceCanAccessPeer(device, peer)
    }

    fn cudaGetDriverEntryPointByVersion(
        symbol: *const c_char,
        found: *mut *mut c_void,
        version: c_uint,
        flags: u64,
        status: *mut c_int
    ) {
        const FOUND: c_int = 0;
        const NOT_FOUND: c_int = 1;
        // The mock has one variant of each function, so version and flags select none.
        let _ = (version, flags);
        if symbol.is_null() {
            return Err(error::INVALID_VALUE);
        }
        // SAFETY: a text, as the caller guarantees.
        let function = driver::function(unsafe { CStr::from_ptr(symbol) })?;
        // SAFETY: guaranteed by the caller.
        unsafe {
            if let Some(status) = status.as_mut() {
                *status = if function.is_null() { NOT_FOUND } else { FOUND };
            }
            give(found, Ok(function))
        }
    }
}

runtime! {
    fn cudaDeviceSynchronize() { driver::cuCtxSynchronize() }

    fn cudaDeviceEnablePeerAccess(peer: c_int, flags: c_uint) { driver::cuCtxEnablePeerAccess(context(peer)?, flags) }

    fn cudaDeviceGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) {
        // SAFETY: guaranteed by the caller.
        unsafe { driver::cuCtxGetStreamPriorityRange(least, greatest) }
    }
}
