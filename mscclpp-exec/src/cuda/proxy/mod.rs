//! The proxy of port channels: a thread that takes triggers from the device's queues and enqueues their copies and
//! signals on its own stream, in their order.
//!
//! A driver distributes streams among a limited number of hardware queues, each of which executes work in the order in which
//! it was enqueued. A copy in the queue of the kernel that waits for it would never begin. So the streams of copies have
//! the highest priority, and those of callers usually have another one. That streams of different priorities never share a
//! hardware queue is not documented, and has not been seen on a device; `CUDA_DEVICE_MAX_CONNECTIONS` raises the number of
//! queues.

mod failure;
mod queue;
mod serve;

use std::collections::{BTreeMap, VecDeque};
use std::net::TcpStream;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

pub(super) use self::failure::Failure;
use self::queue::Queue;
use super::nodes::{NodeConnections, Put};
use mscclpp_base::error::Error;
use mscclpp_bootstrap::StreamKeys;
use mscclpp_core::threads;
use mscclpp_cuda::abi;
use mscclpp_cuda::device::Device;
use mscclpp_cuda::driver::calls::Priority;
use mscclpp_cuda::driver::{self, CaptureMode, Handle, SharedDriver};
use mscclpp_cuda::event_pool::EventPool;
use mscclpp_cuda::memory::{DeviceMemory, MappedMemory};

/// The queues of a plan's ranks on a device and the thread that serves them.
pub(super) struct Proxies {
    table: DeviceMemory,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    driver: SharedDriver,
    stream: Handle,
    /// Number of triggers that the device has pushed, a 64-bit word for each queue.
    heads: DeviceMemory,
    queues: Vec<Queue>,
    stop: AtomicBool,
    /// Whether a launch was enqueued on a stream since the thread last checked.
    called: AtomicBool,
    /// Number of launches that were announced, and of those that `end` follows.
    announced: AtomicU64,
    enqueued: AtomicU64,
    /// An event after the last launch.
    end: Handle,
    /// Whether there may be launches of which no call of [`Proxies::wake`] tells: those of graphs, and of kernels of users.
    has_unannounced_launches: AtomicBool,
    /// Word 0 requests the device to abort, word 1 reports that it has.
    flags: Arc<MappedMemory>,
    /// Lock that is held while triggers are served.
    state: Mutex<State>,
}

/// State of the thread.
struct State {
    /// Per queue: number of positions that were taken.
    taken: Vec<u64>,
    /// Per queue: the rest of the trigger at the last position.
    rests: Vec<Option<Rest>>,
    /// Signals sent to each counter.
    sent: BTreeMap<u64, u64>,
    /// Events of batches.
    events: EventPool,
    /// Batches: an event, and the positions that are complete when the event is.
    pending: VecDeque<(Handle, Vec<u64>)>,
    /// Batches that were begun, and that are complete.
    begun: u64,
    done: u64,
    /// Connections to ranks on other nodes.
    wires: Option<NodeConnections>,
    /// The first failure.
    failed: Option<Failure>,
}

/// The rest of a trigger: a copy to another node, then a signal if that is not 0.
struct Rest {
    put: Option<Put>,
    signal: u64,
}

impl Proxies {
    /// Creates the queues and starts the thread. `count`: ranks of the device that have a queue; `flags`: word 0 is set
    /// when a call fails, so that no launch waits for a signal that never arrives; `wires`: connections to ranks on
    /// other nodes.
    pub(super) fn new(
        device: &Device,
        count: usize,
        flags: &Arc<MappedMemory>,
        wires: Option<NodeConnections>,
    ) -> Result<Self, Error> {
        let driver = device.driver().clone();
        let heads = DeviceMemory::zeroed(&driver, 8 * count as u64)?;
        let queues = (0..count).map(|_| Queue::new(&driver)).collect::<driver::Result<Vec<_>>>()?;
        let table: Vec<_> =
            (0_u64..).zip(&queues).map(|(number, queue)| queue.of_device(heads.address() + 8 * number)).collect();
        let table = DeviceMemory::holding(&driver, &table)?;
        let stream = driver.create_priority_stream(Priority::Highest)?;
        let state = Mutex::new(State {
            events: EventPool::new(&driver),
            taken: vec![0; count],
            rests: (0..count).map(|_| None).collect(),
            sent: BTreeMap::new(),
            pending: VecDeque::new(),
            begun: 0,
            done: 0,
            wires,
            failed: None,
        });
        let end = driver.create_untimed_event().inspect_err(|_| {
            // The first error counts.
            let _ = driver.destroy_stream(stream);
        })?;
        let shared = Arc::new(Shared {
            end,
            driver,
            stream,
            heads,
            queues,
            stop: AtomicBool::new(false),
            called: AtomicBool::new(false),
            announced: AtomicU64::new(0),
            enqueued: AtomicU64::new(0),
            has_unannounced_launches: AtomicBool::new(false),
            flags: Arc::clone(flags),
            state,
        });
        let mut proxies = Self { table, shared: Arc::clone(&shared), thread: None };
        shared.warm_up()?;
        let (ready, is_ready) = std::sync::mpsc::channel();
        let thread = threads::named("mscclpp-proxy").spawn(move || {
            let entered = shared.driver.exchange_capture_mode(CaptureMode::Relaxed).map(drop);
            let serves = entered.is_ok();
            if ready.send(entered).is_ok() && serves {
                shared.serve();
            }
        });
        proxies.thread = Some(thread.map_err(|error| Error::SpawnThread(error.to_string()))?);
        match is_ready.recv() {
            Ok(entered) => entered?,
            Err(_) => return Err(Error::SpawnThread("the proxy exited immediately".into())),
        }
        Ok(proxies)
    }

