//! The transfers of one direction between two ranks, and the thread that makes the first ones.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use mscclpp_exec::Error;
use mscclpp_exec::cuda::{Device, Event, Stream};
use mscclpp_exec::error::ErrorKind;

use super::Transfer;
use super::buffer::{Buffers, MAX_BUFFERED};
use super::counter::{Counter, Ticket};
use crate::comm::lock;
use crate::comm::set_up::SetUp;

/// Interval after which a call is repeated that another thread has excluded, which checks for failures.
const RETRY_INTERVAL: Duration = Duration::from_micros(50);

/// The lanes of a communicator, by the other rank and whether this rank sends.
#[derive(Default)]
pub(crate) struct Lanes(Mutex<BTreeMap<(u32, bool), Arc<Lane>>>);

/// The transfers of one direction between two ranks.
struct Lane {
    /// Of transfers that the caller's stream does not make itself.
    stream: Stream,
    state: Mutex<State>,
    is_drained: Condvar,
}

struct State {
    queue: VecDeque<Job>,
    /// Whether a thread makes the queued transfers, or the last one of them.
    is_busy: bool,
    counter: Counter,
    buffers: Buffers,
    has_failed: bool,
}

/// A transfer that a thread makes.
struct Job {
    transfer: Transfer,
    /// The caller's stream has reached the call.
    begin: Event,
    end: End,
}

/// What follows a transfer.
#[derive(Clone, Copy)]
enum End {
    /// The caller's stream waits.
    Ticket(Ticket),
    /// The buffer with this number is free.
    Buffer(usize),
}

impl Lanes {
    /// Returns the lane of a transfer.
    fn of(&self, transfer: &Transfer) -> Result<Arc<Lane>, Error> {
        let mut lanes = lock(&self.0);
        let key = (transfer.peer, transfer.is_sent);
        if let Some(lane) = lanes.get(&key) {
            return Ok(Arc::clone(lane));
        }
        let _set_up = SetUp::begin()?;
        let lane = Arc::new(Lane::new(&transfer.comm.device)?);
        lanes.insert(key, Arc::clone(&lane));
        Ok(lane)
    }

    /// Returns whether no transfer waits for a thread to make it, and those that were made for the caller's streams are complete.
    pub(crate) fn is_idle(&self) -> Result<bool, Error> {
        let lanes: Vec<_> = lock(&self.0).values().cloned().collect();
        let mut is_idle = true;
        for lane in lanes {
            is_idle &= lane.lock().is_quiet() && lane.stream.is_idle()?;
        }
        Ok(is_idle)
    }
}

impl State {
    /// Returns whether a transfer that is made now follows all earlier ones.
    fn is_quiet(&self) -> bool {
        self.queue.is_empty() && !self.is_busy
    }
}

