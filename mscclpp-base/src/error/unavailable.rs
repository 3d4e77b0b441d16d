//! Reasons why no CUDA device can be used.

use thiserror::Error;

use super::driver::DriverError;

/// Why CUDA cannot be used in this process.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CudaUnavailable {
    /// No driver library was found.
    #[error("no CUDA driver: `libcuda.so.1` was not found; install the vendor's driver, or use the CPU")]
    NoDriver,
    /// The library with the driver's name lacks a function.
    #[error(
        "the library that was loaded as the CUDA driver has no function `{function}`; install the vendor's driver and \
         check that no other library precedes it in `LD_LIBRARY_PATH`, or use the CPU"
    )]
    Foreign {
        /// The first missing function.
        function: &'static str,
    },
    /// The loaded library is the toolkit's stub, with which programs are linked.
    #[error(
        "no CUDA driver: a stub library was loaded instead; remove the toolkit's folder `stubs` from `LD_LIBRARY_PATH`"
    )]
    Stub,
    /// The driver found no device.
    #[error("the CUDA driver found no device; check `CUDA_VISIBLE_DEVICES`, or use the CPU")]
    NoDevice,
    /// A device that does not exist.
    #[error("no CUDA device {ordinal}: expected an ordinal below {count}")]
    NoSuchDevice {
        /// Number of the requested device.
        ordinal: u32,
        /// Number of devices.
        count: u32,
    },
    /// The driver does not work.
    #[error("the CUDA driver does not work: {0}")]
    Driver(#[source] DriverError),
    /// A driver without functions that this library requires.
    #[error("the CUDA driver supports CUDA {}.{}, expected at least 12.2; install a newer driver, or use the CPU", version / 1000, version % 1000 / 10)]
    OldDriver {
        /// Version as the driver reports it: 1000 times the major version plus 10 times the minor one.
        version: u32,
    },
    /// A driver that rejects the kernels of this library, where none can be compiled either.
    #[error(
        "{device} cannot load the kernels `{kernels}` of this library{}; the driver supports CUDA {}.{}: install one for CUDA 13.0 or \
         later, or a version of NVRTC that matches the driver and can compile them ({none})",
        refused.as_ref().map(|refused| format!(": {refused}")).unwrap_or_default(), driver / 1000, driver % 1000 / 10
    )]
    Kernels {
        /// The device.
        device: String,
        /// Name of the kernels: element type and accumulator type.
        kernels: &'static str,
        /// The driver's version: 1000 times the major one plus 10 times the minor one.
        driver: u32,
        /// Error of the driver for the last prebuilt kernels; `None` if there are none for a driver of this version.
        refused: Option<Box<DriverError>>,
        /// Why no kernels were compiled.
        none: String,
    },
    /// A device for which there are no kernels.
    #[error("{name} has compute capability {}.{}, expected at least 8.0", capability.0, capability.1)]
    TooOld {
        /// The device.
        name: String,
        /// Its compute capability.
        capability: (u32, u32),
    },
}
