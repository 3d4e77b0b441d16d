//! The memory for packets of a plan on one device, in which launches search for old packets.

use std::sync::{Mutex, PoisonError};

use super::abi::VECTOR_BYTES;
use super::buffers::DeviceSlice;
use super::driver::{Result, SharedDriver};
use super::memory::DeviceMemory;

/// The areas of all launches of a plan, those in graphs too.
pub(super) struct PacketAreas {
    /// The address of the present table, which launches read; after it a table without areas.
    pointer: DeviceMemory,
    /// Tables that a launch may have begun to read.
    tables: Mutex<Vec<DeviceMemory>>,
}

impl PacketAreas {
    pub(super) fn new(driver: &SharedDriver) -> Result<Self> {
        const WORD: u64 = size_of::<u64>() as u64;
        let pointer = DeviceMemory::zeroed(driver, 3 * WORD)?;
        driver.memcpy_to_device(pointer.address(), &(pointer.address() + WORD).to_ne_bytes())?;
        Ok(Self { pointer, tables: Mutex::default() })
    }

    /// Returns what the kernel parameters contain.
    pub(super) fn address(&self) -> u64 {
        self.pointer.address()
    }

    /// Lets launches search these areas and no others.
    pub(super) fn set(&self, driver: &SharedDriver, areas: impl Iterator<Item = DeviceSlice>) -> Result<()> {
        let vectors = areas.map(|area| [area.address, area.bytes / VECTOR_BYTES]).filter(|&[_, vectors]| vectors > 0);
        let mut table = vec![[0; 2]];
        table.extend(vectors);
        table[0] = [table.len() as u64 - 1, table.iter().map(|[_, vectors]| vectors).sum()];
        let table = DeviceMemory::holding(driver, &table)?;
        driver.memcpy_to_device(self.pointer.address(), &table.address().to_ne_bytes())?;
        self.tables.lock().unwrap_or_else(PoisonError::into_inner).push(table);
        Ok(())
    }
}
