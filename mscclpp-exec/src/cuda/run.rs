//! A plan bound to a message, on a device.

use std::sync::{Arc, PoisonError};

use mscclpp_core::collective::Collective;
use mscclpp_core::vocab::ReduceOp;

use super::abi;
use super::buffers::{Buffers, DeviceSlice, Part};
use super::context::Context;
use super::device::{Kernels, Stream};
use super::memory::DeviceMemory;
use super::report::stall;
use super::world::Inner;
use crate::error::Error;
use crate::interpret::program::Reductions;
use crate::interpret::{Params, Space};
use crate::message::Message;

/// A plan bound to a message of a size, type and reduction, to be launched any number of times.
pub struct Run {
    world: Arc<Inner>,
    context: Arc<Context>,
    params: Params,
    kernels: Kernels,
    threads: u32,
    /// The kernel's argument, but for the buffers.
    launch: abi::Launch,
    /// Input and output of every rank: which of its memories, and the first byte in it.
    sides: Vec<[(usize, u64); 2]>,
    /// The bases of more ranks than fit into the argument.
    table: Option<DeviceMemory>,
    /// The buffers whose addresses the table holds.
    in_table: Vec<u64>,
}

/// Threads of a block in the division that ends an average, and blocks per rank.
const DIVIDE: (u32, u64) = (512, 16);

impl Run {
    pub(super) fn new(world: Arc<Inner>, context: Arc<Context>, params: Params) -> Result<Self, Error> {
        let device = &world.device;
        let (program, message) = (&context.program, &params.message);
        let kernels = device.kernels(message.dtype, message.accumulate)?;
        let threads = program.plan.threads_per_block();
        let blocks = program.agents.len() as u32;
        let each = device.driver().blocks_per_multiprocessor(kernels.execute, threads)?;
        let fit = each * device.properties().multiprocessors;
        if blocks > fit {
            let plan = program.plan.name().to_owned();
            return Err(Error::NotResident { plan, blocks, threads, fit });
        }
        context.grow_scratch(device, params.scratch)?;
        let area = |space| params.area(0, space);
        let view = |space| {
            let view = &area(space).view;
            abi::View { len: view.len, part: view.part(), padded: view.padded() }
        };
        let mut launch: abi::Launch = bytemuck::Zeroable::zeroed();
        context.fill(&mut launch);
        launch.timeout_ns = u64::try_from(world.options.timeout.as_nanos()).unwrap_or(u64::MAX).min(u64::MAX / 2);
        launch.stride = params.layout.stride;
        launch.unit = params.layout.unit;
        launch.wrap = area(Space::Scratch).wrap;
        launch.half_scratch = area(Space::Scratch).half;
        launch.half_packets = area(Space::Packets).half;
        launch.len_scratch = area(Space::Scratch).view.len;
        launch.len_packets = area(Space::Packets).view.len;
        launch.input = view(Space::Input);
        launch.output = view(Space::Output);
        launch.divisor = program.shape.ranks.max(1);
        launch.reduce = match (program.reductions, params.reduction) {
            (Reductions::Generic, Some(op)) => op as u32,
            _ => u32::MAX,
        };
        let sides = (0..world.ranks)
            .map(|rank| {
                [Space::Input, Space::Output].map(|space| {
                    let area = params.area(rank, space);
                    (area.slice as usize % 4, area.base)
                })
            })
            .collect();
        let table = match world.ranks as usize > abi::INLINE_RANKS {
            true => Some(DeviceMemory::zeroed(device.driver(), 16 * u64::from(world.ranks))?),
            false => None,
        };
        launch.table = table.as_ref().map_or(0, DeviceMemory::address);
        Ok(Self { world, context, params, kernels, threads, launch, sides, table, in_table: Vec::new() })
    }

    /// The message.
    pub fn message(&self) -> &Message {
        &self.params.message
    }

