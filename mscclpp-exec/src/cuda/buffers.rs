//! Buffers of all ranks of a launch, on the devices.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::abi;
use super::capture::refuse_in_capture;
use super::device::Device;
use super::driver::SharedDriver;
use super::executor::Inner;
use super::ipc::PeerMemory;
use super::memory::Storage;
use super::plan_state::PlanState;
use super::prepared_plan::Switches;
use super::switch::{Multicasts, SwitchPath};
use super::uses::{Unused, Uses};
use mscclpp_base::dtype::DataType;
use mscclpp_base::error::Error;

/// A range of a device's memory, whatever its origin: a [`DeviceBuffer`], a [tensor](super::dlpack::Tensor) of another
/// library, an allocation of cudarc's, or any address. It is safe to create, because it is only a number; the contracts
/// of launches state what must hold for the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceSlice {
    /// Address of the first byte.
    pub address: u64,
    /// Number of bytes.
    pub bytes: u64,
}

impl DeviceSlice {
    /// Converts a slice of cudarc's, for launches on a stream that is ordered after the work that cudarc has enqueued
    /// on its own stream: synchronize that stream first, or launch on it
    /// ([`Stream::from_raw`](super::Stream::from_raw)). The slice must live as long as it is used.
    pub fn of_cudarc<T>(slice: &impl cudarc::driver::DevicePtr<T>, stream: &cudarc::driver::CudaStream) -> Self {
        let bytes = (slice.len() * size_of::<T>()) as u64;
        let (address, _done) = slice.device_ptr(stream);
        Self { address, bytes }
    }

    /// An empty range.
    pub const EMPTY: Self = Self { address: 0, bytes: 0 };
}

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
        Ok(Self::of(Storage::zeroed(&driver, bytes)?, driver, bytes))
    }

    /// Allocates zeroed memory that can be shared: in whole units of physical memory, which other processes receive as
    /// files and `peers` can access. The memory is ordinary if the driver does not support sharing by files.
    pub(super) fn shared(device: &Device, bytes: u64, peers: &[u32]) -> Result<Self, Error> {
        let driver = device.driver().clone();
        Ok(Self::of(Storage::shared(&driver, bytes, peers)?, driver, bytes))
    }

    fn of(memory: Storage, driver: SharedDriver, bytes: u64) -> Self {
        Self { driver, memory, bytes, uses: Uses::default(), unused: Unused::default() }
    }

    pub(super) fn driver(&self) -> &SharedDriver {
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
    pub(super) fn whole(&self) -> DeviceSlice {
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

/// Memory of every rank for launches of a [`PreparedPlan`](super::PreparedPlan), also of ranks in other processes. It
/// does not keep the memory of this process alive.
///
/// `Send` and `Sync`: launches read it and do not change it.
pub struct Binding {
    /// Input (or the one buffer of an in-place plan) and output of every rank, at their addresses in this process.
    pub(super) slices: Vec<[DeviceSlice; 2]>,
    multicasts: Multicasts,
    pub(super) world: Arc<Inner>,
    /// The plan whose switch channels `multicasts` serves.
    context: Arc<PlanState>,
    /// Mappings that were made for it.
    _peers: Vec<PeerMemory>,
    unused: Unused,
}

static_assertions::assert_impl_all!(Binding: Send, Sync);

impl Binding {
    /// Returns the slices of a rank.
    pub(super) fn of_rank(&self, rank: u32) -> [DeviceSlice; 2] {
        self.slices.get(rank as usize).copied().unwrap_or([DeviceSlice::EMPTY; 2])
    }

    /// Creates a binding; `own` are the slices of this process' ranks.
    pub(super) fn new(
        world: &Arc<Inner>,
        lens: [u64; 2],
        own: Result<Vec<[DeviceSlice; 2]>, Error>,
        switches: &Switches<'_>,
    ) -> Result<Self, Error> {
        let (world, context) = (Arc::clone(world), Arc::clone(switches.context()));
        let Some(group) = &world.group else {
            let slices = own?;
            let multicasts = switches.bind(&world, &slices)?;
            return Ok(Self { slices, multicasts, world, context, _peers: Vec::new(), unused: Unused::default() });
        };
        let (all, peers) = group.register(own.map(|own| own.concat()))?;
        let mut slices = Vec::with_capacity(all.len());
        for (rank, memories) in (0_u32..).zip(all) {
            let pair: [DeviceSlice; 2] = memories.try_into().map_err(|_| group.malformed(rank))?;
            if let Some(number) = (0..2).find(|&number| pair[number].bytes != lens[number]) {
                let (expected, found) = (lens[number], pair[number].bytes);
                let error = Error::BufferSize { rank, buffer: ["input", "output"][number], expected, found };
                return Err(group.abort(error));
            }
            slices.push(pair);
        }
        let multicasts = switches.bind(&world, &slices)?;
        Ok(Self { slices, multicasts, world, context, _peers: peers, unused: Unused::default() })
    }

    /// Returns the switch channels over input and output, and how their members reach one another.
    /// [`PreparedPlan::switch_paths`](super::PreparedPlan::switch_paths) returns those over scratch.
    pub fn switch_paths(&self) -> &[SwitchPath] {
        &self.multicasts.switches
    }

    /// Returns, by device, the distances to the multicast addresses of a plan's switch channels; `None` for another
    /// plan than the one it was made for, whose channels have other members.
    pub(super) fn distances(&self, context: &Arc<PlanState>) -> Option<&[abi::Distances]> {
        Arc::ptr_eq(&self.context, context).then_some(&self.multicasts.distances)
    }
}

impl Drop for Binding {
    fn drop(&mut self) {
        // The freed mappings may still be in use; a destructor cannot report a failure.
        if self.world.drain().is_ok() {
            self.unused.set();
        }
    }
}

impl fmt::Debug for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Binding")
            .field("slices", &self.slices)
            .field("switch_paths", &self.switch_paths())
            .finish_non_exhaustive()
    }
}

