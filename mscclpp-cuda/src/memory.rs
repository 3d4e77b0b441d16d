//! Device memory that is freed when it is dropped.

use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::capture::wait_for_users;
use crate::driver::{Export, Mapped, Mapping, Properties, Result, SharedDriver};
use crate::slice::DeviceSlice;

/// An allocation on a device.
pub struct DeviceMemory {
    driver: SharedDriver,
    address: u64,
    bytes: u64,
}

impl DeviceMemory {
    /// Allocates uninitialized memory.
    pub fn new(driver: &SharedDriver, bytes: u64) -> Result<Self> {
        // Vectors of 16 bytes are read up to the end.
        let bytes = bytes.next_multiple_of(16).max(16);
        Ok(Self { address: driver.alloc(bytes)?, driver: driver.clone(), bytes })
    }

    /// Allocates memory of zeros.
    pub fn zeroed(driver: &SharedDriver, bytes: u64) -> Result<Self> {
        let memory = Self::new(driver, bytes)?;
        memory.clear()?;
        Ok(memory)
    }

    /// Allocates memory that holds these values.
    pub fn holding<T: bytemuck::Pod>(driver: &SharedDriver, values: &[T]) -> Result<Self> {
        let bytes: &[u8] = bytemuck::cast_slice(values);
        let memory = Self::new(driver, bytes.len() as u64)?;
        driver.memcpy_to_device(memory.address, bytes)?;
        Ok(memory)
    }

    pub fn clear(&self) -> Result<()> {
        self.driver.memset(self.address, self.bytes)
    }

    pub fn address(&self) -> u64 {
        self.address
    }

    pub(super) fn as_slice(&self) -> DeviceSlice {
        DeviceSlice { address: self.address, bytes: self.bytes }
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        if wait_for_users(&self.driver) {
            // A destructor cannot report a failure.
            let _ = self.driver.free(self.address);
        }
    }
}

/// Memory that is mapped in this process: of another process, or allocated here to be shared.
pub struct RemoteMemory {
    driver: SharedDriver,
    mapping: Mapping,
}

impl RemoteMemory {
    pub fn new(driver: &SharedDriver, export: Export, bytes: u64) -> Result<Self> {
        Ok(Self { mapping: driver.import(export, bytes)?, driver: driver.clone() })
    }

    /// Allocates uninitialized memory of this process, which the devices with these numbers can access too.
    pub(super) fn shared(driver: &SharedDriver, bytes: u64, peers: &[u32]) -> Result<Self> {
        Ok(Self { mapping: driver.alloc_shared(bytes, peers)?, driver: driver.clone() })
    }

    pub fn address(&self) -> u64 {
        self.mapping.address
    }
}

/// Device memory with the kind of its allocation.
pub enum Storage {
    Plain(DeviceMemory),
    /// Allocated to be shared.
    Shared(RemoteMemory),
}

impl Storage {
    /// Allocates ordinary memory, uninitialized.
    pub fn plain(driver: &SharedDriver, bytes: u64) -> Result<Self> {
        DeviceMemory::new(driver, bytes).map(Self::Plain)
    }

    /// Allocates uninitialized memory in whole units of physical memory, which other processes receive as files and `peers`
    /// can access. The memory is ordinary if the driver does not support sharing by files.
    pub fn shared(driver: &SharedDriver, bytes: u64, peers: &[u32]) -> Result<Self> {
        let Properties { shareable, multicast, .. } = *driver.properties();
        if !shareable {
            return Self::plain(driver, bytes);
        }
        // The size is a multiple of the multicast granularity, so that a multicast object can cover all of it.
        let unit = if multicast { driver.multicast_granularity(2, bytes.max(1)).unwrap_or(1) } else { 1 };
        let bytes = bytes.max(1).checked_next_multiple_of(unit.max(1)).unwrap_or(bytes);
        RemoteMemory::shared(driver, bytes, peers).map(Self::Shared)
    }

    /// Clears it, and returns it.
    pub fn cleared(self) -> Result<Self> {
        let (Self::Plain(DeviceMemory { driver, .. }) | Self::Shared(RemoteMemory { driver, .. })) = &self;
        let DeviceSlice { address, bytes } = self.as_slice();
        driver.memset(address, bytes)?;
        Ok(self)
    }

