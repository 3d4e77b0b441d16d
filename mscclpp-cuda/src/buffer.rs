//! Device memory of users, which is freed when it is dropped.

use std::fmt;
use std::ops::Range;

use super::slice::DeviceSlice;
use super::unused::Unused;
use crate::capture::refuse_in_capture;
use crate::device::Device;
use crate::driver::SharedDriver;
use crate::memory::Storage;
use crate::uses::Uses;
use mscclpp_base::error::Error;

/// Memory of a device that is freed when it is dropped. Other processes can map it.
///
/// `Send` and `Sync`: the driver may be called from any thread, and the host reaches the memory through copies only.
pub struct DeviceBuffer {
    driver: SharedDriver,
    memory: Storage,
    bytes: u64,
    pub(super) uses: Uses,
    unused: Unused,
}

static_assertions::assert_impl_all!(DeviceBuffer: Send, Sync);

impl DeviceBuffer {
    /// Allocates zeroed memory.
    ///
    /// # Errors
    /// [`Error::Driver`] if the device has too little memory; [`Error::Capturing`].
    pub fn new(device: &Device, bytes: u64) -> Result<Self, Error> {
        refuse_in_capture("cannot allocate memory")?;
        let driver = device.driver().clone();
        Ok(Self::of(Storage::plain(&driver, bytes)?.cleared()?, driver, bytes))
    }

    /// Allocates zeroed memory that can be shared: in whole units of physical memory, which other processes receive as
    /// files and `peers` can access. The memory is ordinary if the driver does not support sharing by files.
    #[doc(hidden)]
    pub fn shared(device: &Device, bytes: u64, peers: &[u32]) -> Result<Self, Error> {
        let driver = device.driver().clone();
        Ok(Self::of(Storage::shared(&driver, bytes, peers)?.cleared()?, driver, bytes))
    }

    fn of(memory: Storage, driver: SharedDriver, bytes: u64) -> Self {
        Self { driver, memory, bytes, uses: Uses::default(), unused: Unused::default() }
    }

    #[doc(hidden)]
    pub fn driver(&self) -> &SharedDriver {
        &self.driver
    }

    /// Returns the number of its device.
    pub(super) fn ordinal(&self) -> u32 {
        self.driver.properties().ordinal
    }

    /// Returns all of it as a slice.
    pub fn as_slice(&self) -> DeviceSlice {
        self.uses.set_unknown();
        self.whole()
    }

    #[doc(hidden)]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns all of it, for uses that this library records.
    #[doc(hidden)]
    pub fn whole(&self) -> DeviceSlice {
        DeviceSlice { address: self.memory.address(), bytes: self.bytes }
    }

    /// Returns a part of it, by bytes; `None` if the range is not inside.
    pub fn slice(&self, range: Range<u64>) -> Option<DeviceSlice> {
        self.uses.set_unknown();
        let bytes = range.end.checked_sub(range.start).filter(|_| range.end <= self.bytes)?;
        Some(DeviceSlice { address: self.memory.address() + range.start, bytes })
    }

    /// Writes all of it. The copy is complete when this returns; no pending work may use the memory.
    ///
    /// # Errors
    /// [`Error::DeviceCopy`] if the number of bytes differs, [`Error::Driver`].
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.check(bytes.len())?;
        Ok(self.driver.memcpy_to_device(self.memory.address(), bytes)?)
    }

    /// Reads all of it. Does not wait for pending work: synchronize the stream first.
    ///
    /// # Errors
    /// Those of [`write`](Self::write).
    pub fn read(&self, bytes: &mut [u8]) -> Result<(), Error> {
        self.check(bytes.len())?;
        Ok(self.driver.memcpy_to_host(bytes, self.memory.address())?)
    }

    fn check(&self, found: usize) -> Result<(), Error> {
        let (expected, found) = (self.bytes, found as u64);
        if expected == found { Ok(()) } else { Err(Error::DeviceCopy { expected, found }) }
    }
}

impl Drop for DeviceBuffer {
    /// Waits for the calls that use the memory, unless its owner has waited; if other work may use it, for all
    /// work of the device.
    fn drop(&mut self) {
        if !Unused::is_set() && self.uses.wait().is_ok_and(|is_all| is_all) {
            self.unused.set();
        }
    }
}

impl fmt::Debug for DeviceBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceBuffer")
            .field("device", &self.ordinal())
            .field("slice", &self.whole())
            .finish_non_exhaustive()
    }
}