/// Input and output of every rank of this process in its device's memory. In place, both are in one allocation.
///
/// Made by [`PreparedPlan::buffers`](super::PreparedPlan::buffers).
///
/// `Send` and `Sync`: the driver may be called from any thread; launches and copies to the device borrow them mutably.
pub struct Buffers {
    pub(super) dtype: DataType,
    pub(super) binding: Binding,
    _memories: Vec<[Storage; 2]>,
    parts: Vec<[Part; 2]>,
    unused: Unused,
}

static_assertions::assert_impl_all!(Buffers: Send, Sync);

/// Which of a rank's two allocations, first byte, length.
pub(super) type Part = (usize, u64, u64);

impl Buffers {
    pub(super) fn new(
        world: &Arc<Inner>,
        dtype: DataType,
        lens: [u64; 2],
        parts: Vec<[Part; 2]>,
        switches: &Switches<'_>,
    ) -> Result<Self, Error> {
        let memories = |(_, device): (u32, &Device)| -> Result<_, Error> {
            let memory = |number: usize| match switches.is_used(number) {
                true => Ok(Storage::shared(device.driver(), lens[number], &world.others(device))?),
                // The other ranks do not open it.
                false if lens[number] == 0 => Ok(Storage::zeroed(device.driver(), 0)?),
                false => world.alloc_internal(device, lens[number]),
            };
            Ok([memory(0)?, memory(1)?])
        };
        let memories: Result<Vec<[Storage; 2]>, Error> = world.local().map(memories).collect();
        let slice = |memory: &Storage, bytes| DeviceSlice { bytes, ..memory.as_slice() };
        let pair = |[first, second]: &[Storage; 2]| [slice(first, lens[0]), slice(second, lens[1])];
        let slices = memories.as_ref().map(|all| all.iter().map(pair).collect()).map_err(Clone::clone);
        let binding = Binding::new(world, lens, slices, switches)?;
        Ok(Self { dtype, binding, _memories: memories?, parts, unused: Unused::default() })
    }

