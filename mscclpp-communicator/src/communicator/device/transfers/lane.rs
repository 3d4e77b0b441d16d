//! The transfers of one direction between two ranks, and the thread that makes the first ones.
//!
//! The transfers of one direction are a sequence, whatever travels in the other one. A transfer whose size is prepared is one
//! launch on the caller's stream. The first one of a size needs the other rank, which may come much later, so that a thread makes
//! it on a stream of the direction, and the caller's stream waits for it with a counter. A send alone, outside of a group, is
//! copied to a buffer first if it is short, so that the caller's stream does not wait for the receiver. Longer ones of a group are
//! made at the same time, each on the stream of its direction.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use mscclpp_core::threads;

use super::buffer::{Buffers, MAX_BUFFERED};
use super::settle::{self, FirstWait, settle};
use super::{Direction, Transfer};
use crate::communicator::Communicator;
use mscclpp_base::error::Error;
use mscclpp_exec::cuda::{
    Counter, DeferredWait, DeferredWork, Device, DeviceMut, DeviceRef, DeviceVec, Event, Lent, Stream,
};
use mscclpp_exec::process::is_interrupted;

/// Interval of the checks whether a lane's stream is idle.
const DRAIN_INTERVAL: Duration = Duration::from_micros(50);

/// Time between two checks whether the caller's wait is interrupted.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// The lanes of a communicator, by the other rank and whether this rank sends.
#[derive(Default)]
pub(in crate::communicator) struct Lanes {
    all: Mutex<BTreeMap<(u32, bool), Arc<Lane>>>,
    first_wait: Arc<FirstWait>,
}

/// The transfers of one direction between two ranks.
pub(super) struct Lane {
    /// Of transfers that the caller's stream does not make itself. Its priority is neither that of the caller's streams, which wait for
    /// its work, nor that of proxies' copies, for which its work waits: no transfer follows or precedes them in a hardware queue.
    stream: Stream,
    device: Device,
    state: Mutex<State>,
    is_drained: Condvar,
    /// That of the communicator.
    first_wait: Arc<FirstWait>,
}

pub(super) struct State {
    queue: VecDeque<Job>,
    /// Since when a thread makes the queued transfers, or the last one of them; none without a thread.
    busy_since: Option<Instant>,
    counter: Counter,
    buffers: Buffers,
    /// Whether a transfer was captured.
    is_captured: bool,
    /// The first failure of a transfer that a thread made. Later ones are not made.
    failure: Option<Error>,
}

/// A transfer that a thread makes.
struct Job {
    direction: Direction,
    work: Work,
}

enum Work {
    /// On memory of the caller's, whose stream waits.
    Deferred(DeferredWork),
    Buffered(BufferedSend),
}

/// A send of the first bytes of the buffer with a number, which are there after an event.
struct BufferedSend {
    memory: DeviceVec<u8>,
    bytes: usize,
    number: usize,
    begin: Event,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Lanes {
    /// Returns the lane of a transfer.
    fn of(&self, direction: &Direction, stream: &Stream) -> Result<Arc<Lane>, Error> {
        let mut lanes = lock(&self.all);
        if let Some(lane) = lanes.get(&direction.key()) {
            return match lane.is_of(stream) {
                true => Ok(Arc::clone(lane)),
                false => Err(Error::StreamDeviceMismatch { device: lane.device.label() }),
            };
        }
        let none = || Error::StreamDeviceMismatch { device: "any device".into() };
        let lane = Arc::new(Lane::new(stream.devices().next().ok_or_else(none)?, &self.first_wait)?);
        lanes.insert(direction.key(), Arc::clone(&lane));
        Ok(lane)
    }

    /// Waits until the transfers of a direction that the caller's stream does not wait for are complete, before one that `stream`
    /// captures: a lane has no events for graphs. Later sends are not buffered for the same reason.
    ///
    /// # Errors
    /// The first failure of a transfer that a thread made; [`Error::Driver`].
    fn drain(&self, direction: &Direction, stream: &Stream) -> Result<(), Error> {
        let _set_up = stream.set_up(true)?;
        let lane = self.of(direction, stream)?;
        lane.lock().is_captured = true;
        lane.drain();
        while !lane.stream.is_idle()? {
            lane.lock().check()?;
            thread::sleep(DRAIN_INTERVAL);
        }
        let state = lane.lock();
        state.check()
    }

    fn all(&self) -> Vec<Arc<Lane>> {
        lock(&self.all).values().cloned().collect()
    }

    /// Sets how long the first transfer of a size waits for its thread.
    pub(in crate::communicator) fn set_first_wait(&self, wait: Duration) {
        self.first_wait.set(wait);
    }

    /// Returns whether no transfer waits for a thread to make it, and those that were made for the caller's streams are complete.
    pub(in crate::communicator) fn are_idle(&self) -> Result<bool, Error> {
        self.all().iter().try_fold(true, |all, lane| Ok(all & (lane.lock().is_quiet() && lane.stream.is_idle()?)))
    }

    /// Returns the failure of a transfer that a thread made, if there is one.
    pub(in crate::communicator) fn check(&self) -> Result<(), Error> {
        self.all().iter().try_for_each(|lane| lane.lock().check())
    }
}

impl State {
    /// Returns whether a transfer that is made now follows all earlier ones.
    fn is_quiet(&self) -> bool {
        self.queue.is_empty() && self.busy_since.is_none()
    }

