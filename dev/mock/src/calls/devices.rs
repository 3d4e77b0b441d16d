//! Devices and their properties.

use std::ffi::{c_char, c_int, c_uint};

use super::{calls, ordinal, valid};
use crate::code::{self, Code};
use crate::state::{self, called, called_anywhere};

// Attributes.
const MULTIPROCESSOR_COUNT: c_int = 16;
const COMPUTE_CAPABILITY_MAJOR: c_int = 75;
const COMPUTE_CAPABILITY_MINOR: c_int = 76;
const VIRTUAL_MEMORY_SUPPORTED: c_int = 102;
const MEMORY_POOLS_SUPPORTED: c_int = 115;
const FILES_SUPPORTED: c_int = 103;
const FABRIC_HANDLES_SUPPORTED: c_int = 128;
const MULTICAST_SUPPORTED: c_int = 132;

calls! {
    fn cuInit(flags: c_uint) {
        called_anywhere("cuInit")?;
        valid(flags == 0)
    }

    fn cuDriverGetVersion(version: *mut c_int) -> version { called_anywhere("cuDriverGetVersion").map(|()| 13_000) }

    fn cuDeviceGetCount(count: *mut c_int) -> count {
        called_anywhere("cuDeviceGetCount").map(|()| state::count() as c_int)
    }

    fn cuDeviceGet(device: *mut c_int, number: c_int) -> device {
        called(ordinal(number)?, "cuDeviceGet")?;
        Ok(number)
    }

    fn cuDeviceGetName(name: *mut c_char, len: c_int, device: c_int) {
        called(ordinal(device)?, "cuDeviceGetName")?;
        let text = c"simulated device".to_bytes_with_nul();
        if text.len() > len.max(0) as usize {
            return Err(code::INVALID_VALUE);
        }
        // SAFETY: the caller's buffer has `len` bytes.
        unsafe { name.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), text.len()) };
        Ok(())
    }

    fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) -> value {
        called(ordinal(device)?, "cuDeviceGetAttribute")?;
        match attribute {
            MULTIPROCESSOR_COUNT => Ok(132),
            COMPUTE_CAPABILITY_MAJOR => Ok(9),
            COMPUTE_CAPABILITY_MINOR => Ok(0),
            MULTICAST_SUPPORTED => Ok(c_int::from(state::has_multicast(ordinal(device)?))),
            FABRIC_HANDLES_SUPPORTED => Ok(c_int::from(state::fabric(ordinal(device)?).is_some())),
            VIRTUAL_MEMORY_SUPPORTED | FILES_SUPPORTED => Ok(1),
            MEMORY_POOLS_SUPPORTED => Ok(0),
            _ => Err(code::INVALID_VALUE),
        }
    }

    fn cuDeviceGetUuid_v2(uuid: *mut u128, device: c_int) -> uuid {
        let device = ordinal(device)?;
        called(device, "cuDeviceGetUuid")?;
        Ok(u128::from(std::process::id()) << 32 | device as u128)
    }

    fn cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int) -> bytes {
        called(ordinal(device)?, "cuDeviceTotalMem")?;
        Ok(1 << 34)
    }
}
