//! Timelines of launches on devices: a kernel that stamps each operation, compiled when the first one is requested.
//!
//! Stamps are in page-locked memory of the host. To read them waits for no work of a device, which may wait for what this thread does
//! next.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mscclpp_bootstrap::ActiveTimeout;
use mscclpp_kernels::TIMELINE;

use super::plan_state::DevicePlanState;
use super::prepared_plan::{PreparedPlan, check_co_resident};
use mscclpp_base::dtype::DataType;
use mscclpp_base::error::Error;
use mscclpp_base::interpret::timeline::Stamp;
use mscclpp_base::interpret::{Params, ResolvedPlan};
use mscclpp_base::numeric::AccumType;
use mscclpp_base::system::precise_time;
use mscclpp_base::timeline::Timeline;
use mscclpp_cuda::abi;
use mscclpp_cuda::device::{Device, Function, Module};
use mscclpp_cuda::driver::DriverError;
use mscclpp_cuda::jit::Source;
use mscclpp_cuda::memory::MappedMemory;
use mscclpp_cuda::unused::Unused;

/// Bytes of a stamp: its beginning, its end, the time that it waited, the number of launches before, and its instruction and iteration.
const STAMP: u64 = 40;

/// Bytes of a thread block's number of stamps.
const COUNT: u64 = 8;

/// Maximum number of bytes for the stamps of a device.
const MAX_BYTES: u64 = 40 << 20;

/// Number of readings of both clocks, of which the fastest counts.
const CLOCK_READINGS: u32 = 8;

/// How long a reading of the device's clock may take.
const MAX_READING: Duration = Duration::from_secs(1);

/// Argument of the kernel.
#[repr(C)]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
pub(super) struct Argument {
    launch: abi::LaunchParams,
    /// Address of each thread block's number of stamps, then of the stamps: the first one of each thread block, the second one of each, …
    stamps: u64,
    /// Number of stamps of a thread block for which there is room.
    capacity: u64,
}

/// Memory in which launches on a device record what they execute.
#[derive(Clone)]
pub struct Recorder(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    memory: MappedMemory,
    /// Nanoseconds from the device's clock to the host's.
    to_host: u64,
    unused: Unused,
}

#[derive(Default)]
struct State {
    /// Bytes that launches have.
    used: u64,
    launches: Vec<Launched>,
    /// Number of launches for which there was no room.
    skipped: u64,
}

/// A recorded launch.
struct Launched {
    program: Arc<ResolvedPlan>,
    blocks: u64,
    /// Byte at which its part of the memory begins.
    at: u64,
    capacity: u64,
}

