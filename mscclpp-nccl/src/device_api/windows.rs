//! `ncclWindow_vidmem` and `ncclDevCommWindowTable`: the windows of a communicator in device memory, which kernels read.

use std::ffi::c_int;

use mscclpp_exec::Error;
use mscclpp_exec::cuda::{Device, DeviceVec};

/// Words of a table: 32 entries of an address, a number of bytes and a handle each, and the address of the next table.
const TABLE_WORDS: usize = 3 * ENTRIES + 1;

const ENTRIES: usize = 32;

/// A window as kernels see it: a structure of which each version's is the beginning, or the whole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowDescriptor {
    /// Where rank 0's memory is mapped.
    pub(crate) flat_base: u64,
    /// In units of 4 GiB.
    pub(crate) stride: u32,
    /// Number of this rank in its node, and in the communicator.
    pub(crate) ranks: (u32, u32),
    /// In units of 4 KiB.
    pub(crate) multicast_offset: u32,
    pub(crate) flags: c_int,
}

impl WindowDescriptor {
    /// Returns the words of the structure: those of a network of devices are zero.
    pub(crate) fn to_words(self) -> [u64; 12] {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let mut words = [0; 12];
        words[1] = self.flat_base;
        words[2] = pair(self.ranks.0, self.ranks.1);
        words[3] = pair(self.stride, self.multicast_offset);
        words[4] = pair(0, self.flags as u32);
        // One segment of memory; no logical endpoint.
        words[10] = pair(1, 0);
        words[11] = pair(u32::MAX, 0);
        words
    }
}

/// The tables in which kernels look windows up, each of which has the address of the next one. They change as windows are
/// registered and deregistered, also for device communicators that exist.
#[derive(Debug)]
pub(crate) struct WindowTable {
    device: Device,
    /// What each table has, and its memory.
    tables: Vec<([u64; TABLE_WORDS], DeviceVec<u64>)>,
}

impl WindowTable {
    /// Creates a table without windows.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub(crate) fn new(device: &Device) -> Result<Self, Error> {
        let mut table = Self { device: device.clone(), tables: Vec::new() };
        table.extend()?;
        Ok(table)
    }

    fn extend(&mut self) -> Result<(), Error> {
        let words = [0; TABLE_WORDS];
        self.tables.push((words, DeviceVec::from_slice(&self.device, &words)?));
        Ok(())
    }

    /// Returns the address of the first table.
    pub(crate) fn address(&self) -> u64 {
        self.tables.first().map_or(0, |(_, memory)| memory.as_slice().address)
    }

    /// Adds a window.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub(crate) fn insert(&mut self, base: u64, bytes: u64, handle: u64) -> Result<(), Error> {
        let free = |(words, _): &([u64; TABLE_WORDS], _)| (0..ENTRIES).position(|entry| words[3 * entry + 2] == 0);
        let found = self.tables.iter().enumerate().find_map(|(number, table)| Some((number, free(table)?)));
        let Some((number, entry)) = found else {
            self.extend()?;
            let (last, next) =
                (self.tables.len() - 1, self.tables.last().map_or(0, |(_, memory)| memory.as_slice().address));
            self.set(last, 0, [base, bytes, handle])?;
            // Kernels follow the address when the table is complete.
            let (words, memory) = &mut self.tables[last - 1];
            words[TABLE_WORDS - 1] = next;
            return memory.write(&words[..]);
        };
        self.set(number, entry, [base, bytes, handle])
    }

    /// Removes a window.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub(crate) fn remove(&mut self, handle: u64) -> Result<(), Error> {
        let has = |(words, _): &([u64; TABLE_WORDS], _)| (0..ENTRIES).position(|entry| words[3 * entry + 2] == handle);
        let found = self.tables.iter().enumerate().find_map(|(number, table)| Some((number, has(table)?)));
        found.map_or(Ok(()), |(number, entry)| self.set(number, entry, [0; 3]))
    }

    fn set(&mut self, number: usize, entry: usize, window: [u64; 3]) -> Result<(), Error> {
        let (words, memory) = &mut self.tables[number];
        words[3 * entry..3 * entry + 3].copy_from_slice(&window);
        memory.write(&words[..])
    }
}
