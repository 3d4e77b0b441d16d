//! The simulator as a driver.

use std::collections::BTreeMap;
use std::ffi::{CString, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use mscclpp_exec::cuda::{Driver, DriverError, Handle, Mapped, Properties};

use crate::alloc::Memory;
use crate::launch::{Fault, Kernel, run};
use crate::native;
use crate::options::Options;

type Result<T> = std::result::Result<T, DriverError>;

/// A simulated device. What is put on a stream is done at once.
pub(crate) struct Simulator {
    properties: Properties,
    options: Options,
    state: Mutex<State>,
    /// Held by whoever uses memory: threads of a launch, or the host's proxy.
    memory: Mutex<Memory>,
}

#[derive(Default)]
struct State {
    /// Calls of the function that is to fail.
    calls: u64,
    launches: u64,
    next: usize,
    modules: BTreeMap<usize, CString>,
    /// Kernels, by handle.
    functions: BTreeMap<usize, usize>,
    streams: BTreeMap<usize, Option<Vec<Recorded>>>,
    graphs: BTreeMap<usize, Vec<Recorded>>,
    events: usize,
    /// Whether threads of the host serve the device.
    helped: bool,
}

/// A launch.
#[derive(Clone)]
struct Recorded {
    function: Handle,
    blocks: u32,
    threads: u32,
    argument: Vec<u64>,
}

/// Results of the driver that the simulator gives.
#[derive(Clone, Copy)]
enum Code {
    InvalidValue = 1,
    OutOfMemory = 2,
    NotFound = 500,
    IllegalAddress = 700,
    Unknown = 999,
}

fn error<T>(call: &'static str, code: Code, text: impl Into<String>) -> Result<T> {
    let name = match code {
        Code::InvalidValue => "CUDA_ERROR_INVALID_VALUE",
        Code::OutOfMemory => "CUDA_ERROR_OUT_OF_MEMORY",
        Code::NotFound => "CUDA_ERROR_NOT_FOUND",
        Code::IllegalAddress => "CUDA_ERROR_ILLEGAL_ADDRESS",
        Code::Unknown => "CUDA_ERROR_UNKNOWN",
    };
    Err(DriverError { call, code: code as i32, name: name.into(), text: text.into() })
}

impl Simulator {
    pub(crate) fn new(options: Options) -> Self {
        let properties = Properties {
            name: "simulated device".into(),
            capability: (9, 0),
            multiprocessors: 132,
            memory: 1 << 34,
            driver: 13_000,
            multicast: false,
        };
        Self { properties, options, state: Mutex::default(), memory: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call, and fails if it is that one's turn.
    fn called(&self, call: &'static str) -> Result<()> {
        let Some((_, nth)) = self.options.failing.filter(|(name, _)| *name == call) else { return Ok(()) };
        let mut state = self.state();
        state.calls += 1;
        if state.calls == nth { error(call, Code::Unknown, "made to fail") } else { Ok(()) }
    }

    fn handle(&self) -> Handle {
        let mut state = self.state();
        state.next += 1;
        Handle(state.next)
    }

    fn check(&self, call: &'static str, address: u64, bytes: u64) -> Result<()> {
        if bytes == 0 || self.memory().holds(address, bytes) {
            return Ok(());
        }
        error(call, Code::InvalidValue, format!("{bytes} bytes at {address:#x} were not allocated"))
    }

    fn run(&self, launch: &Recorded) -> Result<()> {
        let (kernel, seed) = {
            let mut state = self.state();
            state.launches += 1;
            (state.functions.get(&launch.function.0).copied(), self.options.seed.wrapping_add(state.launches << 20))
        };
        let Some(kernel) = kernel else { return error("cuLaunchKernel", Code::NotFound, "no such kernel") };
        if let Some(threaded) = self.options.threaded {
            let threads = launch.threads.min(self.options.threads);
            // SAFETY: the promise of whoever put it on the stream.
            unsafe { threaded.run(kernel as *const c_void, launch.blocks, threads, &launch.argument) };
            return Ok(());
        }
        let mut held = Some(self.memory());
        let pieces = held.as_ref().map(|memory| memory.pieces()).unwrap_or_default();
        let kernel = Kernel {
            kernel: kernel as *const c_void,
            blocks: launch.blocks,
            threads: launch.threads.min(self.options.threads),
            argument: &launch.argument,
            pieces: &pieces,
        };
        // The host's proxy gets its turn while the threads wait.
        let helped = self.state().helped;
        let between = || {
            if helped {
                held = None;
                std::thread::yield_now();
                held = Some(self.memory());
            }
            helped
        };
        run(&kernel, self.options, seed, between).or_else(|Fault { address, bytes, write, block, thread }| {
            let what = if write { "written" } else { "read" };
            let text =
                format!("{bytes} bytes at {address:#x} {what} by thread {thread} of block {block} were not allocated");
            error("cuLaunchKernel", Code::IllegalAddress, text)
        })
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let pieces = self.memory().len();
        let state = self.state();
        let left = [pieces, state.modules.len(), state.streams.len(), state.graphs.len(), state.events];
        // A release that was made to fail leaves its piece behind; so does one whose context could not be entered.
        let is_release = |call: &str| ["Free", "Unload", "Destroy", "Ctx"].iter().any(|word| call.contains(word));
        let stays = usize::from(self.options.failing.is_some_and(|(call, _)| is_release(call)));
        assert!(
            left.iter().sum::<usize>() <= stays,
            "memory, modules, streams, graphs and events left behind: {left:?}"
        );
    }
}

// SAFETY: memory comes from the host's allocator, one piece for each call, aligned to 256 bytes, and zeroed where it is mapped.
unsafe impl Driver for Simulator {
    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn alloc(&self, bytes: u64) -> Result<u64> {
        self.called("cuMemAlloc")?;
        let address = if bytes > self.properties.memory { None } else { self.memory().alloc(bytes, false) };
        address.map_or_else(|| error("cuMemAlloc", Code::OutOfMemory, format!("{bytes} bytes")), Ok)
    }

    fn free(&self, address: u64) -> Result<()> {
        self.called("cuMemFree")?;
        if self.memory().free(address) { Ok(()) } else { error("cuMemFree", Code::InvalidValue, "not allocated") }
    }

    fn alloc_mapped(&self, bytes: u64) -> Result<Mapped> {
        self.called("cuMemHostAlloc")?;
        let address = self.memory().alloc(bytes, true);
        address.map_or_else(
            || error("cuMemHostAlloc", Code::OutOfMemory, format!("{bytes} bytes")),
            |address| Ok(Mapped { host: address as usize, device: address }),
        )
    }

    fn free_mapped(&self, mapped: Mapped) -> Result<()> {
        self.called("cuMemFreeHost")?;
        if self.memory().free(mapped.device) {
            return Ok(());
        }
        error("cuMemFreeHost", Code::InvalidValue, "not allocated")
    }

    fn zero(&self, address: u64, bytes: u64) -> Result<()> {
        self.called("cuMemsetD8")?;
        self.check("cuMemsetD8", address, bytes)?;
        let _held = self.memory();
        // SAFETY: allocated, as just checked.
        unsafe { (address as *mut u8).write_bytes(0, bytes as usize) };
        Ok(())
    }

    fn upload(&self, to: u64, from: &[u8]) -> Result<()> {
        self.called("cuMemcpyHtoD")?;
        self.check("cuMemcpyHtoD", to, from.len() as u64)?;
        let _held = self.memory();
        // SAFETY: allocated, as just checked, and apart from a slice that the caller holds.
        unsafe { (to as *mut u8).copy_from_nonoverlapping(from.as_ptr(), from.len()) };
        Ok(())
    }

    fn download(&self, to: &mut [u8], from: u64) -> Result<()> {
        self.called("cuMemcpyDtoH")?;
        self.check("cuMemcpyDtoH", from, to.len() as u64)?;
        let _held = self.memory();
        // SAFETY: as in `upload`.
        unsafe { to.as_mut_ptr().copy_from_nonoverlapping(from as *const u8, to.len()) };
        Ok(())
    }

    fn copy(&self, to: u64, from: u64, bytes: u64, _: Handle) -> Result<()> {
        self.called("cuMemcpyDtoDAsync")?;
        self.check("cuMemcpyDtoDAsync", to, bytes)?;
        self.check("cuMemcpyDtoDAsync", from, bytes)?;
        let _held = self.memory();
        // SAFETY: allocated, as just checked.
        unsafe { (to as *mut u8).copy_from(from as *const u8, bytes as usize) };
        Ok(())
    }

    fn zero_on(&self, address: u64, bytes: u64, _: Handle) -> Result<()> {
        self.called("cuMemsetD8Async")?;
        self.check("cuMemsetD8Async", address, bytes)?;
        let _held = self.memory();
        // SAFETY: allocated, as just checked.
        unsafe { (address as *mut u8).write_bytes(0, bytes as usize) };
        Ok(())
    }

    fn load(&self, name: &str, _: &[u8]) -> Result<Handle> {
        self.called("cuModuleLoadData")?;
        let handle = self.handle();
        let name = self.options.bug.map_or(name.to_owned(), |bug| format!("{name}_with_{bug}"));
        self.state().modules.insert(handle.0, CString::new(name).unwrap_or_default());
        Ok(handle)
    }

    fn function(&self, module: Handle, name: &str) -> Result<Handle> {
        self.called("cuModuleGetFunction")?;
        let handle = self.handle();
        let mut state = self.state();
        let kernel = state.modules.get(&module.0).map_or(std::ptr::null(), |module| {
            let name = CString::new(name).unwrap_or_default();
            if let Some(threaded) = self.options.threaded {
                return threaded.find(module, &name);
            }
            // SAFETY: two texts that end with a zero.
            unsafe { native::sim_find(module.as_ptr(), name.as_ptr()).cast() }
        });
        if kernel.is_null() {
            return error("cuModuleGetFunction", Code::NotFound, name);
        }
        state.functions.insert(handle.0, kernel as usize);
        Ok(handle)
    }

    fn unload(&self, module: Handle) -> Result<()> {
        self.called("cuModuleUnload")?;
        self.state().modules.remove(&module.0);
        Ok(())
    }

    fn blocks_per_multiprocessor(&self, _: Handle, threads: u32) -> Result<u32> {
        self.called("cuOccupancyMaxActiveBlocksPerMultiprocessor")?;
        Ok(1024 / threads.clamp(1, 1024))
    }

    unsafe fn launch(
        &self,
        function: Handle,
        blocks: u32,
        threads: u32,
        stream: Handle,
        argument: &[u8],
    ) -> Result<()> {
        self.called("cuLaunchKernel")?;
        let words = argument.chunks(8).map(|word| {
            let mut bytes = [0; 8];
            bytes[..word.len()].copy_from_slice(word);
            u64::from_le_bytes(bytes)
        });
        let launch = Recorded { function, blocks, threads, argument: words.collect() };
        if let Some(Some(recorded)) = self.state().streams.get_mut(&stream.0) {
            recorded.push(launch);
            return Ok(());
        }
        self.run(&launch)
    }

    fn create_stream(&self) -> Result<Handle> {
        self.called("cuStreamCreate")?;
        let handle = self.handle();
        self.state().streams.insert(handle.0, None);
        Ok(handle)
    }

    fn destroy_stream(&self, stream: Handle) -> Result<()> {
        self.called("cuStreamDestroy")?;
        self.state().streams.remove(&stream.0);
        Ok(())
    }

    fn synchronize(&self, _: Handle) -> Result<()> {
        self.called("cuStreamSynchronize")
    }

    fn is_capturing(&self, stream: Handle) -> Result<bool> {
        self.called("cuStreamIsCapturing")?;
        Ok(self.state().streams.get(&stream.0).is_some_and(Option::is_some))
    }

    fn begin_capture(&self, stream: Handle) -> Result<()> {
        self.called("cuStreamBeginCapture")?;
        self.state().streams.insert(stream.0, Some(Vec::new()));
        Ok(())
    }

    fn end_capture(&self, stream: Handle) -> Result<Handle> {
        let recorded = self.state().streams.insert(stream.0, None).flatten().unwrap_or_default();
        self.called("cuStreamEndCapture")?;
        let handle = self.handle();
        self.state().graphs.insert(handle.0, recorded);
        Ok(handle)
    }

    fn launch_graph(&self, graph: Handle, _: Handle) -> Result<()> {
        self.called("cuGraphLaunch")?;
        let Some(launches) = self.state().graphs.get(&graph.0).cloned() else {
            return error("cuGraphLaunch", Code::InvalidValue, "no such graph");
        };
        launches.iter().try_for_each(|launch| self.run(launch))
    }

    fn destroy_graph(&self, graph: Handle) -> Result<()> {
        self.called("cuGraphExecDestroy")?;
        self.state().graphs.remove(&graph.0);
        Ok(())
    }

    fn create_event(&self) -> Result<Handle> {
        self.called("cuEventCreate")?;
        self.state().events += 1;
        Ok(self.handle())
    }

    fn record(&self, _: Handle, _: Handle) -> Result<()> {
        self.called("cuEventRecord")
    }

    fn wait_event(&self, _: Handle, _: Handle) -> Result<()> {
        self.called("cuStreamWaitEvent")
    }

    fn write_value(&self, address: u64, value: u64, _: Handle) -> Result<()> {
        self.called("cuStreamWriteValue64")?;
        self.check("cuStreamWriteValue64", address, 8)?;
        // SAFETY: allocated, as just checked; counters are aligned.
        unsafe { &*(address as *const std::sync::atomic::AtomicU64) }
            .store(value, std::sync::atomic::Ordering::Release);
        Ok(())
    }

    fn is_done(&self, _: Handle) -> Result<bool> {
        self.called("cuEventQuery")?;
        Ok(true)
    }

    fn elapsed_us(&self, _: Handle, _: Handle) -> Result<f64> {
        self.called("cuEventElapsedTime")?;
        Ok(0.0)
    }

    fn destroy_event(&self, _: Handle) -> Result<()> {
        self.called("cuEventDestroy")?;
        self.state().events -= 1;
        Ok(())
    }

    fn enter_helper_thread(&self) -> Result<()> {
        self.state().helped = true;
        self.called("cuThreadExchangeStreamCaptureMode")
    }
}