    /// The collective that the plan implements.
    pub fn collective(&self) -> Collective {
        self.context.program.shape.collective
    }

    /// Number of ranks.
    pub fn num_ranks(&self) -> u32 {
        self.world.ranks
    }

    /// The reduction; `None` if the plan does not reduce. Of a plan that reduces in several ways, `Sum`.
    pub fn reduction(&self) -> Option<ReduceOp> {
        self.params.reduction
    }

    /// Thread blocks of a launch, of all ranks.
    pub fn num_blocks(&self) -> u32 {
        self.launch.num_agents
    }

    /// Buffers for this run, zeroed.
    ///
    /// # Errors
    /// [`Error::Driver`] if the device does not have so much memory.
    pub fn buffers(&self) -> Result<Buffers, Error> {
        let part = |rank: u32, space: Space| -> Part {
            let area = self.params.area(rank, space);
            (area.slice as usize % 4, area.base, area.view.len)
        };
        let parts = (0..self.world.ranks).map(|rank| [part(rank, Space::Input), part(rank, Space::Output)]).collect();
        Buffers::new(&self.world.device, self.params.message.dtype, self.lens(), parts)
    }

    /// Puts a launch on a stream, on buffers that [`Run::buffers`] made for this or an equal run, and returns at once. What they
    /// hold is known after [`synchronize`](Self::synchronize). To drop them, or this, waits until the device is idle.
    ///
    /// # Errors
    /// [`Error::ElementType`], [`Error::BufferCount`], [`Error::BufferSize`] if they were made for another run; [`Error::Stalled`]
    /// if an earlier launch gave up; [`Error::Driver`].
    pub fn launch_buffers(&mut self, buffers: &mut Buffers, stream: &Stream) -> Result<(), Error> {
        let (expected, found) = (self.params.message.dtype, buffers.dtype);
        if expected != found {
            return Err(Error::ElementType { expected, found });
        }
        // SAFETY: memory of this device, made for nobody else. It is given back only when the device is idle. A graph says for
        // itself how long it must be there.
        unsafe { self.launch(buffers.memories(), stream) }
    }

    /// Puts a launch on a stream, on memory of the device, and returns at once: for each rank its input and its output, or, in
    /// place, its one buffer and nothing. One kernel, without allocation, so that it can be captured.
    ///
    /// # Errors
    /// [`Error::BufferCount`], [`Error::BufferSize`]; [`Error::Stalled`] if an earlier launch gave up; [`Error::Driver`].
    ///
    /// # Safety
    /// The slices are memory of this device. Nobody else uses them until the launch is done, and they are there until then;
    /// if it is captured, until the last launch of the graph is.
    pub unsafe fn launch(
        &mut self,
        ranks: impl Iterator<Item = [DeviceSlice; 2]>,
        stream: &Stream,
    ) -> Result<(), Error> {
        if self.context.has_given_up() {
            return Err(self.recover(stream));
        }
        let lens = self.lens();
        let mut bases = [0; 2 * abi::INLINE_RANKS];
        let mut table = Vec::new();
        let mut count = 0;
        for (rank, (slices, sides)) in ranks.zip(&self.sides).enumerate() {
            for (number, (slice, &expected)) in slices.iter().zip(&lens).enumerate() {
                if slice.bytes != expected {
                    let buffer = ["input", "output"][number];
                    return Err(Error::BufferSize { rank: rank as u32, buffer, expected, found: slice.bytes });
                }
            }
            let base = sides.map(|(memory, at)| slices[memory].address + at);
            match self.table {
                Some(_) => table.extend(base),
                None => bases[2 * rank..2 * rank + 2].copy_from_slice(&base),
            }
            count += 1;
        }
        if count != self.sides.len() {
            let expected = self.world.ranks;
            return Err(Error::BufferCount { buffer: "input and output", expected, found: count });
        }
        self.launch.bases = bases;
        if let Some(memory) = &self.table
            && table != self.in_table
        {
            // Launches under way read the table.
            stream.synchronize()?;
            self.world.device.driver().upload(memory.address(), bytemuck::cast_slice(&table))?;
            self.in_table = table;
        }
        self.enqueue(stream)
    }

