//! The memory for packets of a plan on one device, in which launches search for old packets.

use std::sync::{Mutex, PoisonError};

use mscclpp_cuda::abi::VECTOR_BYTES;
use mscclpp_cuda::driver::{Result, SharedDriver};
use mscclpp_cuda::memory::DeviceMemory;
use mscclpp_cuda::slice::DeviceSlice;

/// The areas of all launches of a plan, those in graphs too.
pub(super) struct PacketAreas {
    driver: SharedDriver,
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
        Ok(Self { driver: driver.clone(), pointer, tables: Mutex::default() })
    }

    /// Returns what the kernel parameters contain.
    pub(super) fn address(&self) -> u64 {
        self.pointer.address()
    }

    /// Allocates a table for a number of areas.
    pub(super) fn table(&self, areas: usize) -> Result<DeviceMemory> {
        DeviceMemory::zeroed(&self.driver, ((1 + areas) * size_of::<[u64; 2]>()) as u64)
    }

    /// Lets launches search these areas and no others; a [`table`](Self::table) has room for them. Allocates nothing.
    pub(super) fn set(&self, table: DeviceMemory, areas: impl Iterator<Item = DeviceSlice>) -> Result<()> {
        let vectors = areas.map(|area| [area.address, area.bytes / VECTOR_BYTES]).filter(|&[_, vectors]| vectors > 0);
        let mut rows = vec![[0; 2]];
        rows.extend(vectors);
        rows[0] = [rows.len() as u64 - 1, rows.iter().map(|[_, vectors]| vectors).sum()];
        self.driver.memcpy_to_device(table.address(), bytemuck::cast_slice(&rows))?;
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        let address = table.address();
        tables.push(table);
        self.driver.memcpy_to_device(self.pointer.address(), &address.to_ne_bytes())
    }
}