    /// Returns the device's address of its queues.
    pub(super) fn table(&self) -> u64 {
        self.table.address()
    }

    /// Wakes the thread, because a launch is about to be enqueued. Launches are announced and enqueued one after the other.
    pub(super) fn wake(&self) {
        self.shared.announced.fetch_add(1, Release);
        if !self.shared.called.swap(true, Relaxed)
            && let Some(thread) = &self.thread
        {
            thread.thread().unpark();
        }
    }

    /// Records that the launches so far are enqueued, of which the last one is the last work on a stream. Until then, and if
    /// the driver fails, the thread does not sleep without a time limit.
    pub(super) fn follow_launch(&self, stream: Handle) {
        let shared = &self.shared;
        if shared.driver.record(shared.end, stream).is_ok() {
            shared.enqueued.store(shared.announced.load(Relaxed), Release);
        }
    }

    /// Records that launches may begin without a call of [`wake`](Self::wake).
    pub(super) fn expect_unannounced_launches(&self) {
        self.shared.has_unannounced_launches.store(true, Relaxed);
    }

    /// Returns the ranks on other nodes that are not connected yet, ascending.
    pub(super) fn unconnected(&self) -> Vec<u32> {
        self.shared.lock().wires.as_ref().map_or_else(Vec::new, NodeConnections::unconnected)
    }

    /// Sets the connection to a rank on another node.
    ///
    /// # Errors
    /// [`Error::System`].
    pub(super) fn connect(&self, peer: u32, stream: (TcpStream, Option<StreamKeys>)) -> Result<(), Error> {
        self.shared.lock().wires.as_mut().map_or(Ok(()), |wires| wires.connect(peer, stream))
    }

    /// Returns the failure of the thread, if there is one.
    pub(super) fn failure(&self) -> Option<Failure> {
        self.shared.lock().failed.clone()
    }

    /// Informs ranks on other nodes that this rank aborts.
    pub(super) fn abort(&self) {
        if let Some(wires) = &mut self.shared.lock().wires {
            wires.finish(false);
        }
    }

    /// Waits until all triggers of launches so far are handled, unless a launch aborts or `is_stopped` returns true. `timeout` limits how
    /// long a rank on another node may make no progress in receiving.
    pub(super) fn drain(&self, timeout: Duration, is_stopped: impl Fn() -> bool) -> Result<(), Failure> {
        let shared = &self.shared;
        let mut heads = vec![0_u64; shared.queues.len()];
        shared.driver.memcpy_to_host(bytemuck::cast_slice_mut(&mut heads), shared.heads.address())?;
        loop {
            {
                let state = shared.lock();
                let all_taken = state.taken.iter().zip(&heads).all(|(taken, head)| taken >= head);
                // A thread block that aborted in the meantime may have exited without pushing its trigger.
                let aborted = shared.flags.word(abi::AbortFlags::DEVICE).load(Acquire) != 0 || is_stopped();
                if let Some(error) = &state.failed {
                    return Err(error.clone());
                }
                let at_rest = state.wires.as_ref().is_none_or(NodeConnections::is_idle);
                if aborted || all_taken && state.pending.is_empty() && at_rest {
                    return Ok(());
                }
                if let Some(cause) = state.wires.as_ref().and_then(|wires| wires.find_timeout(timeout)) {
                    return Err(Failure::Cause(cause));
                }
            }
            std::thread::yield_now();
        }
    }

    /// Empties the queues. The device is idle.
    pub(super) fn reset(&self) -> driver::Result<()> {
        let shared = &self.shared;
        let mut state = shared.lock();
        shared.driver.synchronize(shared.stream)?;
        let State { pending, events, .. } = &mut *state;
        pending.drain(..).for_each(|(event, _)| events.release(event));
        shared.heads.clear()?;
        for queue in &shared.queues {
            queue.clear();
        }
        state.taken.fill(0);
        state.rests.fill_with(|| None);
        state.sent.clear();
        state.failed = None;
        Ok(())
    }
}

impl Drop for Proxies {
    fn drop(&mut self) {
        self.shared.stop.store(true, Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Executes each kind of stream operation of the thread once. Resources that the driver allocates at the first use
    /// might otherwise have to wait for a kernel, which waits for the thread.
    fn warm_up(&self) -> driver::Result<()> {
        let (driver, at) = (&self.driver, self.heads.address());
        driver.memset_async(at, 8, self.stream)?;
        driver.copy(at + 8, at, 8, self.stream)?;
        driver.write_value(at, 0, self.stream)?;
        driver.synchronize(self.stream)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // A destructor cannot report a failure.
        let _ = self.driver.synchronize(self.stream);
        let State { pending, events, .. } = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        pending.drain(..).for_each(|(event, _)| events.release(event));
        let _ = self.driver.destroy_event(self.end);
        let _ = self.driver.destroy_stream(self.stream);
    }
}
