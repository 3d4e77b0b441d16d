//! Memory of a device that the ranks of a group access directly: windows, and signals from stream to stream.
//!
//! A signal is a counter for each sender and channel. The sender's stream stores the number of its signals so far after the work that
//! precedes it; the receiver's stream waits until the number is at least that of its waits so far.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use mscclpp_communicator::Communicator;
use mscclpp_core::threads;
use mscclpp_exec::cuda::{Device, DeviceVec, Event, NotRegistered, PeerWindow, Registered, Stream};
use mscclpp_exec::{Error, with_type};
use pyo3::prelude::*;

use crate::buffer::PyBuffer;
use crate::call::Call;
use crate::device::{OnDevice, plain};
use crate::failure::Failure;
use crate::operator::{Operator, TorchOp};
use crate::registered::RegisteredPart;
use crate::tensor::View;

/// More than every number of signals, and less than half of all values.
const RELEASED: u64 = 1 << 62;

/// Interval at which the ranks that streams wait for are checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Memory of a device that other processes can map.
#[pyclass(name = "SymmetricMemory", module = "mscclpp_rs._native", frozen)]
pub(crate) struct PySymmetricMemory {
    memory: Arc<DeviceVec<u8>>,
    device: u32,
}

impl PySymmetricMemory {
    pub(crate) fn device(&self) -> u32 {
        self.device
    }
}

#[pymethods]
impl PySymmetricMemory {
    /// Allocates bytes of zeros on a device.
    #[new]
    fn new(py: Python<'_>, device: u32, num_bytes: usize) -> PyResult<Self> {
        let allocated = py.detach(|| -> Result<_, Error> { DeviceVec::shareable(&Device::new(device)?, num_bytes) });
        let memory = allocated.map_err(|error| Failure::from(error).on(0, "symmetric memory"))?;
        Ok(Self { memory: Arc::new(memory), device })
    }

    /// The address of the first byte.
    #[getter]
    fn address(&self) -> u64 {
        self.memory.as_slice().address
    }

    /// Returns a tensor's memory: bytes of the allocation.
    fn buffer(&self, begin: usize, num_bytes: usize) -> PyResult<PyBuffer> {
        let address = part("buffer", self.address(), self.memory.len(), begin, num_bytes)?;
        Ok(PyBuffer::on_device(address, num_bytes, self.device, Box::new(Arc::clone(&self.memory))))
    }
}

/// Returns the address of a part of memory.
fn part(what: &'static str, base: u64, len: usize, begin: usize, num_bytes: usize) -> Result<u64, Failure> {
    match begin.checked_add(num_bytes) {
        Some(end) if end <= len => Ok(base + begin as u64),
        _ => Err(Failure::invalid(
            what,
            format!("{num_bytes} bytes from {begin} on exceed the {len} bytes of the memory"),
        )),
    }
}

/// The memory of all ranks, and the signals between them.
struct Mapped {
    /// The mappings are dropped before the own memory.
    peers: PeerWindow,
    own: Arc<DeviceVec<u8>>,
    /// The own memory for calls in place; none if the ranks cannot share it.
    registered: Option<Registered<DeviceVec<u8>>>,
    /// Counters of the signals that each rank has received.
    counters: PeerWindow,
    received: DeviceVec<u64>,
    rank: u32,
    num_ranks: u32,
    device: Device,
    number: u32,
    num_channels: u32,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Signals to each rank and waits for each rank, by channel.
    num_sent: Vec<u64>,
    num_awaited: Vec<u64>,
    /// Waits that may be pending.
    waits: Vec<Wait>,
    /// Whether a thread checks these.
    is_watched: bool,
}

/// A wait of a stream for a signal of a rank.
struct Wait {
    begin: Event,
    end: Event,
    timeout: Duration,
    /// When it is late, once the stream has reached it.
    deadline: Option<Instant>,
    rank: u32,
}

impl Wait {
    fn is_complete(&self) -> bool {
        // Without a driver nothing can be done.
        self.end.is_complete().unwrap_or(true)
    }