    /// Returns the number of ranks, in all processes.
    #[doc(hidden)]
    pub fn num_ranks(&self) -> u32 {
        self.parts.len() as u32
    }

    /// Returns whether a rank is one of this process.
    #[doc(hidden)]
    pub fn is_local(&self, rank: u32) -> bool {
        self.driver(rank).is_some()
    }

    /// Returns the switch channels over input and output, and how their members reach one another.
    #[doc(hidden)]
    pub fn switch_paths(&self) -> &[SwitchPath] {
        self.binding.switch_paths()
    }

    /// Returns the type of the elements.
    #[doc(hidden)]
    pub fn dtype(&self) -> DataType {
        self.dtype
    }

    /// Returns a rank's input; empty if the rank is not one of this process.
    pub fn input(&self, rank: u32) -> DeviceSlice {
        self.slice(rank, 0)
    }

    /// Returns a rank's output; empty if the rank is not one of this process.
    pub fn output(&self, rank: u32) -> DeviceSlice {
        self.slice(rank, 1)
    }

    fn slice(&self, rank: u32, side: usize) -> DeviceSlice {
        if self.driver(rank).is_none() {
            return DeviceSlice::EMPTY;
        }
        let (memory, at, bytes) = self.parts[rank as usize][side];
        DeviceSlice { address: self.binding.slices[rank as usize][memory].address + at, bytes }
    }

    /// Writes a rank's input. The copy is complete when this returns; no pending work may use the memory.
    ///
    /// # Errors
    /// [`Error::BufferSize`] if the length differs, [`Error::NotLocalRank`] if the rank is not one of this process,
    /// [`Error::Driver`].
    pub fn write_input(&mut self, rank: u32, bytes: &[u8]) -> Result<(), Error> {
        let (driver, slice) = self.checked(rank, 0, bytes.len())?;
        Ok(driver.memcpy_to_device(slice.address, bytes)?)
    }

    /// Writes a rank's output, so that a test can detect which bytes a launch does not write.
    ///
    /// # Errors
    /// Those of [`write_input`](Self::write_input).
    pub fn write_output(&mut self, rank: u32, bytes: &[u8]) -> Result<(), Error> {
        let (driver, slice) = self.checked(rank, 1, bytes.len())?;
        Ok(driver.memcpy_to_device(slice.address, bytes)?)
    }

    /// Reads a rank's output. Does not wait for pending work: synchronize the stream first.
    ///
    /// # Errors
    /// Those of [`write_input`](Self::write_input).
    pub fn read_output(&self, rank: u32, bytes: &mut [u8]) -> Result<(), Error> {
        let (driver, slice) = self.checked(rank, 1, bytes.len())?;
        Ok(driver.memcpy_to_host(bytes, slice.address)?)
    }

    /// Returns the driver of a rank of this process.
    fn driver(&self, rank: u32) -> Option<&SharedDriver> {
        self.binding.world.device(rank).map(Device::driver)
    }

    fn checked(&self, rank: u32, side: usize, found: usize) -> Result<(&SharedDriver, DeviceSlice), Error> {
        let driver = self.driver(rank).ok_or(Error::NotLocalRank { rank })?;
        let (slice, found) = (self.slice(rank, side), found as u64);
        if slice.bytes == found {
            return Ok((driver, slice));
        }
        Err(Error::BufferSize { rank, buffer: ["input", "output"][side], expected: slice.bytes, found })
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // Launches may be pending; a destructor cannot report a failure.
        if self.binding.world.drain().is_ok() {
            self.unused.set();
        }
    }
}

impl fmt::Debug for Buffers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffers")
            .field("dtype", &self.dtype)
            .field("num_ranks", &self.num_ranks())
            .field("binding", &self.binding)
            .finish_non_exhaustive()
    }
}