    pub fn address(&self) -> u64 {
        self.as_slice().address
    }

    pub fn bytes(&self) -> u64 {
        self.as_slice().bytes
    }

    /// Returns the whole allocation.
    pub fn as_slice(&self) -> DeviceSlice {
        match self {
            Self::Plain(memory) => memory.as_slice(),
            Self::Shared(RemoteMemory { mapping, .. }) => {
                DeviceSlice { address: mapping.address, bytes: mapping.bytes }
            }
        }
    }
}

impl Drop for RemoteMemory {
    fn drop(&mut self) {
        if wait_for_users(&self.driver) {
            // A destructor cannot report a failure.
            let _ = self.driver.unmap(self.mapping);
        }
    }
}

/// Host memory that the device can access, as words that both sides write.
pub struct MappedMemory {
    driver: SharedDriver,
    mapped: Mapped,
    bytes: u64,
}

impl MappedMemory {
    pub fn new(driver: &SharedDriver, bytes: u64) -> Result<Self> {
        Ok(Self { mapped: driver.alloc_mapped(bytes)?, driver: driver.clone(), bytes })
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> u64 {
        self.bytes
    }

    /// Returns the device's address of byte `at`.
    pub fn device(&self, at: u64) -> u64 {
        self.mapped.device + at
    }

    /// Returns the word at byte `at`, a multiple of 4.
    ///
    /// # Panics
    /// If it is not inside.
    pub fn word(&self, at: u64) -> &AtomicU32 {
        assert!(at.is_multiple_of(4) && at + 4 <= self.bytes, "a word at byte {at} of {}", self.bytes);
        // SAFETY: the word is inside memory that is valid as long as `self`, aligned, and accessed only through atomics
        // on this side; the device writes whole words.
        unsafe { &*((self.mapped.host as u64 + at) as *const AtomicU32) }
    }

    /// Returns the double word at byte `at`, a multiple of 8.
    ///
    /// # Panics
    /// If it is not inside.
    pub fn double(&self, at: u64) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at + 8 <= self.bytes, "a double word at byte {at} of {}", self.bytes);
        // SAFETY: as in `word`.
        unsafe { &*((self.mapped.host as u64 + at) as *const AtomicU64) }
    }
}

impl MappedMemory {
    /// Returns the bytes from byte `at` on.
    ///
    /// # Safety
    /// Neither the host nor the device may write them while they are borrowed.
    ///
    /// # Panics
    /// If they are not inside.
    pub unsafe fn bytes(&self, at: u64, len: u64) -> &[u8] {
        self.check(at, len);
        // SAFETY: the bytes are inside memory that is valid and initialized as long as `self`; the caller guarantees
        // that nothing writes them.
        unsafe { std::slice::from_raw_parts((self.mapped.host as u64 + at) as *const u8, len as usize) }
    }

    /// Returns the bytes from byte `at` on, mutably.
    ///
    /// # Safety
    /// Neither the host nor the device may read or write them elsewhere while they are borrowed.
    ///
    /// # Panics
    /// If they are not inside.
    #[expect(clippy::mut_from_ref, reason = "the caller ensures that no other thread uses them")]
    pub unsafe fn bytes_mut(&self, at: u64, len: u64) -> &mut [u8] {
        self.check(at, len);
        // SAFETY: as in `bytes`; the caller guarantees exclusive access.
        unsafe { std::slice::from_raw_parts_mut((self.mapped.host as u64 + at) as *mut u8, len as usize) }
    }

    fn check(&self, at: u64, len: u64) {
        let is_inside = at.checked_add(len).is_some_and(|end| end <= self.bytes);
        assert!(is_inside, "{len} bytes at byte {at} of {}", self.bytes);
    }
}

impl Drop for MappedMemory {
    fn drop(&mut self) {
        if wait_for_users(&self.driver) {
            // A destructor cannot report a failure.
            let _ = self.driver.free_mapped(self.mapped);
        }
    }
}
