//! The host's half of port channels: a thread that takes transfers and signals from the device's queues and puts them on a
//! stream of its own, in their order.

use std::collections::{BTreeMap, VecDeque};
use std::net::TcpStream;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::abi;
use super::device::Device;
use super::driver::{self, Handle, SharedDriver};
use super::memory::{DeviceMemory, MappedMemory};
use super::nodes::{Put, Wires, is_far};
use crate::error::{Cause, Error};

/// Requests that a queue holds before a thread block must wait, as in the reference system.
const SLOTS: u64 = 512;

/// Between two looks at the queues of a thread that has nothing to do: for a while, and later. Whoever launches wakes it; graphs
/// do not.
const NAP: Duration = Duration::from_micros(50);
const SLEEP: Duration = Duration::from_millis(1);

/// After how long without anything to do a thread sleeps.
const AWAKE: Duration = Duration::from_millis(200);

/// Bytes of a request.
const TRIGGER: u64 = size_of::<abi::Trigger>() as u64;

/// The queues of a plan's ranks on a device and the thread that serves them.
pub(super) struct Proxies {
    table: DeviceMemory,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    driver: SharedDriver,
    stream: Handle,
    /// Where the device counts what it pushed, a double word for each queue.
    heads: DeviceMemory,
    queues: Vec<Queue>,
    stop: AtomicBool,
    /// Whether a launch was put on a stream since the thread looked.
    called: AtomicBool,
    /// Word 0 asks the device to give up, word 1 says that it has.
    flags: Arc<MappedMemory>,
    /// Held while requests are served.
    state: Mutex<State>,
}

/// A queue in mapped memory: slots, then the number of positions whose work is done.
struct Queue {
    memory: MappedMemory,
}

/// What the thread knows.
#[derive(Default)]
struct State {
    /// Per queue: positions that were taken.
    taken: Vec<u64>,
    /// Per queue: what is left of the request behind them.
    rests: Vec<Option<Rest>>,
    /// Signals sent to each counter.
    sent: BTreeMap<u64, u64>,
    /// Positions that are done when an event is: a batch.
    pending: VecDeque<(Handle, Vec<u64>)>,
    /// Batches that were begun, and that are done.
    begun: u64,
    done: u64,
    /// Ways to ranks on other nodes.
    wires: Option<Wires>,
    /// What went wrong, if something did.
    failed: Option<Failure>,
}

/// What is left of a request: a copy to another node, then a signal if that is not 0.
struct Rest {
    put: Option<Put>,
    signal: u64,
}

/// Why the thread cannot go on.
#[derive(Clone, Debug)]
pub(super) enum Failure {
    /// Something failed.
    Error(Error),
    /// Somebody else is the reason that a launch cannot be finished.
    Cause(Cause),
}

