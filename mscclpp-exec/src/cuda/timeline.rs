//! Timelines of launches on devices: a kernel that stamps each operation, compiled when the first one is requested.

use mscclpp_kernels::TIMELINE;

use super::abi;
use super::device::Device;
use super::jit::{Function, Source};
use super::memory::DeviceMemory;
use super::plan_state::DevicePlanState;
use super::prepared_plan::{PreparedPlan, check_co_resident};
use mscclpp_base::error::Error;
use mscclpp_base::interpret::timeline::Stamp;
use mscclpp_base::interpret::{Params, ResolvedPlan};
use mscclpp_base::message::Message;
use mscclpp_base::system::precise_time;
use mscclpp_base::timeline::Timeline;

/// A stamp as the kernel writes it.
#[repr(C)]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
struct DeviceStamp {
    begin: u64,
    end: u64,
    waited: u64,
    sequence: u64,
    instr: u32,
    iteration: u32,
}

/// Argument of the kernel.
#[repr(C)]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
pub(super) struct Argument {
    launch: abi::LaunchParams,
    stamps: u64,
    capacity: u64,
}

/// What records the launches of a prepared plan on one device.
pub(super) struct Recording {
    pub(super) execute: Function,
    /// The number of stamps, then the stamps.
    memory: DeviceMemory,
    capacity: u64,
    /// Nanoseconds from the device's clock to the host's.
    to_host: u64,
}

/// Maximum number of stamps of a device: 40 MiB.
const MAX_STAMPS: u64 = 1 << 20;

/// Number of readings of both clocks, of which the fastest counts.
const CLOCK_READINGS: u32 = 8;

impl Recording {
    fn new(device: &Device, message: &Message, capacity: u64) -> Result<Self, Error> {
        let (dtype, accumulate) = (message.dtype, message.accumulate);
        let unsupported = || Error::UnsupportedAccumulator { dtype, accumulate };
        let module =
            device.module(&Source::typed("timeline.cu", TIMELINE, dtype, accumulate).ok_or_else(unsupported)?)?;
        let capacity = capacity.min(MAX_STAMPS);
        let memory = DeviceMemory::zeroed(device.driver(), 8 + capacity * size_of::<DeviceStamp>() as u64)?;
        let to_host = to_host(device, &module.function("mscclpp_clock")?, &memory)?;
        memory.clear()?;
        Ok(Self { execute: module.function("mscclpp_execute_stamped")?, memory, capacity, to_host })
    }

    /// Returns the argument of a launch.
    pub(super) fn argument(&self, launch: &abi::LaunchParams) -> Argument {
        Argument { launch: *launch, stamps: self.memory.address(), capacity: self.capacity }
    }

    /// Reads the stamps, and the number of those for which there was no room. The device is idle.
    fn read(&self, device: &Device) -> Result<(Vec<Stamp>, u64), Error> {
        let mut count = 0_u64;
        let driver = device.driver();
        driver.memcpy_to_host(bytemuck::bytes_of_mut(&mut count), self.memory.address())?;
        let mut found = vec![<DeviceStamp as bytemuck::Zeroable>::zeroed(); count.min(self.capacity) as usize];
        driver.memcpy_to_host(bytemuck::cast_slice_mut(&mut found), self.memory.address() + 8)?;
        let stamp = |stamp: DeviceStamp| Stamp {
            instr: stamp.instr,
            iteration: stamp.iteration.into(),
            launch: stamp.sequence + 1,
            begin: stamp.begin.wrapping_add(self.to_host),
            end: stamp.end.wrapping_add(self.to_host),
            waited: stamp.waited,
        };
        Ok((found.into_iter().map(stamp).collect(), count.saturating_sub(self.capacity)))
    }
}

/// Returns the difference between the clocks: the device's is read between two readings of the host's.
fn to_host(device: &Device, clock: &Function, memory: &DeviceMemory) -> Result<u64, Error> {
    // Streams of callers may wait for what is prepared.
    let stream = device.priority_stream()?;
    let mut best = (u64::MAX, 0);
    for _ in 0..CLOCK_READINGS {
        let before = precise_time();
        // SAFETY: the kernel writes 8 bytes to this address, which are allocated until the stream is done.
        unsafe { clock.launch(&stream, 1, 1, &memory.address())? };
        stream.synchronize()?;
        let duration = precise_time() - before;
        let mut now = 0_u64;
        device.driver().memcpy_to_host(bytemuck::bytes_of_mut(&mut now), memory.address())?;
        best = best.min((duration, (before + duration / 2).wrapping_sub(now)));
    }
    Ok(best.1)
}

/// Returns the number of operations that the thread blocks of a launch execute.
fn num_executed(program: &ResolvedPlan, params: &Params) -> u64 {
    let in_loops = program.loops.iter().map(|&at| {
        let header = &program.instrs[at as usize];
        let trips = params.layout.trips(header.count, params.layout.window(header.unit));
        trips.saturating_mul(header.body.into())
    });
    in_loops.fold(program.instrs.len() as u64, u64::saturating_add)
}

impl PreparedPlan {
    /// Records a timeline of the next launch, and of those after it until [`take_timeline`](Self::take_timeline) for which there is
    /// room. Recorded launches run the interpreter, also where there is a specialized kernel.
    ///
    /// # Errors
    /// [`Error::Jit`] if there is no compiler for the kernel; [`Error::NotCoResident`] if it needs more of a multiprocessor than
    /// the usual one; [`Error::Capturing`], [`Error::Driver`].
    #[doc(hidden)]
    pub fn start_timeline(&mut self) -> Result<(), Error> {
        self.world.refuse_in_capture("cannot start a timeline")?;
        let program = &self.context.program;
        let capacity = num_executed(program, &self.params);
        let recording = |part: &DevicePlanState| {
            let recording = Recording::new(&part.device, &self.params.message, capacity)?;
            check_co_resident(&self.world, program, part, recording.execute.handle, self.threads)?;
            Ok(recording)
        };
        let recordings = self.context.parts.iter().map(recording).collect::<Result<Vec<_>, Error>>()?;
        self.take_timeline()?;
        for (part, recording) in self.parts.iter_mut().zip(recordings) {
            part.recording = Some(recording);
        }
        Ok(())
    }

    /// Waits for the launches since [`start_timeline`](Self::start_timeline), and returns and ends their timeline; empty without one.
    ///
    /// # Errors
    /// [`Error::Capturing`], [`Error::Driver`].
    #[doc(hidden)]
    pub fn take_timeline(&mut self) -> Result<Timeline, Error> {
        if self.parts.iter().all(|part| part.recording.is_none()) {
            return Ok(Timeline::new(&self.context.program, []));
        }
        self.world.refuse_in_capture("cannot read a timeline")?;
        self.world.drain()?;
        let (mut stamps, mut dropped) = (Vec::new(), 0);
        for (part, state) in self.parts.iter_mut().zip(&self.context.parts) {
            if let Some(recording) = part.recording.take() {
                let (found, without_room) = recording.read(&state.device)?;
                stamps.extend(found);
                dropped += without_room;
            }
        }
        Ok(Timeline { dropped, ..Timeline::new(&self.context.program, stamps) })
    }
}
