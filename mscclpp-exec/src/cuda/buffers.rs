//! Buffers of all ranks of a launch, on the devices.

use std::fmt;
use std::sync::Arc;

use super::executor::Inner;
use super::ipc::PeerMemory;
use super::plan_state::PlanState;
use super::prepared_plan::Switches;
use super::switch::{Multicasts, SwitchPath};
use mscclpp_base::dtype::DataType;
use mscclpp_base::error::Error;
use mscclpp_cuda::abi;
use mscclpp_cuda::device::Device;
use mscclpp_cuda::driver::SharedDriver;
use mscclpp_cuda::memory::Storage;
use mscclpp_cuda::slice::DeviceSlice;
use mscclpp_cuda::unused::Unused;

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

    /// Creates a binding; `own` are the slices of this process' ranks, and `lens` those of all ranks, unless they may differ.
    pub(super) fn new(
        world: &Arc<Inner>,
        lens: Option<[u64; 2]>,
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
            let wrong = lens.and_then(|lens| (0..2).find(|&at| pair[at].bytes != lens[at]).map(|at| (at, lens[at])));
            if let Some((number, expected)) = wrong {
                let found = pair[number].bytes;
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
            let memory = |number: usize| -> Result<_, Error> {
                let memory = match switches.is_used(number) {
                    true => Storage::shared(device.driver(), lens[number], &world.others(device)),
                    // The other ranks do not open it.
                    false if lens[number] == 0 => Storage::plain(device.driver(), 0),
                    false => world.alloc_internal(device, lens[number]),
                };
                Ok(memory?.cleared()?)
            };
            Ok([memory(0)?, memory(1)?])
        };
        let memories: Result<Vec<[Storage; 2]>, Error> = world.local().map(memories).collect();
        let slice = |memory: &Storage, bytes| DeviceSlice { bytes, ..memory.as_slice() };
        let pair = |[first, second]: &[Storage; 2]| [slice(first, lens[0]), slice(second, lens[1])];
        let slices = memories.as_ref().map(|all| all.iter().map(pair).collect()).map_err(Clone::clone);
        let binding = Binding::new(world, Some(lens), slices, switches)?;
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