impl From<driver::DriverError> for Failure {
    fn from(error: driver::DriverError) -> Self {
        Self::Error(error.into())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl Queue {
    fn handled(&self) -> &std::sync::atomic::AtomicU64 {
        self.memory.double(SLOTS * TRIGGER)
    }

    /// The request at a position, if it is there.
    fn take(&self, position: u64) -> Option<[u64; 4]> {
        let at = position % SLOTS * TRIGGER;
        // Pairs with the device's release store of the turn, after its words.
        if self.memory.double(at).load(Acquire) != position + 1 {
            return None;
        }
        Some([1, 2, 3, 4].map(|word| self.memory.double(at + 8 * word).load(Relaxed)))
    }
}

impl Proxies {
    /// `count`: ranks of the device that have a queue; `flags`: word 0 is set when a call fails, so that no launch waits for
    /// what does not come; `wires`: ways to ranks on other nodes.
    pub(super) fn new(
        device: &Device,
        count: usize,
        flags: &Arc<MappedMemory>,
        wires: Option<Wires>,
    ) -> Result<Self, Error> {
        let driver = device.driver().clone();
        let heads = DeviceMemory::zeroed(&driver, 8 * count as u64)?;
        let queue = |_| Ok(Queue { memory: MappedMemory::new(&driver, SLOTS * TRIGGER + 64)? });
        let queues = (0..count).map(queue).collect::<driver::Result<Vec<_>>>()?;
        let table: Vec<_> = (0_u64..)
            .zip(&queues)
            .map(|(number, queue)| abi::Fifo {
                slots: queue.memory.device(0),
                head: heads.address() + 8 * number,
                handled: queue.memory.device(SLOTS * TRIGGER),
                size: SLOTS,
            })
            .collect();
        let table = DeviceMemory::holding(&driver, &table)?;
        let stream = driver.create_stream()?;
        let state = Mutex::new(State {
            taken: vec![0; count],
            rests: (0..count).map(|_| None).collect(),
            wires,
            ..State::default()
        });
        let shared = Arc::new(Shared {
            driver,
            stream,
            heads,
            queues,
            stop: AtomicBool::new(false),
            called: AtomicBool::new(false),
            flags: Arc::clone(flags),
            state,
        });
        let mut proxies = Self { table, shared: Arc::clone(&shared), thread: None };
        shared.rehearse()?;
        let (ready, is_ready) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new().name("mscclpp-proxy".into()).spawn(move || {
            let entered = shared.driver.enter_helper_thread();
            let serves = entered.is_ok();
            if ready.send(entered).is_ok() && serves {
                shared.serve();
            }
        });
        proxies.thread = Some(thread.map_err(|error| Error::Workers(error.to_string()))?);
        match is_ready.recv() {
            Ok(entered) => entered?,
            Err(_) => return Err(Error::Workers("the proxy ended at once".into())),
        }
        Ok(proxies)
    }

    /// The device's address of its queues.
    pub(super) fn table(&self) -> u64 {
        self.table.address()
    }

    /// Says that there will be something to do.
    pub(super) fn wake(&self) {
        if !self.shared.called.swap(true, Relaxed)
            && let Some(thread) = &self.thread
        {
            thread.thread().unpark();
        }
    }

    /// Ranks on other nodes that are not connected yet, ascending.
    pub(super) fn unconnected(&self) -> Vec<u32> {
        self.shared.lock().wires.as_ref().map_or_else(Vec::new, Wires::unconnected)
    }

    /// The connection to a rank on another node.
    ///
    /// # Errors
    /// [`Error::System`].
    pub(super) fn connect(&self, peer: u32, stream: TcpStream) -> Result<(), Error> {
        self.shared.lock().wires.as_mut().map_or(Ok(()), |wires| wires.connect(peer, stream))
    }

    /// What went wrong in the thread, if something did.
    pub(super) fn failure(&self) -> Option<Failure> {
        self.shared.lock().failed.clone()
    }

    /// Tells ranks on other nodes that this one cannot go on.
    pub(super) fn give_up(&self) {
        if let Some(wires) = &mut self.shared.lock().wires {
            wires.finish(false);
        }
    }

    /// Waits until everything that launches have asked for so far is done, unless one gives up. `patience`: how long a rank on
    /// another node may take nothing of what is sent to it.
    pub(super) fn settle(&self, patience: Duration) -> Result<(), Failure> {
        let shared = &self.shared;
        let mut heads = vec![0_u64; shared.queues.len()];
        shared.driver.download(bytemuck::cast_slice_mut(&mut heads), shared.heads.address())?;
        loop {
            {
                let state = shared.lock();
                let all_taken = state.taken.iter().zip(&heads).all(|(taken, head)| taken >= head);
                // Whoever gave up in the meantime may have left without his request.
                let gave_up = shared.flags.word(4).load(Acquire) != 0;
                if let Some(error) = &state.failed {
                    return Err(error.clone());
                }
                let at_rest = state.wires.as_ref().is_none_or(Wires::is_idle);
                if gave_up || all_taken && state.pending.is_empty() && at_rest {
                    return Ok(());
                }
                if let Some(cause) = state.wires.as_ref().and_then(|wires| wires.find_late(patience)) {
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
        for (event, _) in state.pending.drain(..) {
            shared.driver.destroy_event(event)?;
        }
        shared.heads.clear()?;
        for queue in &shared.queues {
            for slot in 0..SLOTS {
                queue.memory.double(slot * TRIGGER).store(0, Relaxed);
            }
            queue.handled().store(0, Release);
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
    /// Does once all that the thread will put on its stream. What the driver gets ready when it is first asked for might have to
    /// wait for a kernel otherwise, which waits for the thread.
    fn rehearse(&self) -> driver::Result<()> {
        let (driver, at) = (&self.driver, self.heads.address());
        driver.zero_on(at, 8, self.stream)?;
        driver.copy(at + 8, at, 8, self.stream)?;
        driver.write_value(at, 0, self.stream)?;
        driver.synchronize(self.stream)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves the queues until it is told to stop.
    fn serve(&self) {
        let (mut idle, mut since) = (0_u32, Instant::now());
        while !self.stop.load(Acquire) {
            let (served, looks) = {
                let mut state = self.lock();
                // To look at connections takes calls of the system.
                let looks = if state.wires.is_some() { 20 } else { 1 };
                (self.turn(&mut state), looks)
            };
            if served || self.called.swap(false, Relaxed) {
                (idle, since) = (0, Instant::now());
            }
            idle = idle.saturating_add(looks);
            match idle {
                0..=10_000 => std::hint::spin_loop(),
                10_001..=20_000 => std::thread::yield_now(),
                _ if since.elapsed() < AWAKE => std::thread::park_timeout(NAP),
                _ => std::thread::park_timeout(SLEEP),
            }
        }
        let mut state = self.lock();
        let in_order = state.failed.is_none();
        if let Some(wires) = &mut state.wires {
            wires.finish(in_order);
        }
    }

    /// Serves the queues once, if that can be; whether there was anything to do.
    fn turn(&self, state: &mut State) -> bool {
        let gave_up = || self.flags.word(4).load(Acquire) != 0;
        match &mut state.wires {
            _ if state.failed.is_some() => return false,
            // Others wait for what this rank does not send any more.
            Some(wires) if gave_up() => {
                wires.finish(false);
                return false;
            }
            _ => {}
        }
        self.visit(state).unwrap_or_else(|failure| {
            state.failed = Some(failure);
            self.flags.word(0).store(1, Release);
            if let Some(wires) = &mut state.wires {
                wires.finish(false);
            }
            false
        })
    }

    /// Takes what is in the queues and publishes what is done; whether there was anything to do.
    fn visit(&self, state: &mut State) -> Result<bool, Failure> {
        let mut served = false;
        for number in 0..self.queues.len() {
            served |= self.serve_queue(state, number)?;
        }
        if served {
            let event = self.driver.create_event()?;
            if let Err(error) = self.driver.record(event, self.stream) {
                self.driver.destroy_event(event)?;
                return Err(error.into());
            }
            state.pending.push_back((event, state.taken.clone()));
            state.begun += 1;
        }
        while let Some((event, _)) = state.pending.front() {
            if !self.driver.is_done(*event)? {
                break;
            }
            let Some((event, done)) = state.pending.pop_front() else { break };
            for (queue, done) in self.queues.iter().zip(done) {
                queue.handled().store(done, Release);
            }
            state.done += 1;
            self.driver.destroy_event(event)?;
            served = true;
        }
        if let Some(wires) = &mut state.wires {
            served |= wires.pump(state.done)?;
        }
        Ok(served || !state.pending.is_empty())
    }

    /// Takes what is in a queue, as far as there is room for what goes to other nodes; whether that was anything.
    fn serve_queue(&self, state: &mut State, number: usize) -> Result<bool, Failure> {
        let mut served = false;
        loop {
            if let Some(rest) = state.rests[number].take() {
                let (went_on, rest) = self.go_on(state, rest)?;
                served |= went_on;
                if rest.is_some() {
                    state.rests[number] = rest;
                    return Ok(served);
                }
                state.taken[number] += 1;
            }
            let Some([src, dst, bytes, signal]) = self.queues[number].take(state.taken[number]) else {
                return Ok(served);
            };
            let put = match &state.wires {
                Some(wires) if bytes > 0 && is_far(dst) => Some(wires.put(src, dst, bytes)?),
                _ => {
                    self.copy(src, dst, bytes)?;
                    None
                }
            };
            state.rests[number] = Some(Rest { put, signal });
        }
    }

    /// Copies within the node.
    fn copy(&self, src: u64, dst: u64, bytes: u64) -> driver::Result<()> {
        match (src, bytes) {
            (_, 0) => Ok(()),
            (0, bytes) => self.driver.zero_on(dst, bytes, self.stream),
            (src, bytes) => self.driver.copy(dst, src, bytes, self.stream),
        }
    }

    /// Does what is left of a request, as far as there is room; whether that was anything, and what is still left.
    fn go_on(&self, state: &mut State, mut rest: Rest) -> Result<(bool, Option<Rest>), Failure> {
        let mut served = false;
        if let (Some(put), Some(wires)) = (&mut rest.put, &mut state.wires) {
            served = wires.stage(put, state.begun, self.stream)?;
            if !put.is_staged() {
                return Ok((served, Some(rest)));
            }
        }
        if rest.signal == 0 {
            return Ok((true, None));
        }
        if let Some(wires) = &mut state.wires {
            if wires.mark(rest.signal) {
                return Ok((true, None));
            }
            if is_far(rest.signal) {
                rest.put = None;
                let sent = wires.signal(rest.signal, state.begun)?;
                return Ok(if sent { (true, None) } else { (served, Some(rest)) });
            }
        }
        // Only this thread signals the counters of port channels within the node.
        let sent = state.sent.entry(rest.signal).or_default();
        *sent += 1;
        self.driver.write_value(rest.signal, *sent, self.stream)?;
        Ok((true, None))
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Failures cannot be mended here.
        let _ = self.driver.synchronize(self.stream);
        for (event, _) in self.state.get_mut().unwrap_or_else(PoisonError::into_inner).pending.drain(..) {
            let _ = self.driver.destroy_event(event);
        }
        let _ = self.driver.destroy_stream(self.stream);
    }
}
