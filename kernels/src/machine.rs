//! What the devices of a simulated machine share: memory, streams, and the kernels that run at once.
//!
//! With one device, what is put on a stream is done at once. With several, kernels wait for one another, so they run when
//! somebody waits for a stream: all that have been put on any, each stream in its order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::{CString, c_void};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use mscclpp_exec::cuda::{DriverError, Handle};

use crate::alloc::Memory;
use crate::launch::{self, Fault, Finished, Kernel, Turn};
use crate::multicast::Multicast;
use crate::options::Options;
use crate::plugin::Plugin;
use crate::threaded::Threaded;

pub(crate) type Result<T> = std::result::Result<T, DriverError>;

/// Devices that share a host.
pub(crate) struct Machine {
    /// No other machine, of any process, has the same.
    pub(crate) id: u64,
    pub(crate) options: Options,
    devices: u32,
    state: Mutex<State>,
    /// Held by whoever uses memory: threads of kernels, or the host.
    memory: Mutex<Memory>,
    /// Kernels have finished.
    finished: Condvar,
}

#[derive(Default)]
pub(crate) struct State {
    /// Calls of the function that is to fail.
    calls: u64,
    /// Whether all calls fail.
    dead: bool,
    runs: u64,
    /// How often it was looked what can be done.
    turns: u64,
    next: usize,
    pub(crate) modules: BTreeMap<usize, Module>,
    /// Kernels, by handle.
    pub(crate) functions: BTreeMap<usize, usize>,
    pub(crate) streams: BTreeMap<usize, Queue>,
    pub(crate) graphs: BTreeMap<usize, Vec<Launch>>,
    pub(crate) events: BTreeMap<usize, Event>,
    pub(crate) multicasts: BTreeMap<usize, Arc<Multicast>>,
    /// Whether threads of the host serve devices.
    pub(crate) helped: bool,
    /// Which device reaches the memory of which.
    pub(crate) access: BTreeSet<(u32, u32)>,
    /// Whether somebody runs kernels.
    running: bool,
}

/// Kernels: built with this crate, by their module's name, or loaded.
pub(crate) enum Module {
    Built(CString),
    Loaded(Plugin),
}

/// A stream.
#[derive(Default)]
pub(crate) struct Queue {
    pub(crate) device: u32,
    pub(crate) recording: Option<Recording>,
    pub(crate) work: VecDeque<Work>,
    /// Whether its first work, a kernel, runs.
    pub(crate) runs: bool,
    pub(crate) failed: Option<DriverError>,
}

/// An event; one that was destroyed is forgotten when nothing is left to do.
#[derive(Clone, Copy, Default)]
pub(crate) struct Event {
    pub(crate) destroyed: bool,
    recorded: u64,
    done: u64,
}

impl Event {
    pub(crate) fn is_done(self) -> bool {
        self.done >= self.recorded
    }
}

/// A graph as it is recorded.
pub(crate) struct Recording {
    pub(crate) launches: Vec<Launch>,
    /// Who has begun it: some calls of that thread spoil it.
    thread: ThreadId,
    spoilt: bool,
}

impl Recording {
    pub(crate) fn begin() -> Self {
        Self { launches: Vec::new(), thread: thread::current().id(), spoilt: false }
    }

    pub(crate) fn end(self) -> Result<Vec<Launch>> {
        match self.spoilt {
            true => error("cuStreamEndCapture", Code::CaptureInvalidated, "an earlier call has spoilt the capture"),
            false => Ok(self.launches),
        }
    }
}

/// Calls that the driver refuses a thread that captures a stream: they need the host, or the device to be idle.
const NOT_IN_CAPTURES: [&str; 9] = [
    "cuCtxSynchronize",
    "cuMemAlloc",
    "cuMemCreate",
    "cuMemFree",
    "cuMemFreeHost",
    "cuMemHostAlloc",
    "cuMemcpyDtoH",
    "cuMemcpyHtoD",
    "cuMemsetD8",
];

