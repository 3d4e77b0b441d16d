//! A plan bound to a message, on a device.

use std::sync::{Arc, PoisonError};

use mscclpp_core::collective::Collective;
use mscclpp_core::vocab::ReduceOp;
use smallvec::SmallVec;

use super::abi;
use super::addresses::Tables;
use super::buffers::{self, Binding, Buffers, DeviceSlice};
use super::context::{self, Context};
use super::device::{Device, Kernels};
use super::driver::{Driver, DriverError, Handle};
use super::join::Group;
use super::multicast::NotMulticast;
use super::proxy::{Failure, Proxies};
use super::report::stall;
use super::specialise::{Constants, NotSpecialised, VECTOR, is_even};
use super::stream::{Lane, Stream, Used};
use super::switch::{Groups, Multicasts, Switch, Window};
use super::world::{Inner, Prepare};
use crate::dtype::DataType;
use crate::error::{Error, Interrupted};
use crate::interpret::{Params, Program, Space};
use crate::message::Message;
use crate::numeric::Accumulate;
use crate::process::describe;

/// A plan bound to a message of a size, type and reduction, to be launched any number of times.
pub struct Run {
    world: Arc<Inner>,
    context: Arc<Context>,
    params: Params,
    /// Whether launches run kernels that were written for the plan, or why not.
    specialised: Result<(), NotSpecialised>,
    threads: u32,
    /// By device.
    parts: Vec<Part>,
    /// Input and output of every rank: which of its memories, and the first byte in it.
    sides: Vec<[(usize, u64); 2]>,
    /// The first bytes of every rank's input and output in the launch at hand.
    bases: Vec<u64>,
    /// Those, where they do not fit into a kernel's argument.
    tables: Tables,
}

/// What is launched on one device.
struct Part {
    /// The interpreter, and what was written for the plan, if that is for messages of this size.
    execute: Handle,
    written: Option<Handle>,
    divide: Handle,
    /// The kernel's argument, but for the buffers.
    launch: abi::Launch,
    /// Ranks there whose results an average divides.
    divided: Vec<u32>,
}

/// What a binding needs to know of switch channels over input and output.
pub(super) struct Switches<'a> {
    windows: Vec<Window>,
    /// Input and output of every rank: which of its memories, and the first byte in it.
    sides: &'a [[(usize, u64); 2]],
    groups: &'a Groups,
}

impl Switches<'_> {
    /// Whether multicast objects are wanted of a rank's memory of this number.
    pub(super) fn is_used(&self, memory: usize) -> bool {
        let of = |window: &Window| self.sides[window.members[0] as usize][window.space as usize].0;
        self.windows.iter().any(|window| window.is_open() && of(window) == memory)
    }

    /// Makes them. `slices`: the memories of all ranks, as this process reaches them.
    pub(super) fn bind(&self, world: &Inner, slices: &[[DeviceSlice; 2]]) -> Result<Multicasts, Error> {
        let slice =
            |window: &Window, rank: u32| slices[rank as usize][self.sides[rank as usize][window.space as usize].0];
        Multicasts::new(world, self.groups, "buffers", &self.windows, slice)
    }
}

/// Threads of a block in the division that ends an average, and blocks per rank.
const DIVIDE: (u32, u32) = (512, 16);

/// Multiprocessors on which thread blocks of a launch may lie. The driver may clear and copy memory by kernels of its own, and
/// thread blocks wait for what goes through port channels: it gets one that they leave free.
pub(super) fn rooms(device: &Device, program: &Program) -> u32 {
    device.properties().multiprocessors - u32::from(!program.proxies.is_empty())
}

/// CUDA threads of a thread block: the plan's number, as far as registers allow.
pub(super) fn threads_of(program: &Program, dtype: DataType, accumulate: Accumulate) -> u32 {
    let wide = accumulate.is_wider_than(dtype);
    program.plan.threads_per_block().min(if wide { abi::MOST_THREADS_WIDE } else { abi::MOST_THREADS })
}

