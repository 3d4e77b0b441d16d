//! Launches: one kernel on each device, and those that end an average.

use std::sync::{Arc, PoisonError};

use smallvec::SmallVec;

use super::{Part, PreparedPlan};
use crate::cuda::abi;
use crate::cuda::buffers::{Binding, Buffers, DeviceSlice};
use crate::cuda::driver::{Driver, DriverError};
use crate::cuda::proxy::Proxies;
use crate::cuda::specialize::VECTOR;
use crate::cuda::stream::{Lane, Stream, Used};
use crate::error::Error;

/// Threads of a block in the division that ends an average, and blocks per rank.
const DIVIDE: (u32, u32) = (512, 16);

impl PreparedPlan {
    /// Puts a launch on a stream, on buffers that [`PreparedPlan::buffers`] made for this or an equal run, and returns at once. What they
    /// hold is known after [`synchronize`](Self::synchronize). To drop them, or this, waits until the devices are idle.
    ///
    /// # Errors
    /// [`Error::OtherWorld`] if they were made in another world, on the same device too; [`Error::ElementType`],
    /// [`Error::BufferCount`], [`Error::BufferSize`] if they were made for another prepared_plan; [`Error::Stalled`]
    /// if an earlier launch gave up; [`Error::NoStream`] if ranks are on a device where the stream is not; [`Error::Capturing`] in a
    /// capture, of more than 32 ranks if it is their first launch on these buffers, or after a launch that gave up;
    /// [`Error::Broken`]; [`Error::Driver`].
    pub fn launch_buffers(&mut self, buffers: &mut Buffers, stream: &Stream) -> Result<(), Error> {
        let (expected, found) = (self.params.message.dtype, buffers.dtype);
        if expected != found {
            return Err(Error::ElementType { expected, found });
        }
        // SAFETY: memory of the ranks' devices, made for nobody else: `launch_bound` refuses that of another world. It is given back
        // only when the devices of its world, which is this one, are idle. A graph says for itself how long it must be there.
        unsafe { self.launch_bound(&buffers.binding, stream) }
    }

    /// Puts a launch on a stream, on what [`bind`](Self::bind) bound for this or an equal run, and returns at once. What was bound for
    /// another plan of the same lengths is used without multicast objects.
    ///
    /// # Errors
    /// As [`launch_buffers`](Self::launch_buffers), but for the type.
    ///
    /// # Safety
    /// As [`launch`](Self::launch), for what the ranks of this process bound.
    pub unsafe fn launch_bound(&mut self, binding: &Binding, stream: &Stream) -> Result<(), Error> {
        self.world.check_same(&binding.world)?;
        let distances = binding.distances(&self.context);
        // SAFETY: the caller's promise; ranks of other processes make it for theirs.
        unsafe { self.launch_on(binding.slices.iter().copied(), distances, stream) }
    }