impl Lane {
    fn new(device: &Device) -> Result<Self, Error> {
        let (counter, buffers) = (Counter::new(device)?, Buffers::default());
        let state = State { queue: VecDeque::new(), is_busy: false, counter, buffers, has_failed: false };
        Ok(Self { stream: device.priority_stream()?, state: Mutex::new(state), is_drained: Condvar::new() })
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

    /// Lets a thread make a transfer.
    fn push(self: &Arc<Self>, mut state: MutexGuard<'_, State>, job: Job) -> Result<(), Error> {
        state.queue.push_back(job);
        if state.is_busy {
            return Ok(());
        }
        let lane = Arc::clone(self);
        let spawned = thread::Builder::new().name("mscclpp-nccl-transfer".into()).spawn(move || lane.run_jobs());
        match spawned {
            Ok(_) => state.is_busy = true,
            Err(error) => {
                state.queue.pop_back();
                return Err(Error::SpawnThread(error.to_string()));
            }
        }
        Ok(())
    }

    fn run_jobs(&self) {
        loop {
            let mut state = self.lock();
            let Some(job) = state.queue.pop_front() else {
                state.is_busy = false;
                self.is_drained.notify_all();
                return;
            };
            let has_failed = state.has_failed;
            drop(state);
            let comm = Arc::clone(&job.transfer.comm);
            if !has_failed && let Err(error) = self.run(job) {
                self.release();
                // Calls and `ncclCommGetAsyncError` report it.
                let _ = comm.result(Err(error));
            }
        }
    }

    /// Enqueues a transfer.
    fn run(&self, job: Job) -> Result<(), Error> {
        let Job { mut transfer, begin, end } = job;
        self.stream.wait_for(&begin)?;
        loop {
            match transfer.enqueue(&self.stream) {
                // Transfers of a direction are made by one thread; another one checks for failures.
                Err(error) if error.kind() == ErrorKind::Busy => thread::sleep(RETRY_INTERVAL),
                made => break made?,
            }
        }
        self.end(&mut self.lock(), end)
    }

    /// Enqueues what follows a transfer.
    fn end(&self, state: &mut State, end: End) -> Result<(), Error> {
        match end {
            End::Ticket(ticket) => ticket.pass(&self.stream),
            End::Buffer(number) => {
                state.buffers.sent(number, self.stream.untimed_event()?);
                Ok(())
            }
        }
    }

    /// Lets the streams continue that wait for transfers which are not made.
    fn release(&self) {
        let mut state = self.lock();
        state.has_failed = true;
        // Without a driver nothing can be done.
        let _ = state.counter.release();
    }
}

/// Makes a transfer that is in no group.
pub(super) fn make_alone(mut transfer: Transfer) -> Result<(), Error> {
    let (comm, stream) = (Arc::clone(&transfer.comm), Arc::clone(&transfer.stream));
    let lane = comm.lanes.of(&transfer)?;
    if stream.is_capturing()? {
        // Graphs contain the transfer itself.
        lane.drain();
        return transfer.enqueue(&stream);
    }
    let mut state = lane.lock();
    let is_ready = state.is_quiet() && transfer.is_prepared();
    if transfer.is_sent
        && let Some((number, mut buffer)) = state.buffers.take(&comm.device, transfer.memory.bytes())?
    {
        stream.copy::<u8>(&transfer.memory, &mut buffer)?;
        let (begin, end) = (stream.untimed_event()?, End::Buffer(number));
        transfer.memory = buffer;
        if !is_ready {
            return lane.push(state, Job { transfer, begin, end });
        }
        lane.stream.wait_for(&begin)?;
        transfer.enqueue(&lane.stream)?;
        return lane.end(&mut state, end);
    }
    if is_ready {
        return transfer.enqueue(&stream);
    }
    let deferred = defer(&lane, state, transfer)?;
    deferred.wait()
}

/// A transfer on the stream of its lane, for which the caller's stream has to wait.
pub(super) struct Deferred {
    stream: Arc<Stream>,
    end: DeferredEnd,
}

enum DeferredEnd {
    /// A thread makes the transfer.
    Ticket(Ticket),
    /// It is enqueued.
    Event(Event),
}

impl Deferred {
    /// Lets later work of the caller's stream wait for the transfer.
    pub(super) fn wait(self) -> Result<(), Error> {
        match self.end {
            DeferredEnd::Ticket(ticket) => ticket.wait(&self.stream),
            DeferredEnd::Event(event) => self.stream.wait_for(&event),
        }
    }
}

/// Lets a thread make a transfer when the caller's stream has reached this point.
fn defer(lane: &Arc<Lane>, mut state: MutexGuard<'_, State>, transfer: Transfer) -> Result<Deferred, Error> {
    let (stream, begin) = (Arc::clone(&transfer.stream), transfer.stream.untimed_event()?);
    let ticket = state.counter.next_ticket();
    lane.push(state, Job { transfer, begin, end: End::Ticket(ticket) })?;
    Ok(Deferred { stream, end: DeferredEnd::Ticket(ticket) })
}

/// Enqueues a transfer on the stream of its lane when the caller's stream has reached this point.
fn enqueue_beside(lane: &Lane, mut transfer: Transfer) -> Result<Deferred, Error> {
    let stream = Arc::clone(&transfer.stream);
    lane.stream.wait_for(&stream.untimed_event()?)?;
    transfer.enqueue(&lane.stream)?;
    Ok(Deferred { stream, end: DeferredEnd::Event(lane.stream.untimed_event()?) })
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

/// Takes the transfers of a group that do not follow one another on the caller's streams, with all others of their lanes, and makes
/// them or lets threads make them. The remaining ones only enqueue work.
pub(super) fn make_beside(transfers: &mut Vec<Transfer>) -> Result<Vec<Deferred>, Error> {
    let is_alone = transfers.len() < 2;
    let mut ways: Vec<(Arc<Lane>, Way)> = Vec::new();
    for transfer in transfers.iter().filter(|transfer| !transfer.is_with_itself()) {
        let lane = transfer.comm.lanes.of(transfer)?;
        if transfer.stream.is_capturing()? {
            lane.drain();
        } else if !(lane.lock().is_quiet() && transfer.is_prepared()) {
            // It comes before the other way of its lane.
            ways.insert(0, (lane, Way::Deferred));
        } else if transfer.memory.bytes() > MAX_BUFFERED && !is_alone {
            ways.push((lane, Way::Beside));
        }
    }
    let mut deferred = Vec::new();
    for transfer in std::mem::take(transfers) {
        let lane = (!transfer.is_with_itself()).then(|| transfer.comm.lanes.of(&transfer)).transpose()?;
        let way = lane.and_then(|lane| {
            let found = ways.iter().find(|(other, _)| Arc::ptr_eq(&lane, other));
            found.map(|(_, way)| (lane, *way))
        });
        match way {
            Some((lane, Way::Deferred)) => deferred.push(defer(&lane, lane.lock(), transfer)?),
            Some((lane, Way::Beside)) => deferred.push(enqueue_beside(&lane, transfer)?),
            None => transfers.push(transfer),
        }
    }
    Ok(deferred)
}