    fn enqueue(&self, stream: &Stream) -> Result<(), Error> {
        let driver = self.world.device.driver();
        let mut gate = self.world.gate.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = gate.last.filter(|&last| last != stream.handle)
            && !driver.is_capturing(stream.handle)?
            && !driver.is_capturing(last)?
        {
            let event = driver.create_event()?;
            let ordered = driver.record(event, last).and_then(|()| driver.wait_event(stream.handle, event));
            driver.destroy_event(event)?;
            ordered?;
        }
        gate.last = Some(stream.handle);
        let argument = bytemuck::bytes_of(&self.launch);
        // SAFETY: the argument is what the kernel takes; the context's memory lives as long as `self`, and the caller of
        // `launch` answers for the buffers.
        unsafe { driver.launch(self.kernels.execute, self.launch.num_agents, self.threads, stream.handle, argument)? };
        if self.params.divide.is_some() {
            let launch = self.division();
            let (threads, each) = DIVIDE;
            let blocks = each * u64::from(launch.num_ranks);
            // SAFETY: as above.
            unsafe {
                driver.launch(
                    self.kernels.divide,
                    blocks as u32,
                    threads,
                    stream.handle,
                    bytemuck::bytes_of(&launch),
                )?;
            }
        }
        Ok(())
    }

    /// The argument of the division that ends an average: of the ranks that have a result, which are all of them or the root.
    fn division(&self) -> abi::Launch {
        let mut launch = self.launch;
        let has_result = |&rank: &u32| self.params.result(&self.context.program, rank).is_some();
        let mut ranks = (0..self.world.ranks).filter(has_result);
        if let (Some(root), None) = (ranks.next(), ranks.next())
            && self.world.ranks > 1
        {
            let slots = 2 * root as usize..2 * root as usize + 2;
            let bases = if self.table.is_some() { &self.in_table[slots] } else { &self.launch.bases[slots] };
            launch.bases[..2].copy_from_slice(bases);
            (launch.table, launch.num_ranks) = (0, 1);
        }
        launch
    }

    /// Waits until everything on a stream is done, and says whether the launches went well.
    ///
    /// # Errors
    /// [`Error::Stalled`] with what every waiting thread block waits for, if one waited longer than [`Options::timeout`]. After
    /// that outputs hold anything, and the next launch begins afresh. [`Error::Driver`].
    ///
    /// [`Options::timeout`]: super::Options::timeout
    pub fn synchronize(&self, stream: &Stream) -> Result<(), Error> {
        stream.synchronize()?;
        if self.context.has_given_up() { Err(self.recover(stream)) } else { Ok(()) }
    }

    /// Makes launches under way give up, from another thread; if there are none, the next one.
    pub fn abort(&self) {
        self.context.abort();
    }

    /// Takes the reports of a launch that gave up, and makes ready for the next one.
    fn recover(&self, stream: &Stream) -> Error {
        let recover = || -> Result<Error, Error> {
            stream.synchronize()?;
            let reports = self.context.reports(&self.world.device)?;
            let failed = self.context.proxies.as_ref().and_then(|proxies| proxies.failure());
            self.context.reset(&self.world.device)?;
            if let Some(error) = failed {
                return Ok(error.into());
            }
            Ok(Error::Stalled(Box::new(stall(&self.context.program, &self.params, &reports))))
        };
        recover().unwrap_or_else(|error| error)
    }

    /// Bytes of the two memories of a rank.
    fn lens(&self) -> [u64; 2] {
        self.params.buffers(&self.context.program)
    }
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run")
            .field("plan", &self.context.program.plan)
            .field("message", &self.params.message)
            .finish_non_exhaustive()
    }
}
