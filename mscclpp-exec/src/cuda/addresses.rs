//! Buffer addresses of all ranks, if there are more ranks than fit into the kernel parameters: in tables on the
//! devices.
//!
//! A graph contains the table's address and may be launched at any time, so a table that a captured launch uses is
//! never written again.

use super::executor::Inner;
use mscclpp_base::error::Error;
use mscclpp_cuda::capture::SetUp;
use mscclpp_cuda::device::stream::Stream;
use mscclpp_cuda::driver;
use mscclpp_cuda::memory::DeviceMemory;

/// The address tables of a prepared plan.
#[derive(Default)]
pub(super) struct Tables {
    all: Vec<Table>,
}

struct Table {
    bases: Vec<u64>,
    /// The table on each device.
    memories: Vec<DeviceMemory>,
    /// Whether a captured launch uses it.
    captured: bool,
}

impl Tables {
    /// Returns a table with these addresses, by device. If the addresses are new, it waits for pending launches, or, in
    /// a capture, allocates another table.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub(super) fn with(&mut self, world: &Inner, bases: &[u64], stream: &Stream) -> Result<&[DeviceMemory], Error> {
        let captured = stream.is_capturing()?;
        let at = match self.all.iter().position(|table| table.bases == bases) {
            Some(at) => at,
            None if captured => {
                let Some(first) = world.devices.first() else { return Ok(&[]) };
                let _set_up = SetUp::begin(first.driver(), true)?;
                self.add(world, bases)?
            }
            None => self.write(world, bases)?,
        };
        self.all[at].captured |= captured;
        Ok(&self.all[at].memories)
    }

    /// Writes a new table, and returns its index.
    fn add(&mut self, world: &Inner, bases: &[u64]) -> driver::Result<usize> {
        let hold = |device: &super::Device| DeviceMemory::holding(device.driver(), bases);
        let memories = world.devices.iter().map(hold).collect::<driver::Result<_>>()?;
        self.all.push(Table { bases: bases.to_vec(), memories, captured: false });
        Ok(self.all.len() - 1)
    }

    /// Writes a new table, or one that is no longer used; returns its index.
    fn write(&mut self, world: &Inner, bases: &[u64]) -> Result<usize, Error> {
        let words = bytemuck::cast_slice(bases);
        let Some(at) = self.all.iter().position(|table| !table.captured) else {
            return Ok(self.add(world, bases)?);
        };
        // Pending launches read it, on any stream; kernels of one device wait for those of others.
        world.wait_for_launches()?;
        let table = &mut self.all[at];
        table.bases.clear();
        for (device, memory) in world.devices.iter().zip(&table.memories) {
            device.driver().memcpy_to_device(memory.address(), words)?;
        }
        table.bases.extend(bases);
        Ok(at)
    }
}