    /// Puts a launch on a stream, on any memory that the devices reach, and returns at once: for each rank its input and its
    /// output, or, in place, its one buffer and nothing. One kernel on each device, so that it can be captured; only the first
    /// launch of more than 32 ranks on buffers allocates. In a world of several processes the others' memory is only known through
    /// [`bind`](Self::bind), and so are multicast objects everywhere: switch channels over input and output go without here.
    ///
    /// # Errors
    /// As [`launch_buffers`](Self::launch_buffers), but for the type.
    ///
    /// # Safety
    /// The slices are memory that every device of the world reaches. Nobody else uses them until the launch is done, and they are
    /// there until then; if it is captured, until the last launch of the graph is.
    pub unsafe fn launch(
        &mut self,
        ranks: impl Iterator<Item = [DeviceSlice; 2]>,
        stream: &Stream,
    ) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        unsafe { self.launch_on(ranks, None, stream) }
    }

    /// `distances`: to the multicast addresses of the memory, by device.
    ///
    /// # Safety
    /// As [`launch`](Self::launch); the distances are those of this memory.
    unsafe fn launch_on(
        &mut self,
        ranks: impl Iterator<Item = [DeviceSlice; 2]>,
        distances: Option<&[[u64; 2 * abi::GROUPS]]>,
        stream: &Stream,
    ) -> Result<(), Error> {
        if let Some(group) = &self.world.group {
            group.check()?;
        }
        if self.context.has_given_up() {
            // To take the reports means to wait for the devices.
            return Err(match stream.is_capturing()? {
                true => Error::Capturing { what: "cannot read the reports of an aborted launch".into() },
                false => self.recover(stream),
            });
        }
        self.bases.clear();
        for ((rank, sides), slices) in (0..).zip(&self.sides).zip(ranks) {
            self.check(rank, &slices)?;
            self.bases.extend(sides.map(|(memory, at)| slices[memory].address + at));
        }
        let (expected, found) = (self.world.ranks, self.bases.len() / 2);
        if found != expected as usize {
            return Err(Error::BufferCount { buffer: "input and output", expected, found });
        }
        for (at, part) in self.parts.iter_mut().enumerate() {
            part.launch.multicast = distances.and_then(|distances| distances.get(at).copied()).unwrap_or_default();
        }
        if expected as usize <= abi::INLINE_RANKS {
            for part in &mut self.parts {
                part.launch.bases[..self.bases.len()].copy_from_slice(&self.bases);
            }
        } else {
            let tables = self.tables.with(&self.world, &self.bases, stream)?;
            for (part, table) in self.parts.iter_mut().zip(tables) {
                part.launch.table = table.address();
            }
        }
        let even = self.bases.iter().all(|base| base.is_multiple_of(VECTOR));
        self.enqueue(even, stream)
    }

    /// `even`: whether kernels that were written for the plan are for these buffers.
    fn enqueue(&self, even: bool, stream: &Stream) -> Result<(), Error> {
        let streams: SmallVec<[_; 8]> =
            self.world.devices.iter().map(|device| stream.on(device.driver())).collect::<Result<_, _>>()?;
        let mut gate = self.world.gate.lock().unwrap_or_else(PoisonError::into_inner);
        self.context.parts.iter().filter_map(|part| part.proxies.as_ref()).for_each(Proxies::wake);
        let lasts = streams.iter().zip(&mut gate.last);
        let mut launched = false;
        for ((device, part), (lane, last)) in self.world.devices.iter().zip(&self.parts).zip(lasts) {
            if let Err(error) = self.enqueue_on(&**device.driver(), (part, even), lane, last, &mut launched) {
                // Kernels that were launched must not wait for the one that was not. Those of a capture were not launched, and
                // earlier launches have all that they need.
                if launched && streams.len() > 1 && !stream.is_capturing().unwrap_or(false) {
                    self.context.abort();
                }
                return Err(error.into());
            }
        }
        Ok(())
    }

    fn enqueue_on(
        &self,
        driver: &dyn Driver,
        (part, even): (&Part, bool),
        lane: &Arc<Lane>,
        last: &mut Option<Used>,
        launched: &mut bool,
    ) -> Result<(), DriverError> {
        if let Some(last) = last {
            lane.follow(last)?;
        }
        *last = Some(lane.used());
        let stream = lane.handle();
        let Part { execute, divide, launch, .. } = part;
        let execute = part.written.as_ref().filter(|_| even).unwrap_or(execute);
        let argument = bytemuck::bytes_of(launch);
        // A driver refuses a launch of nothing.
        if launch.num_agents > 0 {
            // SAFETY: the argument is what the kernel takes; the context's memory lives as long as `self`, and the caller of
            // `launch` answers for the buffers.
            unsafe { driver.launch(*execute, launch.num_agents, self.threads, stream, argument)? };
            *launched = true;
        }
        for ranks in part.divided.chunks(abi::INLINE_RANKS) {
            let mut division = *launch;
            (division.table, division.num_ranks) = (0, ranks.len() as u32);
            for (slots, &rank) in division.bases.chunks_exact_mut(2).zip(ranks) {
                slots.copy_from_slice(&self.bases[2 * rank as usize..][..2]);
            }
            let (threads, each) = DIVIDE;
            let argument = bytemuck::bytes_of(&division);
            // SAFETY: as above.
            unsafe { driver.launch(*divide, each * division.num_ranks, threads, stream, argument)? };
        }
        Ok(())
    }
}