    fn check(&self) -> Result<(), Error> {
        self.failure.clone().map_or(Ok(()), Err)
    }
}

impl Lane {
    fn new(device: &Device, first_wait: &Arc<FirstWait>) -> Result<Self, Error> {
        let (counter, buffers) = (Counter::new(device)?, Buffers::default());
        let state =
            State { queue: VecDeque::new(), busy_since: None, counter, buffers, is_captured: false, failure: None };
        let (stream, device) = (device.transfer_stream()?, device.clone());
        let first_wait = Arc::clone(first_wait);
        Ok(Self { stream, device, state: Mutex::new(state), is_drained: Condvar::new(), first_wait })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Waits until a transfer that is made now follows all earlier ones.
    fn drain(&self) {
        let mut state = self.lock();
        while !state.is_quiet() {
            state = self.is_drained.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// How long the first transfer of a size waits for the thread.
    pub(super) fn first_wait(&self) -> Duration {
        self.first_wait.get()
    }

    pub(super) fn is_of(&self, stream: &Stream) -> bool {
        stream.devices().any(|device| device.is_same(&self.device))
    }

    /// Waits as [`drain`](Self::drain) does, but only until the thread has run for some time. An interruption of the caller aborts the
    /// communicator.
    pub(super) fn settle(&self, communicator: &Communicator, time: Duration) {
        let mut state = self.lock();
        while let Some(since) = state.busy_since {
            let left = time.saturating_sub(since.elapsed());
            if left.is_zero() {
                return;
            }
            let waited = self.is_drained.wait_timeout(state, left.min(CHECK_INTERVAL));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            if is_interrupted() {
                drop(state);
                return communicator.bootstrap().abort("its call was interrupted");
            }
        }
    }

    /// Lets a thread make a transfer.
    fn push(self: &Arc<Self>, mut state: MutexGuard<'_, State>, direction: Direction, work: Work) -> Result<(), Error> {
        state.queue.push_back(Job { direction, work });
        if state.busy_since.is_some() {
            return Ok(());
        }
        let lane = Arc::clone(self);
        match threads::named("mscclpp-transfer").spawn(move || lane.run_jobs()) {
            Ok(_) => {
                state.busy_since = Some(Instant::now());
                settle::begin(self);
            }
            Err(error) => {
                state.queue.pop_back();
                let error = Error::SpawnThread(error.to_string());
                state.fail(error.clone(), &self.stream);
                return Err(error);
            }
        }
        Ok(())
    }

    fn run_jobs(&self) {
        settle::exempt_thread();
        if let Err(error) = self.stream.relax_thread() {
            self.lock().fail(error, &self.stream);
        }
        loop {
            let mut state = self.lock();
            let Some(job) = state.queue.pop_front() else {
                state.busy_since = None;
                settle::end(self);
                self.is_drained.notify_all();
                return;
            };
            if state.failure.is_some() {
                continue;
            }
            drop(state);
            if let Err(error) = self.run(&job) {
                job.direction.abort(&error);
                self.lock().fail(error, &self.stream);
            }
        }
    }

    /// Enqueues a transfer, and what follows it.
    fn run(&self, Job { direction, work }: &Job) -> Result<(), Error> {
        match work {
            Work::Deferred(work) => work.run(&self.stream, |memory| direction.enqueue(&self.stream, memory)),
            Work::Buffered(send) => {
                let end = self.send(direction, send)?;
                self.lock().buffers.sent(send.number, end);
                Ok(())
            }
        }
    }

    /// Enqueues a send from a buffer. Returns the event before which it ends.
    fn send(&self, direction: &Direction, send: &BufferedSend) -> Result<Event, Error> {
        self.stream.wait_for(&send.begin)?;
        let memory = DeviceRef::<u8>::lend(&send.memory, &self.stream)?.narrow::<u8>(&(0..send.bytes));
        direction.enqueue(&self.stream, &memory)?;
        self.stream.untimed_event()
    }

    /// Lets a thread make a transfer when the caller's stream has reached this point.
    fn defer<'a>(
        self: &Arc<Self>,
        mut state: MutexGuard<'_, State>,
        transfer: Transfer<'a>,
    ) -> Result<DeferredWait<'a>, Error> {
        let Transfer { direction, stream, memory } = transfer;
        let (work, wait) = state.counter.defer(memory, stream)?;
        self.push(state, direction, Work::Deferred(work))?;
        Ok(wait)
    }

    /// Enqueues a transfer on this lane's stream, when the caller's stream has reached this point.
    fn enqueue_beside<'a>(self: &Arc<Self>, transfer: Transfer<'a>) -> Result<BesideWait<'a>, Error> {
        let Transfer { direction, stream, memory } = transfer;
        self.stream.wait_for(&stream.untimed_event()?)?;
        let wait = BesideWait { lane: Arc::clone(self), stream, memory, is_done: false };
        direction.enqueue(&self.stream, &wait.memory)?;
        Ok(wait)
    }
}