/// The kernels of a message, by device.
///
/// # Errors
/// [`Error::NotResident`] if not all thread blocks of a device run at once.
fn kernels(world: &Inner, context: &Context, message: &Message) -> Result<Vec<Kernels>, Error> {
    let program = &context.program;
    let threads = threads_of(program, message.dtype, message.accumulate);
    let of_part = |part: &context::Part| {
        let device = &part.device;
        // Those of other processes' ranks on the same device need room too.
        let neighbours = |group: &Group| {
            let on = |rank| program.agents.iter().filter(|code| code.rank == rank).count();
            group.neighbours().map(on).sum()
        };
        let blocks = world.group.as_ref().map_or(part.numbers.len(), neighbours) as u32;
        let kernels = device.kernels(message.dtype, message.accumulate)?;
        let each = device.driver().blocks_per_multiprocessor(kernels.execute, threads)?;
        let fit = each * rooms(device, program);
        if blocks > fit {
            let (plan, device) = (program.plan.name().to_owned(), device.label());
            return Err(Error::NotResident { plan, device, blocks, threads, fit });
        }
        Ok(kernels)
    };
    context.parts.iter().map(of_part).collect()
}

impl Run {
    pub(super) fn new(
        world: Arc<Inner>,
        context: Arc<Context>,
        params: Params,
        prepare: Prepare,
    ) -> Result<Self, Error> {
        let (program, message) = (&context.program, &params.message);
        let threads = threads_of(program, message.dtype, message.accumulate);
        let kernels = world
            .agree(&format!("prepare of {}", describe(&program.plan, message)), kernels(&world, &context, message))?;
        context.grow_scratch(&world, params.scratch)?;
        let area = |space| params.area(0, space);
        let view = |space| {
            let view = &area(space).view;
            abi::View { len: view.len, part: view.part(), padded: view.padded() }
        };
        let mut launch: abi::Launch = bytemuck::Zeroable::zeroed();
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
        let constants = Constants::new(program, &params, world.options.float_sums_by_switch);
        launch.reduce = constants.reduce.map_or(u32::MAX, u32::from);
        launch.float_sums_by_switch = u32::from(world.options.float_sums_by_switch);
        // On all devices or on none.
        let write = |part: &context::Part| {
            Ok(part.specialised.kernel(&part.device, program, &context.groups, constants)?.handle)
        };
        let written: Result<Vec<Handle>, NotSpecialised> = match prepare.specialise {
            true => context.parts.iter().map(write).collect(),
            false => Err(NotSpecialised::NotAsked),
        };
        let even = prepare.specialise && is_even(program, &params);
        let sides = (0..world.ranks)
            .map(|rank| {
                [Space::Input, Space::Output].map(|space| {
                    let area = params.area(rank, space);
                    (area.slice as usize % 4, area.base)
                })
            })
            .collect();
        let (mut parts, ranks) = (Vec::with_capacity(kernels.len()), world.ranks);
        for (at, ((&number, part), kernels)) in world.numbers.iter().zip(&context.parts).zip(kernels).enumerate() {
            let mut launch = launch;
            part.fill(&context, &mut launch);
            let written = written.as_ref().ok().filter(|_| even).map(|written| written[at]);
            let is_divided = |rank: u32| params.divide.is_some() && params.result(program, rank).is_some();
            let here = (0..ranks).filter(|&rank| world.device_of[rank as usize] == number);
            let divided = here.filter(|&rank| is_divided(rank)).collect();
            parts.push(Part { execute: kernels.execute, written, divide: kernels.divide, launch, divided });
        }
        let specialised = written.map(drop);
        let bases = Vec::with_capacity(2 * ranks as usize);
        Ok(Self { world, context, params, specialised, threads, parts, sides, bases, tables: Tables::default() })
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

    /// Whether there is a kernel that was written for the plan. Launches run it where the message divides into whole vectors of 16
    /// bytes everywhere, at addresses that are multiples of 16, and all others run the interpreter.
    ///
    /// # Errors
    /// Why all are interpreted.
    pub fn specialised(&self) -> Result<(), &NotSpecialised> {
        self.specialised.as_ref().map(|&()| ())
    }

    /// CUDA threads of a thread block.
    pub fn threads_per_block(&self) -> u32 {
        self.threads
    }

    /// Thread blocks of a launch, of all ranks.
    pub fn num_blocks(&self) -> u32 {
        self.context.program.agents.len() as u32
    }

    /// Buffers for this run, zeroed: of all ranks of this process. In a world of several processes a call of all ranks.
    ///
    /// # Errors
    /// [`Error::Driver`] if a device does not have so much memory; in a world of several processes those of
    /// [`bind`](Self::bind).
    pub fn buffers(&self) -> Result<Buffers, Error> {
        self.world.outside_of_captures("cannot make buffers")?;
        let part = |rank: u32, space: Space| -> buffers::Part {
            let area = self.params.area(rank, space);
            (area.slice as usize % 4, area.base, area.view.len)
        };
        let parts = (0..self.world.ranks).map(|rank| [part(rank, Space::Input), part(rank, Space::Output)]).collect();
        Buffers::new(&self.world, self.params.message.dtype, self.lens(), parts, &self.windows())
    }

    /// The switch channels over scratch, and how their members reach one another. Those over input and output are
    /// [`Binding::switches`] and [`Buffers::switches`].
    pub fn switches(&self) -> Vec<Switch> {
        self.context.switches()
    }

    fn windows(&self) -> Switches<'_> {
        let mut windows = self.context.groups.windows([Space::Input, Space::Output]);
        for window in &mut windows {
            let side = |rank: u32| self.sides[rank as usize][window.space as usize];
            let first = window.members[0];
            if let Some(&rank) = window.members.iter().find(|&&rank| side(rank) != side(first)) {
                let (found, other, expected) = (side(rank).1, first, side(first).1);
                window.refuse(NotMulticast::Places { rank, found, other, expected });
            }
        }
        Switches { windows, sides: &self.sides, groups: &self.context.groups }
    }

