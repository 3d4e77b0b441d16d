//! The host's half of port channels: a thread that takes transfers and signals from the device's queues and puts them on a
//! stream of its own, in their order.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::abi;
use super::device::Device;
use super::driver::{self, Handle, SharedDriver};
use super::memory::{DeviceMemory, MappedMemory};
use crate::error::Error;

/// Requests that a queue holds before a thread block must wait, as in the reference system.
const SLOTS: u64 = 512;

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
    /// Signals sent to each counter.
    sent: BTreeMap<u64, u64>,
    /// Positions that are done when an event is.
    pending: VecDeque<(Handle, Vec<u64>)>,
    /// The call that failed, if one did.
    failed: Option<driver::DriverError>,
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
    /// `count`: ranks of the device that have a queue; `flags`: word 0 is set when a call fails, so that no launch waits for what does not come.
    pub(super) fn new(device: &Device, count: usize, flags: &Arc<MappedMemory>) -> Result<Self, Error> {
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
        let state = Mutex::new(State { taken: vec![0; count], ..State::default() });
        let shared = Arc::new(Shared {
            driver,
            stream,
            heads,
            queues,
            stop: AtomicBool::new(false),
            flags: Arc::clone(flags),
            state,
        });
        let mut proxies = Self { table, shared: Arc::clone(&shared), thread: None };
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

    /// The driver's call that failed in the thread, if one did.
    pub(super) fn failure(&self) -> Option<driver::DriverError> {
        self.shared.lock().failed.clone()
    }

    /// Waits until everything that launches have asked for so far is done, unless one gives up.
    pub(super) fn settle(&self) -> driver::Result<()> {
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
                if gave_up || all_taken && state.pending.is_empty() {
                    return Ok(());
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
        state.sent.clear();
        state.failed = None;
        Ok(())
    }
}

impl Drop for Proxies {
    fn drop(&mut self) {
        self.shared.stop.store(true, Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves the queues until it is told to stop.
    fn serve(&self) {
        let mut idle = 0_u32;
        while !self.stop.load(Acquire) {
            let served = {
                let mut state = self.lock();
                if state.failed.is_some() {
                    false
                } else {
                    self.visit(&mut state).unwrap_or_else(|error| {
                        state.failed = Some(error);
                        self.flags.word(0).store(1, Release);
                        false
                    })
                }
            };
            idle = if served { 0 } else { idle.saturating_add(1) };
            match idle {
                0..=10_000 => std::hint::spin_loop(),
                10_001..=20_000 => std::thread::yield_now(),
                _ => std::thread::sleep(Duration::from_micros(50)),
            }
        }
    }

    /// Takes what is in the queues and publishes what is done; whether there was anything to do.
    fn visit(&self, state: &mut State) -> driver::Result<bool> {
        let mut served = false;
        for (number, queue) in self.queues.iter().enumerate() {
            while let Some(request) = queue.take(state.taken[number]) {
                self.put(state, request)?;
                state.taken[number] += 1;
                served = true;
            }
        }
        if served {
            let event = self.driver.create_event()?;
            if let Err(error) = self.driver.record(event, self.stream) {
                self.driver.destroy_event(event)?;
                return Err(error);
            }
            state.pending.push_back((event, state.taken.clone()));
        }
        while let Some((event, _)) = state.pending.front() {
            if !self.driver.is_done(*event)? {
                break;
            }
            let Some((event, done)) = state.pending.pop_front() else { break };
            for (queue, done) in self.queues.iter().zip(done) {
                queue.handled().store(done, Release);
            }
            self.driver.destroy_event(event)?;
            served = true;
        }
        Ok(served || !state.pending.is_empty())
    }

    fn put(&self, state: &mut State, [src, dst, bytes, signal]: [u64; 4]) -> driver::Result<()> {
        match (src, bytes) {
            (_, 0) => {}
            (0, bytes) => self.driver.zero_on(dst, bytes, self.stream)?,
            (src, bytes) => self.driver.copy(dst, src, bytes, self.stream)?,
        }
        if signal != 0 {
            // Only this thread signals the counters of port channels.
            let sent = state.sent.entry(signal).or_default();
            *sent += 1;
            self.driver.write_value(signal, *sent, self.stream)?;
        }
        Ok(())
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