impl State {
    /// Keeps a failure, and lets the streams continue that wait for transfers which are not made. `stream`: the lane's.
    fn fail(&mut self, error: Error, stream: &Stream) {
        self.failure.get_or_insert(error);
        // Without a driver nothing can be done.
        let _ = self.counter.release(stream);
    }
}

/// Makes a transfer that is in no group.
pub(super) fn make_alone(communicator: &Communicator, transfer: Transfer<'_>) -> Result<(), Error> {
    let (lanes, stream) = (&communicator.inner.lanes, transfer.stream);
    if stream.is_capturing()? {
        // Graphs contain the transfer itself.
        lanes.drain(&transfer.direction, stream)?;
        return transfer.enqueue();
    }
    let lane = lanes.of(&transfer.direction, stream)?;
    let mut state = lane.lock();
    state.check()?;
    let is_ready = state.is_quiet() && transfer.is_prepared();
    let bytes = transfer.memory.as_slice().bytes;
    if transfer.direction.is_sent
        && !state.is_captured
        && let Some((number, mut memory)) = state.buffers.take(stream, &lane.device, bytes)?
    {
        copy(&lane.device, stream, &transfer.memory, &mut memory).inspect_err(|_| state.buffers.put_back(number))?;
        let send = BufferedSend { memory, bytes: bytes as usize, number, begin: stream.untimed_event()? };
        if !is_ready {
            return lane.push(state, transfer.direction, Work::Buffered(send));
        }
        let end = lane.send(&transfer.direction, &send)?;
        state.buffers.sent(number, end);
        return Ok(());
    }
    if is_ready {
        drop(state);
        settle(communicator, stream);
        return transfer.enqueue();
    }
    let wait = lane.defer(state, transfer)?;
    lane.settle(communicator, lane.first_wait());
    settle(communicator, stream);
    wait.enqueue()
}

/// Copies what is sent to a buffer.
fn copy(device: &Device, stream: &Stream, sent: &Lent<'_>, buffer: &mut DeviceVec<u8>) -> Result<(), Error> {
    let buffer = DeviceMut::<u8>::lend_mut(buffer, stream)?;
    if sent.as_slice().bytes > 0 {
        stream.copy_lent(device, &buffer, sent)?;
    }
    Ok(())
}