    /// Tells the other ranks where this one's input and output lie in the memory of its device, or, in place, its one buffer and
    /// nothing: of all ranks of this process, ascending. A call of all ranks, and all at once, not in a capture; what the
    /// ranks know of an allocation they keep for later calls, until it is freed. In a world of one process it only looks at
    /// lengths.
    ///
    /// For switch channels over input and output this makes multicast objects, if there can be some ([`Binding::switches`] says so): memory of
    /// [`World::alloc`](super::World::alloc) that begins at the same byte of its allocation on all ranks. That takes the driver milliseconds, so
    /// bind once.
    ///
    /// # Errors
    /// [`Error::BufferCount`], [`Error::BufferSize`]; [`Error::Driver`] if it is no memory of the device; [`Error::NotMapped`],
    /// [`Error::Lost`] with what another rank says, [`Error::Broken`], [`Error::Busy`].
    pub fn bind(&self, ranks: impl IntoIterator<Item = [DeviceSlice; 2]>) -> Result<Binding, Error> {
        self.world.outside_of_captures("cannot bind buffers")?;
        let own: Vec<[DeviceSlice; 2]> = ranks.into_iter().collect();
        let checked = || {
            let count = self.world.local().count();
            if own.len() != count {
                let expected = count as u32;
                return Err(Error::BufferCount { buffer: "input and output", expected, found: own.len() });
            }
            self.world.local().zip(&own).try_for_each(|((rank, _), slices)| self.check(rank, slices))
        };
        Binding::new(&self.world, self.lens(), checked().map(|()| own), &self.windows())
    }

    fn check(&self, rank: u32, slices: &[DeviceSlice; 2]) -> Result<(), Error> {
        for (number, (slice, expected)) in slices.iter().zip(self.lens()).enumerate() {
            if slice.bytes != expected {
                let buffer = ["input", "output"][number];
                return Err(Error::BufferSize { rank, buffer, expected, found: slice.bytes });
            }
        }
        Ok(())
    }

    /// Puts a launch on a stream, on buffers that [`Run::buffers`] made for this or an equal run, and returns at once. What they
    /// hold is known after [`synchronize`](Self::synchronize). To drop them, or this, waits until the devices are idle.
    ///
    /// # Errors
    /// [`Error::ElementType`], [`Error::BufferCount`], [`Error::BufferSize`] if they were made for another run; [`Error::Stalled`]
    /// if an earlier launch gave up; [`Error::NoStream`] if ranks are on a device where the stream is not; [`Error::Broken`];
    /// [`Error::Driver`].
    pub fn launch_buffers(&mut self, buffers: &mut Buffers, stream: &Stream) -> Result<(), Error> {
        let (expected, found) = (self.params.message.dtype, buffers.dtype);
        if expected != found {
            return Err(Error::ElementType { expected, found });
        }
        // SAFETY: memory of the ranks' devices, made for nobody else. It is given back only when these are idle. A graph says
        // for itself how long it must be there.
        unsafe { self.launch_bound(&buffers.binding, stream) }
    }

