//! Finds the driver and its devices, or the reason why they cannot be used.

use std::sync::{Mutex, OnceLock};

use cudarc::driver::result::{self, DriverError as Cudarc};
use cudarc::driver::sys;

use super::{Cuda, functions, named, nvml};
use crate::driver::{Properties, Result};
use mscclpp_base::error::unavailable::CudaUnavailable;

/// The oldest version of the driver for which there are kernels.
const OLDEST: u32 = 12_020;

/// `CUDA_ERROR_INVALID_VALUE`.
const INVALID_VALUE: i32 = 1;

/// Returns whether variables of NCCL or of MSCCL++ forbid multicast objects (NVLS).
fn is_multicast_forbidden(variable: impl Fn(&str) -> Option<String>) -> bool {
    let force = variable("MSCCLPP_FORCE_DISABLE_NVLS");
    variable("NCCL_NVLS_ENABLE").is_some_and(|value| value.trim() == "0")
        || force.is_some_and(|value| !matches!(value.trim(), "" | "0"))
}

/// Returns the version of CUDA that the driver supports.
fn version() -> Result<u32> {
    let mut version = 0;
    // SAFETY: writes one integer.
    named("cuDriverGetVersion", unsafe { sys::cuDriverGetVersion(&mut version) }.result())?;
    Ok(version as u32)
}

/// Returns the identifier of a device.
pub(super) fn uuid(device: sys::CUdevice) -> Result<[u8; 16]> {
    let mut uuid = sys::CUuuid { bytes: [0; 16] };
    // SAFETY: writes 16 bytes.
    named("cuDeviceGetUuid", unsafe { sys::cuDeviceGetUuid_v2(&mut uuid, device) }.result())?;
    Ok(uuid.bytes.map(|byte| byte as u8))
}

/// Returns the number of devices.
///
/// # Errors
/// [`CudaUnavailable`] if there is no driver, or it does not work.
pub(crate) fn count() -> std::result::Result<u32, CudaUnavailable> {
    // SAFETY: opens the library by the names that the vendor gives it and uses nothing in it.
    if !unsafe { sys::is_culib_present() } {
        return Err(CudaUnavailable::NoDriver);
    }
    let whole =
        |missing: Option<&'static str>| missing.map_or(Ok(()), |function| Err(CudaUnavailable::Foreign { function }));
    whole(functions::missing_at_first())?;
    match result::init() {
        Err(Cudarc(sys::CUresult::CUDA_ERROR_NO_DEVICE)) => return Err(CudaUnavailable::NoDevice),
        Err(Cudarc(sys::CUresult::CUDA_ERROR_STUB_LIBRARY)) => return Err(CudaUnavailable::Stub),
        initialized => named("cuInit", initialized).map_err(CudaUnavailable::Driver)?,
    }
    let version = version().map_err(CudaUnavailable::Driver)?;
    if version < OLDEST {
        return Err(CudaUnavailable::OldDriver { version });
    }
    whole(functions::missing_later(version))?;
    match named("cuDeviceGetCount", result::device::get_count()).map_err(CudaUnavailable::Driver)? {
        0 => Err(CudaUnavailable::NoDevice),
        count => Ok(count as u32),
    }
}

/// Returns the number of the device whose context is current in this thread; none without a context.
///
/// # Errors
/// As [`count`].
pub(crate) fn current() -> std::result::Result<Option<u32>, CudaUnavailable> {
    count()?;
    let mut device = 0;
    // SAFETY: writes one integer.
    match named("cuCtxGetDevice", unsafe { sys::cuCtxGetDevice(&mut device) }.result()) {
        Ok(()) => Ok(Some(device as u32)),
        Err(error) if error.code == sys::CUresult::CUDA_ERROR_INVALID_CONTEXT as i32 => Ok(None),
        Err(error) => Err(CudaUnavailable::Driver(error)),
    }
}

impl Cuda {
    /// Opens a device.
    ///
    /// # Errors
    /// [`CudaUnavailable`] if there is no such device.
    pub(crate) fn new(ordinal: u32) -> std::result::Result<Self, CudaUnavailable> {
        let count = count()?;
        if ordinal >= count {
            return Err(CudaUnavailable::NoSuchDevice { ordinal, count });
        }
        let open = || -> Result<Self> {
            let device = named("cuDeviceGet", result::device::get(ordinal as i32))?;
            // SAFETY: the device was just found.
            let attribute = |attribute| unsafe {
                named("cuDeviceGetAttribute", result::device::get_attribute(device, attribute))
                    .map(|value| value as u32)
            };
            use sys::CUdevice_attribute_enum as Attribute;
            let uuid = uuid(device)?;
            // Drivers before the attribute do not know it.
            let has_fabric_handles = match attribute(Attribute::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED) {
                Err(error) if error.code == INVALID_VALUE => false,
                value => value? != 0,
            };
            let properties = Properties {
                ordinal,
                uuid,
                fabric: if has_fabric_handles { nvml::fabric(uuid) } else { None },
                name: named("cuDeviceGetName", result::device::get_name(device))?,
                capability: (
                    attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
                    attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
                ),
                multiprocessors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
                // SAFETY: as above.
                memory: named("cuDeviceTotalMem", unsafe { result::device::total_mem(device) })? as u64,
                driver: version()?,
                shareable: attribute(Attribute::CU_DEVICE_ATTRIBUTE_VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED)? != 0
                    && attribute(Attribute::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED)? != 0,
                multicast: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED)? != 0
                    && functions::has_multicast()
                    && !is_multicast_forbidden(|name| std::env::var(name).ok()),
            };
            // SAFETY: the device was just found; the context is released when this is dropped.
            let context = named("cuDevicePrimaryCtxRetain", unsafe { result::primary_ctx::retain(device) })?;
            let (compiler, own_stream) = (OnceLock::new(), Mutex::default());
            Ok(Self { device, context, properties, compiler, own_stream })
        };
        open().map_err(CudaUnavailable::Driver)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_forbid_multicast_objects() {
        let forbids = |name, value: &str| is_multicast_forbidden(|of| (of == name).then(|| value.to_owned()));
        assert_eq!(["0", "1", "2", ""].map(|value| forbids("NCCL_NVLS_ENABLE", value)), [true, false, false, false]);
        let force = ["1", "true", "0", "false", ""].map(|value| forbids("MSCCLPP_FORCE_DISABLE_NVLS", value));
        // As in MSCCL++, where only 0 is false.
        assert_eq!(force, [true, true, false, true, false]);
    }
}