/// How the transfers of a group on a lane are made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// By a thread: they wait for other ranks on the host.
    Deferred,
    /// On the stream of the lane: the other rank may make the transfers of the group one after the other, each of which occupies
    /// its stream until this rank makes it, as no buffer holds it.
    Beside,
}

/// What the caller's stream has to wait for.
enum Wait<'a> {
    Deferred(DeferredWait<'a>),
    Beside(BesideWait<'a>),
}

impl Wait<'_> {
    fn enqueue(self) -> Result<(), Error> {
        match self {
            Self::Deferred(wait) => wait.enqueue(),
            Self::Beside(mut wait) => wait.enqueue_once(),
        }
    }
}

/// Wait of a stream for a transfer on a lane's stream, on memory that it lends. Dropping it enqueues the wait; where that is not
/// possible, the host waits.
struct BesideWait<'a> {
    lane: Arc<Lane>,
    stream: &'a Stream,
    memory: Lent<'a>,
    is_done: bool,
}

impl BesideWait<'_> {
    fn enqueue_once(&mut self) -> Result<(), Error> {
        match std::mem::replace(&mut self.is_done, true) {
            true => Ok(()),
            false => {
                let end = self.lane.stream.untimed_event();
                // The memory stops being lent after this.
                end.and_then(|end| self.stream.wait_for(&end)).inspect_err(|_| _ = self.lane.stream.synchronize())
            }
        }
    }
}

impl Drop for BesideWait<'_> {
    fn drop(&mut self) {
        // A destructor cannot report a failure. The memory stops being lent after this.
        let _ = self.enqueue_once();
    }
}

/// Makes transfers of one communicator, in an order in which no transfer waits for another one of them: those that wait for other ranks
/// on the host are made by threads, with all others of their lanes, and long ones at the same time. The remaining ones follow one
/// another on the caller's stream.
pub(super) fn make_together(communicator: &Communicator, transfers: Vec<Transfer<'_>>) -> Result<(), Error> {
    let lanes = &communicator.inner.lanes;
    let is_alone = transfers.len() < 2;
    let (mut ways, mut captured) = (BTreeMap::new(), None);
    for transfer in &transfers {
        // Most transfers of a group are on one stream.
        let stream = std::ptr::from_ref(transfer.stream);
        let is_captured = match captured {
            Some((of, is_captured)) if of == stream => is_captured,
            _ => transfer.stream.is_capturing()?,
        };
        captured = Some((stream, is_captured));
        if is_captured {
            lanes.drain(&transfer.direction, transfer.stream)?;
            continue;
        }
        let lane = lanes.of(&transfer.direction, transfer.stream)?;
        let state = lane.lock();
        state.check()?;
        let is_ready = state.is_quiet() && transfer.is_prepared();
        drop(state);
        if !is_ready {
            ways.insert(transfer.direction.key(), (lane, Way::Deferred));
        } else if transfer.memory.as_slice().bytes > MAX_BUFFERED as u64 && !is_alone {
            ways.entry(transfer.direction.key()).or_insert((lane, Way::Beside));
        }
    }
    let (mut waits, mut prepared) = (Vec::new(), Vec::new());
    for transfer in transfers {
        // What is captured stays in its capture.
        match ways.get(&transfer.direction.key()).filter(|_| !transfer.stream.is_capturing().unwrap_or(true)) {
            Some((lane, Way::Deferred)) => waits.push(Wait::Deferred(lane.defer(lane.lock(), transfer)?)),
            Some((lane, Way::Beside)) => waits.push(Wait::Beside(lane.enqueue_beside(transfer)?)),
            None => prepared.push(transfer),
        }
    }
    if let Some(first) = prepared.first() {
        settle(communicator, first.stream);
    }
    prepared.iter().try_for_each(Transfer::enqueue)?;
    let deferred = ways.values().filter(|(_, way)| *way == Way::Deferred);
    deferred.for_each(|(lane, _)| lane.settle(communicator, lane.first_wait()));
    waits.into_iter().try_for_each(Wait::enqueue)
}
