//! The fabric of a device, from NVML: a library of the driver that need not be installed. A device has no fabric where
//! the library or one of its functions is missing.

use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use libloading::Library;

use crate::driver::Fabric;

/// Name under which the driver installs the library.
const NAME: &str = "libnvidia-ml.so.1";

/// `NVML_SUCCESS`.
const SUCCESS: c_int = 0;

/// `NVML_GPU_FABRIC_STATE_COMPLETED`: the device is registered with its fabric.
const COMPLETED: u8 = 3;

/// Version of [`FabricInfo`]: its size, and 2 in the highest byte.
const VERSION: c_uint = size_of::<FabricInfo>() as c_uint | 2 << 24;

/// `nvmlGpuFabricInfo_v2_t`; `nvmlGpuFabricInfo_t` consists of the fields from the second to the fifth.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct FabricInfo {
    version: c_uint,
    cluster: [u8; 16],
    status: c_int,
    clique: c_uint,
    state: u8,
    health: c_uint,
}

type NvmlDevice = *mut c_void;

/// Functions of the library.
struct Nvml {
    device_by_uuid: unsafe extern "C" fn(*const c_char, *mut NvmlDevice) -> c_int,
    fabric: FabricFunction,
    _library: Library,
}

/// The function that returns the fabric: the one with versions, or that of drivers before it.
enum FabricFunction {
    Versioned(unsafe extern "C" fn(NvmlDevice, *mut FabricInfo) -> c_int),
    First(unsafe extern "C" fn(NvmlDevice, *mut c_void) -> c_int),
}

/// Loads and initializes the library; `None` if it is not installed, or does not have what is needed.
fn open() -> Option<Nvml> {
    // SAFETY: the library's initialization has no preconditions.
    let library = unsafe { Library::new(NAME) }.ok()?;
    // SAFETY: the functions have these types in all versions of the library; they are kept together with it.
    unsafe {
        let init = *library.get::<unsafe extern "C" fn() -> c_int>(b"nvmlInit_v2\0").ok()?;
        let device_by_uuid = *library.get(b"nvmlDeviceGetHandleByUUID\0").ok()?;
        let versioned = library.get(b"nvmlDeviceGetGpuFabricInfoV\0").map(|found| FabricFunction::Versioned(*found));
        let first = || library.get(b"nvmlDeviceGetGpuFabricInfo\0").map(|found| FabricFunction::First(*found));
        let fabric = versioned.or_else(|_| first()).ok()?;
        (init() == SUCCESS).then_some(Nvml { device_by_uuid, fabric, _library: library })
    }
}

/// Returns the fabric of a device, given by the driver's identifier of it; `None` if it has none.
pub(super) fn fabric(uuid: [u8; 16]) -> Option<Fabric> {
    static NVML: OnceLock<Option<Nvml>> = OnceLock::new();
    let nvml = NVML.get_or_init(open).as_ref()?;
    let name = CString::new(name_of(uuid)).ok()?;
    let mut device = std::ptr::null_mut();
    // SAFETY: a text, and a valid pointer for the device.
    if unsafe { (nvml.device_by_uuid)(name.as_ptr(), &mut device) } != SUCCESS {
        return None;
    }
    let mut info = FabricInfo { version: VERSION, ..FabricInfo::default() };
    let asked = match nvml.fabric {
        // SAFETY: the library's device; the struct has the size that its version states.
        FabricFunction::Versioned(get) => unsafe { get(device, &mut info) },
        // SAFETY: as above; the struct without its version begins at this field, and is shorter.
        FabricFunction::First(get) => unsafe { get(device, (&raw mut info.cluster).cast()) },
    };
    (asked == SUCCESS).then_some(info)?.fabric()
}

impl FabricInfo {
    /// Returns the fabric, if the device is registered with one that has an identifier.
    fn fabric(&self) -> Option<Fabric> {
        let is_registered = self.state == COMPLETED && self.status == SUCCESS && self.cluster != [0; 16];
        is_registered.then_some(Fabric { cluster: self.cluster, clique: self.clique })
    }
}

/// Returns the text by which the library identifies a device.
fn name_of(uuid: [u8; 16]) -> String {
    let mut name = String::from("GPU-");
    for (at, byte) in uuid.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            name.push('-');
        }
        name += &format!("{byte:02x}");
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_nvidia_smi() {
        let uuid = std::array::from_fn(|at| 0x11 * at as u8);
        assert_eq!(name_of(uuid), "GPU-00112233-4455-6677-8899-aabbccddeeff");
    }

    #[test]
    fn struct_is_that_of_the_library() {
        assert_eq!(VERSION, 0x0200_0024);
    }

    #[test]
    fn fabric_is_that_of_a_registered_device() {
        let info = FabricInfo { cluster: [7; 16], clique: 3, state: COMPLETED, ..FabricInfo::default() };
        assert_eq!(info.fabric(), Some(Fabric { cluster: [7; 16], clique: 3 }));
        assert_eq!(FabricInfo { state: 2, ..info }.fabric(), None);
        assert_eq!(FabricInfo { status: 3, ..info }.fabric(), None);
        assert_eq!(FabricInfo { cluster: [0; 16], ..info }.fabric(), None);
    }
}
