//! The memory for packets of a plan on one device, in which launches search for old packets.

use std::sync::{Mutex, PoisonError};

use mscclpp_cuda::abi::VECTOR_BYTES;
use mscclpp_cuda::driver::{Result, SharedDriver};
use mscclpp_cuda::memory::DeviceMemory;
use mscclpp_cuda::slice::DeviceSlice;

/// The areas of all launches of a plan, those in graphs too.
pub(super) struct PacketAreas {
    driver: SharedDriver,
    /// Address of the address of the present table, which launches read; after it the first table.
    pointer: u64,
    /// Further tables that a launch may have begun to read.
    tables: Mutex<Vec<DeviceMemory>>,
}

/// A row of a table: address and vectors of an area; in the first row, the number of areas and all their vectors.
type Row = [u64; 2];

/// Returns a table of areas.
fn rows(areas: impl Iterator<Item = DeviceSlice>) -> Vec<Row> {
    let vectors = areas.map(|area| [area.address, area.bytes / VECTOR_BYTES]).filter(|&[_, vectors]| vectors > 0);
    let mut rows = vec![[0; 2]];
    rows.extend(vectors);
    rows[0] = [rows.len() as u64 - 1, rows.iter().map(|[_, vectors]| vectors).sum()];
    rows
}

impl PacketAreas {
    /// Returns the bytes of memory for a number of areas.
    pub(super) fn bytes(areas: usize) -> usize {
        (2 + areas) * size_of::<Row>()
    }

    /// Returns the areas of a plan, and what the [memory](Self::bytes) at an address has to hold at first.
    pub(super) fn new(
        driver: &SharedDriver,
        pointer: u64,
        areas: impl Iterator<Item = DeviceSlice>,
    ) -> (Self, Vec<Row>) {
        let mut first = vec![[pointer + size_of::<Row>() as u64, 0]];
        first.extend(rows(areas));
        (Self { driver: driver.clone(), pointer, tables: Mutex::default() }, first)
    }

    /// Returns what the kernel parameters contain.
    pub(super) fn address(&self) -> u64 {
        self.pointer
    }

    /// Allocates a table for a number of areas.
    pub(super) fn table(&self, areas: usize) -> Result<DeviceMemory> {
        DeviceMemory::new(&self.driver, ((1 + areas) * size_of::<Row>()) as u64)
    }

    /// Lets launches search these areas and no others; a [`table`](Self::table) has room for them. Allocates nothing.
    pub(super) fn set(&self, table: DeviceMemory, areas: impl Iterator<Item = DeviceSlice>) -> Result<()> {
        self.driver.memcpy_to_device(table.address(), bytemuck::cast_slice(&rows(areas)))?;
        let address = table.address();
        self.tables.lock().unwrap_or_else(PoisonError::into_inner).push(table);
        self.driver.memcpy_to_device(self.pointer, &address.to_ne_bytes())
    }
}
