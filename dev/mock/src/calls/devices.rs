//! Devices and their properties.

use std::ffi::{c_char, c_int, c_uint};

use super::memory::MEMORY;
use super::{calls, ordinal, valid};
use crate::code::{self, Code};
use crate::state::{self, called, called_anywhere};

// Attributes.
const MULTIPROCESSOR_COUNT: c_int = 16;
const COMPUTE_CAPABILITY_MAJOR: c_int = 75;
const COMPUTE_CAPABILITY_MINOR: c_int = 76;
const VIRTUAL_MEMORY_SUPPORTED: c_int = 102;
const FILES_SUPPORTED: c_int = 103;
const PCI_BUS: c_int = 33;
const PCI_DEVICE: c_int = 34;
const PCI_DOMAIN: c_int = 50;
const FABRIC_HANDLES_SUPPORTED: c_int = 128;
const MULTICAST_SUPPORTED: c_int = 132;

/// Attributes that are the same for all devices, with their values; 0 for what the simulator does not have.
const OTHERS: [(c_int, c_int); 39] = [
    // Limits of launches: threads of a block, sizes of blocks and grids, shared and constant memory, warp, pitch, registers.
    (1, 1024),
    (2, 1024),
    (3, 1024),
    (4, 64),
    (5, c_int::MAX),
    (6, 65_535),
    (7, 65_535),
    (8, 48 << 10),
    (9, 64 << 10),
    (10, 32),
    (11, c_int::MAX),
    (12, 65_536),
    // Clock rate in kHz, alignment of textures, copies at the same time as kernels.
    (13, 1_980_000),
    (14, 512),
    (15, 1),
    // Time limit of kernels, integrated, mapped memory of the host, compute mode.
    (17, 0),
    (18, 0),
    (19, 1),
    (20, 0),
    // Kernels at the same time, error correction, PCI bus and driver model.
    (31, 1),
    (32, 0),
    (35, 0),
    // Memory clock in kHz, width of its bus, cache, threads of a multiprocessor, engines for copies, one address space.
    (36, 2_619_000),
    (37, 5_120),
    (38, 50 << 20),
    (39, 2048),
    (40, 3),
    (41, 1),
    // Stream priorities, shared memory and registers of a multiprocessor, managed memory.
    (78, 0),
    (81, 228 << 10),
    (82, 65_536),
    (83, 0),
    // Atomic operations of the host, pageable memory, cooperative launches, opt-in shared memory.
    (86, 0),
    (88, 0),
    (95, 0),
    (97, 227 << 10),
    // Registered memory of the host, memory pools, direct access by the network.
    (99, 1),
    (115, 0),
    (116, 0),
];

/// A `CUuuid`, which callers align as bytes.
type Uuid = [u8; 16];

fn uuid_of(device: c_int) -> Result<Uuid, Code> {
    let device = ordinal(device)?;
    called(device, "cuDeviceGetUuid")?;
    Ok((u128::from(std::process::id()) << 32 | device as u128).to_ne_bytes())
}

calls! {
    fn cuInit(flags: c_uint) {
        called_anywhere("cuInit")?;
        valid(flags == 0)
    }

    fn cuDriverGetVersion(version: *mut c_int) -> version { called_anywhere("cuDriverGetVersion").map(|()| state::version() as c_int) }

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
            PCI_BUS => Ok(device + 1),
            PCI_DEVICE | PCI_DOMAIN => Ok(0),
            _ => OTHERS.iter().find(|(known, _)| *known == attribute).map(|(_, value)| *value).ok_or(code::INVALID_VALUE),
        }
    }

    fn cuDeviceGetUuid(uuid: *mut Uuid, device: c_int) -> uuid { uuid_of(device) }

    fn cuDeviceGetUuid_v2(uuid: *mut Uuid, device: c_int) -> uuid { uuid_of(device) }

    fn cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int) -> bytes {
        called(ordinal(device)?, "cuDeviceTotalMem")?;
        Ok(MEMORY as usize)
    }
}