/// A launch of a kernel.
#[derive(Clone)]
pub(crate) struct Launch {
    pub(crate) function: Handle,
    pub(crate) blocks: u32,
    pub(crate) threads: u32,
    pub(crate) argument: Vec<u64>,
}

/// What can be put on a stream.
pub(crate) enum Work {
    Launch(Launch),
    /// An event, and its how-manieth record.
    Record(usize, u64),
    Wait(usize, u64),
    Copy {
        to: u64,
        from: u64,
        bytes: u64,
    },
    Zero {
        to: u64,
        bytes: u64,
    },
    Store {
        to: u64,
        value: u64,
    },
}

/// Results of the driver that the simulator gives.
#[derive(Clone, Copy)]
pub(crate) enum Code {
    InvalidValue = 1,
    OutOfMemory = 2,
    InvalidContext = 201,
    NoBinary = 209,
    InvalidHandle = 400,
    NotFound = 500,
    CaptureUnsupported = 900,
    CaptureInvalidated = 901,
    IllegalAddress = 700,
    LaunchTimeout = 702,
    Unknown = 999,
}

pub(crate) fn error<T>(call: &'static str, code: Code, text: impl Into<String>) -> Result<T> {
    let name = match code {
        Code::InvalidValue => "CUDA_ERROR_INVALID_VALUE",
        Code::OutOfMemory => "CUDA_ERROR_OUT_OF_MEMORY",
        Code::InvalidContext => "CUDA_ERROR_INVALID_CONTEXT",
        Code::NoBinary => "CUDA_ERROR_NO_BINARY_FOR_GPU",
        Code::InvalidHandle => "CUDA_ERROR_INVALID_HANDLE",
        Code::NotFound => "CUDA_ERROR_NOT_FOUND",
        Code::LaunchTimeout => "CUDA_ERROR_LAUNCH_TIMEOUT",
        Code::CaptureUnsupported => "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
        Code::CaptureInvalidated => "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
        Code::IllegalAddress => "CUDA_ERROR_ILLEGAL_ADDRESS",
        Code::Unknown => "CUDA_ERROR_UNKNOWN",
    };
    Err(DriverError { call, code: code as i32, name: name.into(), text: text.into() })
}

impl State {
    /// Refuses an event that is not there.
    pub(crate) fn check_event(&self, call: &'static str, event: Handle) -> Result<()> {
        match self.events.get(&event.0) {
            Some(event) if !event.destroyed => Ok(()),
            _ => error(call, Code::InvalidHandle, "no such event"),
        }
    }
}