    fn is_late(&mut self) -> bool {
        if self.deadline.is_none() && self.begin.is_complete().unwrap_or(true) {
            self.deadline = Instant::now().checked_add(self.timeout);
        }
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }
}

impl Mapped {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the index of the counters of a rank on a channel.
    fn index(&self, rank: u32, channel: u32) -> usize {
        (channel * self.num_ranks + rank) as usize
    }

    fn counter(&self, memory: u64, of_rank: u32, channel: u32) -> u64 {
        memory + 8 * self.index(of_rank, channel) as u64
    }

    /// Lets the streams continue that wait for signals, which lost ranks do not send.
    fn release(&self) -> Result<(), Error> {
        let (stream, own) = (self.device.priority_stream()?, self.received.as_slice().address);
        for channel in 0..self.num_channels {
            for rank in 0..self.num_ranks {
                // SAFETY: the counters are allocated as long as `self`, and only stores and waits of streams access them.
                unsafe { stream.write_value(self.counter(own, rank, channel), RELEASED)? };
            }
        }
        stream.synchronize()
    }

    /// Checks the ranks while waits are pending. A wait that is late fails the group.
    fn watch(&self, comm: &Communicator) {
        loop {
            thread::sleep(CHECK_INTERVAL);
            let mut state = self.lock();
            state.waits.retain(|wait| !wait.is_complete());
            if state.waits.is_empty() {
                state.is_watched = false;
                return;
            }
            let late = state.waits.iter_mut().find_map(|wait| wait.is_late().then_some(wait.rank));
            drop(state);
            if let Some(rank) = late {
                comm.abort(&format!("symmetric memory: rank {rank} has not sent a signal within the timeout"));
            }
            // Again until no wait is pending: late signals store smaller numbers.
            if comm.check().is_err() {
                let _ = self.release();
            }
        }
    }
}

/// The memory of all ranks of a group.
#[pyclass(name = "SymmetricWindow", module = "mscclpp_rs._native", frozen)]
pub(crate) struct PySymmetricWindow {
    mapped: Arc<Mapped>,
    comm: Communicator,
}

/// Whether a stream sends a signal or waits for one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum SignalAction {
    Send,
    Wait,
}

impl PySymmetricWindow {
    /// Maps the memory of all ranks. A call of all ranks.
    pub(crate) fn new(
        comm: Communicator,
        memory: &PySymmetricMemory,
        num_channels: u32,
        on: &OnDevice<'_>,
    ) -> Result<Self, Failure> {
        let (rank, num_ranks) = (comm.rank(), comm.num_ranks());
        let num_counters = (num_channels * num_ranks) as usize;
        let numbers = vec![0; num_counters];
        let state = Mutex::new(State { num_sent: numbers.clone(), num_awaited: numbers, ..State::default() });
        let device = Device::new(memory.device).map_err(Error::from)?;
        let received = DeviceVec::shareable(&device, num_counters.max(1))?;
        let (own, number) = (Arc::clone(&memory.memory), memory.device);
        let (peers, counters) = (on.on.peer_window(own.as_slice())?, on.on.peer_window(received.as_slice())?);
        let registered = match on.on.register::<u8, _>(own.share()) {
            Ok(registered) => Some(registered),
            Err(NotRegistered { error: Error::NotShareable { .. }, .. }) => None,
            Err(NotRegistered { error, .. }) => return Err(error.into()),
        };
        let mapped =
            Mapped { peers, own, registered, counters, received, rank, num_ranks, device, number, num_channels, state };
        Ok(Self { mapped: Arc::new(mapped), comm })
    }

    pub(crate) fn device(&self) -> u32 {
        self.mapped.number
    }