    /// Puts a launch on a stream, on what [`bind`](Self::bind) bound for this or an equal run, and returns at once.
    ///
    /// # Errors
    /// As [`launch_buffers`](Self::launch_buffers).
    ///
    /// # Safety
    /// As [`launch`](Self::launch), for what the ranks of this process bound.
    pub unsafe fn launch_bound(&mut self, binding: &Binding, stream: &Stream) -> Result<(), Error> {
        // SAFETY: the caller's promise; ranks of other processes make it for theirs.
        unsafe { self.launch_on(binding.slices.iter().copied(), Some(&binding.multicasts.distances), stream) }
    }

    /// Puts a launch on a stream, on any memory that the devices reach, and returns at once: for each rank its input and its
    /// output, or, in place, its one buffer and nothing. One kernel on each device, without allocation, so that it can be
    /// captured. In a world of several processes the others' memory is only known through [`bind`](Self::bind), and so are multicast
    /// objects everywhere: switch channels over input and output go without here.
    ///
    /// # Errors
    /// [`Error::BufferCount`], [`Error::BufferSize`]; [`Error::Stalled`] if an earlier launch gave up; [`Error::NoStream`] if
    /// ranks are on a device where the stream is not; [`Error::Driver`].
    ///
    /// # Safety
    /// The slices are memory that every device of the world reaches. Nobody else uses them until the launch is done, and they are there until then;
    /// if it is captured, until the last launch of the graph is.
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
                true => Error::Capturing { what: "cannot take the reports of a launch that gave up".into() },
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

    /// Waits until everything on a stream is done, and says whether the launches went well.
    ///
    /// # Errors
    /// [`Error::Stalled`] with what every waiting thread block waits for, if one waited longer than [`Options::timeout`]. After
    /// that outputs hold anything, and the next launch begins afresh; in a world of several processes there can be none.
    /// [`Error::Interrupted`] if another rank is the reason, who is gone or has given up. [`Error::Driver`].
    ///
    /// [`Options::timeout`]: super::Options::timeout
    pub fn synchronize(&self, stream: &Stream) -> Result<(), Error> {
        stream.synchronize()?;
        if self.context.has_given_up() {
            return Err(self.recover(stream));
        }
        // Nothing is under way any more that might be asked to give up.
        if self.world.is_last(stream) {
            self.context.forget_abort();
        }
        // Plans that are right have waited for what goes through port channels.
        self.context.settle(self.world.options.timeout).inspect_err(|error| {
            if let Some(group) = &self.world.group {
                group.give_up(error);
            }
        })
    }

    /// Makes launches under way give up, from another thread; if there are none, the next one. Of launches that were done before
    /// they heard of it nothing is left after [`synchronize`](Self::synchronize).
    pub fn abort(&self) {
        self.context.abort();
    }

    /// Takes the reports of a launch that gave up, and makes ready for the next one.
    fn recover(&self, stream: &Stream) -> Error {
        let recover = || -> Result<Error, Error> {
            stream.synchronize()?;
            let reports = self.context.reports()?;
            let mut proxies = self.context.parts.iter().filter_map(|part| part.proxies.as_ref());
            let failure = proxies.find_map(Proxies::failure);
            let failure = failure.or_else(|| self.world.group.as_ref()?.find_cause().map(Failure::Cause));
            let stall = || stall(&self.context.program, &self.params, &reports);
            let error = match (failure, &self.world.group) {
                (Some(Failure::Error(error)), _) => error,
                (Some(Failure::Cause(cause)), Some(group)) => {
                    Error::Interrupted(Box::new(Interrupted { rank: group.rank, cause, stall: stall() }))
                }
                _ => Error::Stalled(Box::new(stall())),
            };
            match &self.world.group {
                // The other ranks' counters would have to be reset at the same time.
                Some(group) => {
                    group.give_up(&error);
                    self.context.parts.iter().filter_map(|part| part.proxies.as_ref()).for_each(Proxies::give_up);
                }
                None => self.context.reset()?,
            }
            Ok(error)
        };
        recover().unwrap_or_else(|error| error)
    }

    /// Bytes of the two memories of a rank.
    fn lens(&self) -> [u64; 2] {
        self.params.buffers(&self.context.program)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // What is given back may still be in use; a failure cannot be mended here.
        let _ = self.world.settle();
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
