//! NVML, as far as it describes the fabric of a device. Programs load it under a name of its own, which is a link to this
//! library.

use std::ffi::{CStr, c_char, c_int, c_uint};

use super::{calls, ordinal};
use crate::code::Code;
use crate::state;

/// `NVML_ERROR_INVALID_ARGUMENT`, `NVML_ERROR_NOT_FOUND`, and `NVML_ERROR_ARGUMENT_VERSION_MISMATCH`.
const INVALID_ARGUMENT: c_int = 2;
const NOT_FOUND: c_int = 6;
const VERSION_MISMATCH: c_int = 25;

/// Version of `nvmlGpuFabricInfo_v2_t`.
const VERSION: c_uint = 0x0200_0024;

/// States of a device: without a fabric, and registered with one.
const NOT_SUPPORTED: u8 = 0;
const COMPLETED: u8 = 3;

/// `nvmlGpuFabricInfo_v2_t`.
#[repr(C)]
struct FabricInfo {
    version: c_uint,
    cluster: [u8; 16],
    status: c_int,
    clique: c_uint,
    state: u8,
    health: c_uint,
}

/// Returns the number of the device that the driver identifies by this text.
fn device_of(text: &str) -> Option<usize> {
    let digits: String = text.strip_prefix("GPU-")?.split('-').collect();
    let mut bytes = [0; 16];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(digits.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    let uuid = u128::from_ne_bytes(bytes);
    let is_own = (uuid >> 32) as u32 == std::process::id();
    ordinal(uuid as u32 as c_int).ok().filter(|_| is_own)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlErrorString(_code: c_int) -> *const c_char {
    c"an error of simulated devices".as_ptr()
}

calls! {
    fn nvmlInit_v2() { Ok(()) }

    fn nvmlShutdown() { Ok(()) }

    fn nvmlDeviceGetCount_v2(count: *mut c_uint) -> count { Ok(state::count() as c_uint) }

    fn nvmlDeviceGetHandleByUUID(uuid: *const c_char, device: *mut usize) -> device {
        // SAFETY: a text, as the caller guarantees.
        let text = unsafe { CStr::from_ptr(uuid) }.to_str().map_err(|_| INVALID_ARGUMENT)?;
        device_of(text).map(|number| number + 1).ok_or(NOT_FOUND)
    }

    fn nvmlDeviceGetGpuFabricInfoV(device: usize, info: *mut FabricInfo) {
        let device = device.checked_sub(1).ok_or(INVALID_ARGUMENT)?;
        // SAFETY: the caller's struct, whose version states its size.
        let version = unsafe { (*info).version };
        if version != VERSION {
            return Err(VERSION_MISMATCH);
        }
        let mut found =
            FabricInfo { version, cluster: [0; 16], status: 0, clique: 0, state: NOT_SUPPORTED, health: 0 };
        if let Some(fabric) = state::fabric(device) {
            found = FabricInfo { cluster: [1; 16], clique: fabric, state: COMPLETED, ..found };
        }
        // SAFETY: as above.
        unsafe { info.write(found) };
        Ok(())
    }
}