impl Recorder {
    /// Allocates page-locked memory, and compares the clocks of device and host.
    ///
    /// # Errors
    /// [`Error::Jit`] if there is no compiler for the kernel; [`Error::Driver`], also if the device is too busy to read its clock.
    #[doc(hidden)]
    pub fn new(device: &Device, bytes: u64) -> Result<Self, Error> {
        let module = module(device, DataType::F32, AccumType::F32)?;
        let memory = MappedMemory::new(device.driver(), bytes.clamp(STAMP + COUNT, MAX_BYTES))?;
        match to_host(device, &module.function("mscclpp_clock")?, &memory) {
            Ok(to_host) => {
                Ok(Self(Arc::new(Inner { state: Mutex::default(), memory, to_host, unused: Unused::default() })))
            }
            Err(error) => {
                // The kernel may write to it later.
                std::mem::forget(memory);
                Err(error)
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what launches have recorded since the last call, and the number of launches for which there was no room. All launches
    /// are complete.
    #[doc(hidden)]
    pub fn take(&self) -> (Vec<Timeline>, u64) {
        let mut state = self.state();
        let State { launches, skipped, .. } = std::mem::take(&mut *state);
        (launches.iter().map(|launched| self.0.read(launched)).collect(), skipped)
    }

    /// Returns whether a launch has recorded something since the last [`take`](Self::take).
    #[doc(hidden)]
    pub fn is_used(&self) -> bool {
        !self.state().launches.is_empty()
    }
}

impl Inner {
    fn word(&self, at: u64) -> u64 {
        self.memory.double(at).load(Relaxed)
    }

    /// Reads the stamps of a launch that is complete.
    fn read(&self, &Launched { ref program, blocks, at, capacity }: &Launched) -> Timeline {
        let (mut stamps, mut dropped) = (Vec::new(), 0);
        for block in 0..blocks {
            let count = self.word(at + COUNT * block);
            dropped += count.saturating_sub(capacity);
            for number in 0..count.min(capacity) {
                let at = at + COUNT * blocks + STAMP * (number * blocks + block);
                let [begin, end, waited, sequence, place] = [0, 8, 16, 24, 32].map(|word| self.word(at + word));
                stamps.push(Stamp {
                    instr: place as u32,
                    iteration: place >> 32,
                    launch: sequence + 1,
                    begin: begin.wrapping_add(self.to_host),
                    end: end.wrapping_add(self.to_host),
                    waited,
                });
            }
        }
        Timeline { dropped, ..Timeline::new(program, stamps) }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Its users are prepared plans, which have waited for their launches, and who has taken the stamps.
        self.unused.set();
    }
}

/// What records the launches of a prepared plan on one device.
pub(super) struct Recording {
    pub(super) execute: Function,
    recorder: Recorder,
    program: Arc<ResolvedPlan>,
    /// Maximum number of operations that a thread block executes in a launch.
    most_executed: u64,
}

impl Recording {
    /// Returns the argument of a launch; none if there is no room for its stamps.
    pub(super) fn argument(&self, launch: &abi::LaunchParams) -> Option<Argument> {
        let Recorder(inner) = &self.recorder;
        let (blocks, mut state) = (launch.num_blocks.into(), self.recorder.state());
        let room = (inner.memory.len() - state.used) / u64::max(blocks, 1);
        let mut capacity = room.saturating_sub(COUNT) / STAMP;
        if capacity < self.most_executed && state.used > 0 || capacity == 0 {
            state.skipped += 1;
            return None;
        }
        capacity = capacity.min(self.most_executed);
        let at = state.used;
        for block in 0..blocks {
            inner.memory.double(at + COUNT * block).store(0, Relaxed);
        }
        state.used += blocks * (COUNT + STAMP * capacity);
        state.launches.push(Launched { program: Arc::clone(&self.program), blocks, at, capacity });
        Some(Argument { launch: *launch, stamps: inner.memory.device(at), capacity })
    }
}

fn module(device: &Device, dtype: DataType, accumulate: AccumType) -> Result<Module, Error> {
    let unsupported = || Error::UnsupportedAccumulator { dtype, accumulate };
    device.module(&Source::typed("timeline.cu", TIMELINE, dtype, accumulate).ok_or_else(unsupported)?)
}

/// Returns the difference between the clocks: the device's is read between two readings of the host's. `memory` is zero.
fn to_host(device: &Device, clock: &Function, memory: &MappedMemory) -> Result<u64, Error> {
    // Streams of callers may wait for what is prepared.
    let stream = device.priority_stream()?;
    let (word, mut best) = (memory.double(0), (u64::MAX, 0));
    for _ in 0..CLOCK_READINGS {
        word.store(0, Relaxed);
        let before = precise_time();
        // SAFETY: the kernel writes 8 bytes to this address, which the caller does not free after a failure.
        unsafe { clock.launch(&stream, 1, 1, &memory.device(0))? };
        let mut timeout = ActiveTimeout::new(MAX_READING);
        let now = loop {
            match word.load(Relaxed) {
                0 if timeout.is_expired() => {
                    std::mem::forget(stream);
                    return Err(busy().into());
                }
                0 => std::thread::yield_now(),
                now => break now,
            }
        };
        let duration = precise_time() - before;
        best = best.min((duration, (before + duration / 2).wrapping_sub(now)));
    }
    Ok(best.1)
}

fn busy() -> DriverError {
    let text = format!("other work of the device kept a kernel from reading its clock for {MAX_READING:?}");
    DriverError { call: "cuLaunchKernel", code: 600, name: "CUDA_ERROR_NOT_READY".into(), text }
}

/// Returns the maximum number of operations that one of these thread blocks executes in a launch.
fn most_executed(program: &ResolvedPlan, params: &Params, blocks: &[u32]) -> u64 {
    let of = |&number: &u32| {
        let block = &program.agents[number as usize];
        let in_loops = program.loops.iter().filter(|&&at| (block.start..block.end).contains(&at)).map(|&at| {
            let header = &program.instrs[at as usize];
            let trips = params.layout.trips(header.count, params.layout.window(header.unit));
            trips.saturating_mul(header.body.into())
        });
        in_loops.fold(u64::from(block.end - block.start), u64::saturating_add)
    };
    blocks.iter().map(of).max().unwrap_or(0)
}

impl PreparedPlan {
    /// Records the following launches that are not captured, as far as there is room; `recorders`: by device. Recorded launches run the
    /// interpreter, also where there is a specialized kernel.
    ///
    /// # Errors
    /// [`Error::Jit`] if there is no compiler for the kernel; [`Error::NotCoResident`] if it needs more of a multiprocessor than
    /// the usual one; [`Error::Driver`].
    #[doc(hidden)]
    pub fn record(&mut self, recorders: &[Recorder]) -> Result<(), Error> {
        let (program, message) = (&self.context.program, &self.params.message);
        let recording = |(part, recorder): (&DevicePlanState, &Recorder)| {
            let module = module(&part.tables.device, message.dtype, message.accumulate)?;
            let execute = module.function("mscclpp_execute_stamped")?;
            check_co_resident(&self.world, program, part, execute.handle, self.threads)?;
            let most_executed = most_executed(program, &self.params, &part.tables.numbers);
            Ok(Recording { execute, recorder: recorder.clone(), program: Arc::clone(program), most_executed })
        };
        let recordings = self.context.parts.iter().zip(recorders).map(recording).collect::<Result<Vec<_>, Error>>()?;
        for (part, recording) in self.parts.iter_mut().zip(recordings) {
            part.recording = Some(recording);
        }
        Ok(())
    }

    /// Records a timeline of the next launch, and of those after it until [`take_timeline`](Self::take_timeline) for which there is
    /// room.
    ///
    /// # Errors
    /// As [`record`](Self::record), and [`Error::Capturing`].
    #[doc(hidden)]
    pub fn start_timeline(&mut self) -> Result<(), Error> {
        self.world.refuse_in_capture("cannot start a timeline")?;
        self.take_timeline()?;
        let recorder = |part: &DevicePlanState| {
            let each = STAMP.saturating_mul(most_executed(&self.context.program, &self.params, &part.tables.numbers));
            Recorder::new(
                &part.tables.device,
                each.saturating_add(COUNT).saturating_mul(part.tables.numbers.len() as u64),
            )
        };
        let recorders = self.context.parts.iter().map(recorder).collect::<Result<Vec<_>, Error>>()?;
        self.record(&recorders)
    }

    /// Waits for the launches since [`start_timeline`](Self::start_timeline), and returns and ends their timeline; empty without one.
    ///
    /// # Errors
    /// [`Error::Capturing`], [`Error::Driver`].
    #[doc(hidden)]
    pub fn take_timeline(&mut self) -> Result<Timeline, Error> {
        let mut all = Timeline::new(&self.context.program, []);
        if self.parts.iter().any(|part| part.recording.is_some()) {
            self.world.refuse_in_capture("cannot read a timeline")?;
            self.world.drain()?;
        }
        for recording in self.parts.iter_mut().filter_map(|part| part.recording.take()) {
            for timeline in recording.recorder.take().0 {
                all.dropped += timeline.dropped;
                all.events.extend(timeline.events);
            }
        }
        all.events.sort_by_key(|event| (event.rank, event.block, event.begin, event.end));
        Ok(all)
    }
}
