//! Buffers of all ranks of a launch, on the device.

use std::ops::Range;
use std::sync::Arc;

use super::device::Device;
use super::driver::SharedDriver;
use super::memory::DeviceMemory;
use super::world::Inner;
use crate::dtype::DataType;
use crate::error::Error;

/// A range of a device's memory, wherever it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceSlice {
    /// The first byte's address.
    pub address: u64,
    /// Number of bytes.
    pub bytes: u64,
}

impl DeviceSlice {
    /// Nothing.
    pub const EMPTY: Self = Self { address: 0, bytes: 0 };
}

/// Memory of a device, given back when it is dropped. Other processes can map it.
pub struct DeviceBuffer {
    driver: SharedDriver,
    memory: DeviceMemory,
    bytes: u64,
}

impl DeviceBuffer {
    /// Zeroed memory.
    ///
    /// # Errors
    /// [`Error::Driver`] if the device does not have so much.
    pub fn new(device: &Device, bytes: u64) -> Result<Self, Error> {
        let driver = device.driver().clone();
        Ok(Self { memory: DeviceMemory::zeroed(&driver, bytes)?, driver, bytes })
    }

    /// All of it.
    pub fn as_slice(&self) -> DeviceSlice {
        DeviceSlice { address: self.memory.address(), bytes: self.bytes }
    }

    /// A part of it, by bytes; `None` if it is not inside.
    pub fn slice(&self, range: Range<u64>) -> Option<DeviceSlice> {
        let bytes = range.end.checked_sub(range.start).filter(|_| range.end <= self.bytes)?;
        Some(DeviceSlice { address: self.memory.address() + range.start, bytes })
    }

    /// Writes all of it. Done when this returns; nothing that uses it may be under way.
    ///
    /// # Errors
    /// [`Error::DeviceCopy`] if there are more or fewer bytes, [`Error::Driver`].
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.check(bytes.len())?;
        Ok(self.driver.upload(self.memory.address(), bytes)?)
    }

    /// Reads all of it. Waits for nothing: first synchronize the stream.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn read(&self, bytes: &mut [u8]) -> Result<(), Error> {
        self.check(bytes.len())?;
        Ok(self.driver.download(bytes, self.memory.address())?)
    }

    fn check(&self, found: usize) -> Result<(), Error> {
        let (expected, found) = (self.bytes, found as u64);
        if expected == found { Ok(()) } else { Err(Error::DeviceCopy { expected, found }) }
    }
}

/// Input and output of every rank in its device's memory. In place, both lie in one memory.
///
/// Made by [`Run::buffers`](super::Run::buffers).
pub struct Buffers {
    pub(super) dtype: DataType,
    world: Arc<Inner>,
    /// Input or the one buffer of an in-place plan, and output.
    ranks: Vec<[DeviceMemory; 2]>,
    pub(super) lens: [u64; 2],
    parts: Vec<[Part; 2]>,
}

/// Which of a rank's two memories, first byte, length.
pub(super) type Part = (usize, u64, u64);

impl Buffers {
    pub(super) fn new(
        world: &Arc<Inner>,
        dtype: DataType,
        lens: [u64; 2],
        parts: Vec<[Part; 2]>,
    ) -> Result<Self, Error> {
        let memories = |rank| -> Result<_, Error> {
            let memory = |bytes| DeviceMemory::zeroed(world.device(rank).driver(), bytes);
            Ok([memory(lens[0])?, memory(lens[1])?])
        };
        let ranks = (0..world.ranks).map(memories).collect::<Result<_, _>>()?;
        Ok(Self { dtype, world: Arc::clone(world), ranks, lens, parts })
    }

    /// Number of ranks.
    pub fn num_ranks(&self) -> u32 {
        self.ranks.len() as u32
    }

    /// Type of the elements.
    pub fn dtype(&self) -> DataType {
        self.dtype
    }

    /// A rank's input; empty if there is no such rank.
    pub fn input(&self, rank: u32) -> DeviceSlice {
        self.slice(rank, 0)
    }

    /// A rank's output; empty if there is no such rank.
    pub fn output(&self, rank: u32) -> DeviceSlice {
        self.slice(rank, 1)
    }

    fn slice(&self, rank: u32, side: usize) -> DeviceSlice {
        let (Some(memories), Some(parts)) = (self.ranks.get(rank as usize), self.parts.get(rank as usize)) else {
            return DeviceSlice::EMPTY;
        };
        let (memory, at, bytes) = parts[side];
        DeviceSlice { address: memories[memory].address() + at, bytes }
    }

    /// Writes a rank's input. Done when this returns; nothing that uses it may be under way.
    ///
    /// # Errors
    /// [`Error::BufferSize`] if it has another length, [`Error::Driver`].
    pub fn write_input(&mut self, rank: u32, bytes: &[u8]) -> Result<(), Error> {
        let slice = self.checked(rank, 0, bytes.len())?;
        Ok(self.driver(rank).upload(slice.address, bytes)?)
    }

    /// Writes a rank's output, so that a test can see what a launch left alone.
    ///
    /// # Errors
    /// As [`write_input`](Self::write_input).
    pub fn write_output(&mut self, rank: u32, bytes: &[u8]) -> Result<(), Error> {
        let slice = self.checked(rank, 1, bytes.len())?;
        Ok(self.driver(rank).upload(slice.address, bytes)?)
    }

    /// Reads a rank's output. Waits for nothing: first synchronize the stream.
    ///
    /// # Errors
    /// As [`write_input`](Self::write_input).
    pub fn read_output(&self, rank: u32, bytes: &mut [u8]) -> Result<(), Error> {
        let slice = self.checked(rank, 1, bytes.len())?;
        Ok(self.driver(rank).download(bytes, slice.address)?)
    }

    /// Of a rank that there is.
    fn driver(&self, rank: u32) -> &SharedDriver {
        self.world.device(rank).driver()
    }

    fn checked(&self, rank: u32, side: usize, found: usize) -> Result<DeviceSlice, Error> {
        let (slice, found) = (self.slice(rank, side), found as u64);
        if slice.bytes == found && rank < self.num_ranks() {
            return Ok(slice);
        }
        Err(Error::BufferSize { rank, buffer: ["input", "output"][side], expected: slice.bytes, found })
    }

    /// The two memories of every rank.
    pub(super) fn memories(&self) -> impl Iterator<Item = [DeviceSlice; 2]> {
        self.ranks.iter().map(|memories| {
            let [first, second] = memories;
            [
                DeviceSlice { address: first.address(), bytes: self.lens[0] },
                DeviceSlice { address: second.address(), bytes: self.lens[1] },
            ]
        })
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        if self.world.devices.len() > 1 {
            // Kernels of other devices may still use what is given back; a failure cannot be mended here.
            let _ = self.world.wait_idle();
        }
    }
}