impl Machine {
    pub(crate) fn new(options: Options, devices: u32) -> Self {
        let (state, memory, finished) = (Mutex::default(), Mutex::default(), Condvar::new());
        static COUNT: AtomicU64 = AtomicU64::new(1);
        let id = u64::from(std::process::id()) << 32 | COUNT.fetch_add(1, Relaxed);
        Self { id, options, devices, state, memory, finished }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call, and fails if it is that one's turn, or if it spoils a capture.
    pub(crate) fn called(&self, call: &'static str) -> Result<()> {
        if NOT_IN_CAPTURES.contains(&call) {
            let own = thread::current().id();
            self.spoil(call, |_, recording| recording.thread == own)?;
        }
        let Some((name, nth)) = self.options.failing else { return Ok(()) };
        let mut state = self.state();
        if state.dead {
            return error(call, Code::IllegalAddress, "made to fail, as all calls after the first that was");
        }
        if name != call {
            return Ok(());
        }
        state.calls += 1;
        if state.calls != nth {
            return Ok(());
        }
        state.dead = self.options.sticky;
        error(call, if state.dead { Code::IllegalAddress } else { Code::Unknown }, "made to fail")
    }

    /// Refuses a call because of captures, which are spoilt.
    pub(crate) fn spoil(&self, call: &'static str, of: impl Fn(usize, &Recording) -> bool) -> Result<()> {
        let mut state = self.state();
        let recordings =
            state.streams.iter_mut().filter_map(|(&handle, queue)| Some((handle, queue.recording.as_mut()?)));
        let spoilt = recordings.filter(|(handle, recording)| of(*handle, recording));
        let count = spoilt.map(|(_, recording)| recording.spoilt = true).count();
        match count {
            0 => Ok(()),
            _ => error(call, Code::CaptureUnsupported, "operation not permitted when stream is capturing"),
        }
    }

    pub(crate) fn handle(&self) -> Handle {
        let mut state = self.state();
        state.next += 1;
        Handle(state.next)
    }

    pub(crate) fn check(&self, call: &'static str, address: u64, bytes: u64) -> Result<()> {
        if bytes == 0 || self.memory().holds(address, bytes) {
            return Ok(());
        }
        error(call, Code::InvalidValue, format!("{bytes} bytes at {address:#x} were not allocated"))
    }

    /// Puts work on a stream. Of what is done at once, a failure is this call's.
    pub(crate) fn put(&self, call: &'static str, stream: Handle, work: Work) -> Result<()> {
        let is_launch = matches!(work, Work::Launch(_));
        if self.options.bug == Some("early_stores") && matches!(work, Work::Store { .. }) {
            return store(&self.memory(), &work);
        }
        {
            let mut state = self.state();
            let Some(queue) = state.streams.get_mut(&stream.0) else {
                return error(call, Code::InvalidValue, "no such stream");
            };
            queue.work.push_back(work);
            let is_later = if is_launch { self.devices > 1 } else { self.options.late };
            if queue.work.len() > 1 || is_later {
                return Ok(());
            }
        }
        if is_launch {
            return self.wait(call, |_, handle| handle == stream.0);
        }
        let memory = self.memory();
        self.perform(&memory, &mut self.state());
        Ok(())
    }

    /// An event's record, put on a stream.
    pub(crate) fn record(&self, event: Handle, stream: Handle) -> Result<()> {
        let recorded = {
            let mut state = self.state();
            let event = state.events.entry(event.0).or_default();
            event.recorded += 1;
            event.recorded
        };
        self.put("cuEventRecord", stream, Work::Record(event.0, recorded))
    }

    /// A wait for the last record of an event.
    pub(crate) fn wait_event(&self, stream: Handle, event: Handle) -> Result<()> {
        let recorded = self.state().events.get(&event.0).map_or(0, |event| event.recorded);
        self.put("cuStreamWaitEvent", stream, Work::Wait(event.0, recorded))
    }

    /// Forgets an event: at once, or when nothing is left to do that may wait for it.
    pub(crate) fn destroy_event(&self, event: Handle) -> Result<()> {
        let mut state = self.state();
        state.check_event("cuEventDestroy", event)?;
        if state.streams.values().all(|queue| queue.work.is_empty()) {
            state.events.remove(&event.0);
        } else if let Some(event) = state.events.get_mut(&event.0) {
            event.destroyed = true;
        }
        Ok(())
    }

    /// Waits until some streams have nothing left, and says whether it went well. Kernels run meanwhile, all of them.
    pub(crate) fn wait(&self, call: &'static str, of: impl Fn(&Queue, usize) -> bool) -> Result<()> {
        loop {
            let mut state = self.state();
            if state.dead {
                return error(call, Code::IllegalAddress, "nothing is done any more");
            }
            let mut queues = state.streams.iter_mut().filter(|(handle, queue)| of(queue, **handle));
            if queues.all(|(_, queue)| queue.work.is_empty()) {
                let mut queues = state.streams.iter_mut().filter(|(handle, queue)| of(queue, **handle));
                let failed = queues.find_map(|(_, queue)| queue.failed.take());
                return failed.map_or(Ok(()), |error| Err(DriverError { call, ..error }));
            }
            if state.running {
                // Somebody else runs them.
                drop(self.finished.wait(state).unwrap_or_else(PoisonError::into_inner));
                continue;
            }
            state.running = true;
            state.runs += 1;
            let seed = self.options.seed.wrapping_add(state.runs << 20);
            drop(state);
            self.run(seed);
            let mut state = self.state();
            state.running = false;
            if state.streams.values().all(|queue| queue.work.is_empty()) {
                state.events.retain(|_, event| !event.destroyed);
            }
            self.finished.notify_all();
            let stays = state.streams.iter().any(|(handle, queue)| of(queue, *handle) && !queue.work.is_empty());
            // A wait for an event that nobody records would never end.
            if stays && !self.options.others && !self.options.late {
                return error(call, Code::Unknown, "a stream waits for what is on no other one");
            }
        }
    }

    /// Runs kernels until there are none that can begin.
    fn run(&self, seed: u64) {
        if let Some(threaded) = self.options.threaded {
            return self.run_threaded(threaded);
        }
        let mut held = Some(self.memory());
        let mut version = None;
        launch::run(self.options, seed, |finished| {
            if finished.is_empty() && version.is_some() {
                // The host has its turn.
                held = None;
                std::thread::yield_now();
                held = Some(self.memory());
            }
            let Some(memory) = held.as_deref() else {
                return Turn { more: Vec::new(), may_help: false, reach: None };
            };
            let mut state = self.state();
            for finished in finished {
                state.finish(finished);
                self.finished.notify_all();
            }
            self.perform(memory, &mut state);
            let more = self.startable(memory, &mut state);
            let now = Some((memory.version, state.access.len()));
            let reach = (version != now)
                .then(|| (0..self.devices).map(|device| reach(memory, &state.access, device)).collect());
            version = now;
            Turn { more, may_help: state.helped || self.options.others, reach }
        });
    }

    /// The same one by one, with threads of the operating system.
    fn run_threaded(&self, threaded: Threaded) {
        loop {
            let kernels = {
                let memory = self.memory();
                let mut state = self.state();
                self.perform(&memory, &mut state);
                self.startable(&memory, &mut state)
            };
            if kernels.is_empty() {
                return;
            }
            for Kernel { kernel, blocks, threads, argument, stream, .. } in kernels {
                // SAFETY: the promise of whoever put it on the stream.
                unsafe { threaded.run(kernel, blocks, threads, &argument) };
                self.state().finish((stream, Ok(())));
            }
        }
    }

    /// Whether an event is done. What is done late gets on with kernels, or, if none runs, by being asked for.
    pub(crate) fn is_done(&self, event: Handle) -> bool {
        if self.options.late && !self.state().running {
            let memory = self.memory();
            self.perform(&memory, &mut self.state());
        }
        let is_early = self.options.bug == Some("early_events");
        is_early || self.state().events.get(&event.0).is_none_or(|event| event.is_done())
    }

    /// Does what comes first on any stream and is no kernel; of what is done late, now and then one on each.
    fn perform(&self, memory: &Memory, state: &mut State) {
        state.turns += 1;
        let now = |stream: usize| {
            let mixed =
                (self.options.seed ^ state.turns).wrapping_add(stream as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            !self.options.late || mixed >> 62 == 0
        };
        let streams_now: BTreeSet<usize> = state.streams.keys().copied().filter(|&stream| now(stream)).collect();
        let State { streams, events, .. } = state;
        let mut goes_on = true;
        while std::mem::take(&mut goes_on) {
            for (_, queue) in streams.iter_mut().filter(|(stream, _)| streams_now.contains(stream)) {
                while let Some(first) = queue.work.front() {
                    match *first {
                        Work::Launch(_) => break,
                        Work::Wait(event, recorded) => {
                            if events.get(&event).is_some_and(|event| event.done < recorded) {
                                break;
                            }
                        }
                        Work::Record(event, recorded) => {
                            let event = events.entry(event).or_default();
                            event.done = event.done.max(recorded);
                            goes_on = true;
                        }
                        ref other => {
                            if let Err(error) = store(memory, other) {
                                queue.failed.get_or_insert(error);
                            }
                        }
                    }
                    queue.work.pop_front();
                    if self.options.late {
                        break;
                    }
                }
            }
            goes_on &= !self.options.late;
        }
    }

    /// The kernels that come first on their streams.
    fn startable(&self, memory: &Memory, state: &mut State) -> Vec<Kernel> {
        let mut kernels = Vec::new();
        let State { streams, functions, access, .. } = state;
        for (&stream, queue) in streams.iter_mut().filter(|(_, queue)| !queue.runs) {
            let Some(Work::Launch(launch)) = queue.work.front() else { continue };
            let Some(&kernel) = functions.get(&launch.function.0) else {
                let error = error::<()>("cuLaunchKernel", Code::NotFound, "no such kernel");
                queue.failed = error.err();
                queue.work.pop_front();
                continue;
            };
            kernels.push(Kernel {
                kernel: kernel as *const c_void,
                blocks: launch.blocks,
                threads: launch.threads.min(self.options.threads),
                argument: launch.argument.clone(),
                reach: reach(memory, access, queue.device),
                device: queue.device,
                stream,
            });
            queue.runs = true;
        }
        kernels
    }
}

/// Copies and stores.
fn store(memory: &Memory, work: &Work) -> Result<()> {
    let check = |call, address, bytes| {
        if bytes == 0 || memory.holds(address, bytes) {
            return Ok(());
        }
        error(call, Code::IllegalAddress, format!("{bytes} bytes at {address:#x} are no longer allocated"))
    };
    match *work {
        Work::Copy { to, from, bytes } => {
            check("cuMemcpyAsync", to, bytes)?;
            check("cuMemcpyAsync", from, bytes)?;
            // SAFETY: allocated, as just checked.
            unsafe { (to as *mut u8).copy_from(from as *const u8, bytes as usize) };
        }
        Work::Zero { to, bytes } => {
            check("cuMemsetD8Async", to, bytes)?;
            // SAFETY: allocated, as just checked.
            unsafe { (to as *mut u8).write_bytes(0, bytes as usize) };
        }
        Work::Store { to, value } => {
            check("cuStreamWriteValue64", to, 8)?;
            // SAFETY: allocated, as just checked; counters are aligned.
            unsafe { &*(to as *const std::sync::atomic::AtomicU64) }.store(value, std::sync::atomic::Ordering::Release);
        }
        Work::Launch(_) | Work::Record(..) | Work::Wait(..) => {}
    }
    Ok(())
}

impl State {
    fn finish(&mut self, (stream, result): Finished) {
        let Some(queue) = self.streams.get_mut(&stream) else { return };
        queue.runs = false;
        queue.work.pop_front();
        if let Err(fault) = result {
            let code = match fault {
                Fault::Access { .. } => Code::IllegalAddress,
                Fault::Endless { .. } => Code::LaunchTimeout,
            };
            let error = error::<()>("cuLaunchKernel", code, fault.to_string()).err();
            queue.failed = queue.failed.take().or(error);
        }
    }
}

/// What memory a device reaches.
fn reach(memory: &Memory, access: &BTreeSet<(u32, u32)>, device: u32) -> launch::Reach {
    memory.reach(device, |of| access.contains(&(device, of)))
}

impl Drop for Machine {
    fn drop(&mut self) {
        if std::thread::panicking() || self.state().dead {
            return;
        }
        let pieces = self.memory().len();
        let state = self.state();
        let events = state.events.values().filter(|event| !event.destroyed).count();
        let (modules, streams) = (state.modules.len(), state.streams.len());
        let left = [pieces, modules, streams, state.graphs.len(), events, state.multicasts.len()];
        // A release that was made to fail leaves its piece behind; so does one whose context could not be entered.
        let is_release = |call: &str| {
            ["Free", "Unload", "Destroy", "Close", "Ctx", "Unmap", "Release"].iter().any(|word| call.contains(word))
        };
        let stays = match self.options.failing {
            // And with multicast addresses the memory of another process behind them.
            Some(("cuMemUnmap", _)) => 2,
            failing => usize::from(failing.is_some_and(|(call, _)| is_release(call))),
        };
        assert!(
            left.iter().sum::<usize>() <= stays,
            "memory, modules, streams, graphs, events and multicast objects left behind: {left:?}"
        );
    }
}
