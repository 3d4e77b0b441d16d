//! The counters of a device that are not in use.

use crate::capture::refuse_in_capture;
use crate::driver::SharedDriver;
use crate::memory::DeviceMemory;
use mscclpp_base::error::Error;

/// Number of counters that are allocated together.
const SLAB: u64 = 512;

/// The counters of a device.
#[derive(Default)]
pub(super) struct FreeCounters {
    /// Freed with the device: streams of the caller's may wait until then.
    memory: Vec<DeviceMemory>,
    /// Address and last value of counters that are not in use.
    free: Vec<(u64, u64)>,
}

impl FreeCounters {
    /// Returns the address and the last value of a counter.
    ///
    /// # Errors
    /// [`Error::Driver`]; [`Error::Capturing`].
    pub(super) fn take(&mut self, driver: &SharedDriver) -> Result<(u64, u64), Error> {
        if self.free.is_empty() {
            refuse_in_capture("cannot allocate memory")?;
            let memory = DeviceMemory::zeroed(driver, 8 * SLAB)?;
            self.free.extend((0..SLAB).map(|at| (memory.address() + 8 * at, 0)));
            self.memory.push(memory);
        }
        self.free.pop().ok_or_else(|| Error::Internal("a slab without counters".into()))
    }

    /// Takes a counter back.
    pub(super) fn put(&mut self, address: u64, last: u64) {
        self.free.push((address, last));
    }
}
