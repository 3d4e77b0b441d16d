//! Why there is no device.

use thiserror::Error;

use super::driver::DriverError;

/// Why CUDA cannot be used here.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Unavailable {
    /// No driver library was found.
    #[error("no CUDA driver: `libcuda.so.1` was not found; install the vendor's driver, or use the CPU")]
    NoDriver,
    /// The driver found no device.
    #[error("the CUDA driver finds no device; see `CUDA_VISIBLE_DEVICES`, or use the CPU")]
    NoDevice,
    /// A device that is not there.
    #[error("no CUDA device {ordinal}: there are {count}, counted from 0")]
    NoSuchDevice {
        /// The device asked for.
        ordinal: u32,
        /// Devices there are.
        count: u32,
    },
    /// The driver does not work.
    #[error("the CUDA driver does not work: {0}")]
    Driver(#[source] DriverError),
    /// A driver without functions that are needed here.
    #[error("the CUDA driver is for CUDA {}.{}, expected at least 12.8; install a newer one, or use the CPU", version / 1000, version % 1000 / 10)]
    OldDriver {
        /// As the driver says it: 1000 times the major version, 10 times the minor one.
        version: u32,
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