    /// Replaces a tensor of this rank's memory by the reduction of all ranks' ones at the same place, without copies where it is registered.
    pub(crate) fn all_reduce(&self, view: &View, op: TorchOp, on: &OnDevice<'_>) -> Result<(), Failure> {
        let (base, operator) = (self.mapped.own.as_slice().address as usize, Operator::new(op, view.kind)?);
        let part = view.address.checked_sub(base).map(|begin| begin..begin.saturating_add(view.bytes));
        let registered = self.mapped.registered.as_ref();
        match (registered, part) {
            (Some(of), Some(range)) if range.end <= self.mapped.own.len() => {
                let (op, dtype) = plain(operator)?;
                Ok(with_type!(dtype, T => on.on.all_reduce_in_place::<T>(&mut RegisteredPart { of, range }, op))?)
            }
            _ => on.run(&Call::AllReduce { tensor: *view, operator }),
        }
    }

    /// Enqueues a signal to a rank or a wait for one of it.
    pub(crate) fn enqueue(
        &self,
        action: SignalAction,
        (peer, channel): (u32, u32),
        timeout: Duration,
        stream: &Stream,
    ) -> Result<(), Failure> {
        let mapped = &self.mapped;
        let name = match action {
            SignalAction::Send => "put_signal",
            SignalAction::Wait => "wait_signal",
        };
        if peer >= mapped.num_ranks || channel >= mapped.num_channels {
            let (ranks, channels) = (mapped.num_ranks, mapped.num_channels);
            return Err(Failure::invalid(
                name,
                format!("expected a rank below {ranks} and a channel below {channels}, found {peer} and {channel}"),
            ));
        }
        if stream.is_capturing()? {
            let text = "a graph cannot contain signals: each replay would send the same ones";
            return Err(Failure::of_kind("unsupported", name, text.into()));
        }
        let at = mapped.index(peer, channel);
        let mut state = mapped.lock();
        match action {
            SignalAction::Send => {
                let address = mapped.counters.address(peer).ok_or_else(|| other_node(name, peer))?;
                // SAFETY: the counters stay mapped until the device's work is complete, for which their destructors wait; only stores and waits
                // of streams access them.
                unsafe { stream.write_value(mapped.counter(address, mapped.rank, channel), state.num_sent[at] + 1)? };
                state.num_sent[at] += 1;
            }
            SignalAction::Wait => {
                if !state.is_watched {
                    let (mapped, comm) = (Arc::clone(mapped), self.comm.clone());
                    let started = threads::named("mscclpp signals").spawn(move || mapped.watch(&comm));
                    started.map_err(|error| Error::SpawnThread(error.to_string()))?;
                    state.is_watched = true;
                }
                let (own, begin) = (mapped.received.as_slice().address, stream.untimed_event()?);
                // SAFETY: as above.
                unsafe { stream.wait_value(mapped.counter(own, peer, channel), state.num_awaited[at] + 1)? };
                state.num_awaited[at] += 1;
                let end = stream.untimed_event()?;
                state.waits.push(Wait { begin, end, timeout, deadline: None, rank: peer });
            }
        }
        Ok(())
    }
}

fn other_node(what: &'static str, rank: u32) -> Failure {
    let text = format!("expected a rank on this node, found rank {rank} on another one; use send and recv");
    Failure::of_kind("unsupported", what, text)
}

#[pymethods]
impl PySymmetricWindow {
    /// The addresses of the ranks' memory in this process; 0 for ranks on other nodes.
    #[getter]
    fn addresses(&self) -> Vec<u64> {
        (0..self.mapped.num_ranks).map(|rank| self.mapped.peers.address(rank).unwrap_or(0)).collect()
    }

    /// The address at which a store reaches the memory of all ranks; 0 if there is none.
    #[getter]
    fn multicast_address(&self) -> u64 {
        self.mapped.peers.multicast_address().unwrap_or(0)
    }

    /// Returns a tensor's memory: bytes of the memory of a rank.
    fn buffer(&self, rank: u32, begin: usize, num_bytes: usize) -> PyResult<PyBuffer> {
        let mapped = &self.mapped;
        let base = mapped.peers.address(rank).ok_or_else(|| other_node("get_buffer", rank))?;
        let address = part("get_buffer", base, mapped.own.len(), begin, num_bytes)?;
        Ok(PyBuffer::on_device(address, num_bytes, mapped.number, Box::new(Arc::clone(mapped))))
    }
}
