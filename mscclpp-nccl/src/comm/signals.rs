//! One-sided calls: data that a rank writes to the window of another one, and signals, which count in the memory of the receiver.
//!
//! A signal is a counter for each sender, to which the sender's stream stores the number of its signals so far after what it has
//! written; the receiver's stream waits until the number is at least that of the signals for which its calls have waited so far.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::{Arc, Mutex};

use mscclpp_communicator::OnStream;
use mscclpp_exec::Error;
use mscclpp_exec::cuda::{DeviceVec, Event, PeerWindow, Stream};

use super::window::find_window;
use super::{Comm, Memory, lock};
use crate::abi;
use crate::entry::{Failure, Result};

/// More than every number of signals, and less than half of all values.
const RELEASED: u64 = 1 << 62;

/// Maximum number of descriptions of a wait.
const MAX_WAITS: usize = 1 << 16;

/// The signals of a communicator, once it has a symmetric window.
#[derive(Default)]
pub(crate) struct Signals(Mutex<Option<Counters>>);

struct Counters {
    /// Signals of each rank for this one.
    received: DeviceVec<u64>,
    /// The same memory of all ranks.
    peers: PeerWindow,
    /// By rank.
    of_ranks: Vec<OfRank>,
    /// Ends of waits that may be pending.
    waits: Vec<Event>,
    /// Stores of values that end all waits.
    release: Stream,
}

/// What this rank has exchanged with another one.
#[derive(Default)]
struct OfRank {
    num_sent: u64,
    num_awaited: u64,
    /// The last call that wrote to the rank: handle of its stream, and its end.
    last: Option<(usize, Event)>,
}

/// A one-sided call, whose arguments are valid.
pub(crate) struct OneSided {
    comm: Arc<Comm>,
    stream: Arc<Stream>,
    handle: usize,
    action: Action,
}

enum Action {
    /// Writes data, if there is any, and then a signal.
    Signal { peer: u32, data: Option<(Memory, Memory)> },
    /// Waits for numbers of signals of ranks.
    Wait(Vec<(u64, u32)>),
}

/// The arguments of `ncclPutSignal`.
pub(crate) struct Put {
    pub(crate) local: *const c_void,
    pub(crate) count: usize,
    pub(crate) dtype: c_int,
    pub(crate) peer: c_int,
    pub(crate) window: *mut c_void,
    pub(crate) offset: usize,
    pub(crate) signal: c_int,
    pub(crate) context: c_int,
    pub(crate) flags: c_uint,
}

/// Allocates the counters, on all ranks. A call of all ranks, which does nothing if there are some.
pub(super) fn set_up(comm: &Comm, on: OnStream<'_>) -> std::result::Result<(), Error> {
    // A thread that aborts the communicator must not wait for the lock.
    if lock(&comm.signals.0).is_some() {
        return Ok(());
    }
    let num_ranks = comm.ready().map_or(0, |communicator| communicator.num_ranks() as usize);
    let received = on.alloc::<u64>(num_ranks)?;
    let peers = on.peer_window(received.as_slice())?;
    let of_ranks = (0..num_ranks).map(|_| OfRank::default()).collect();
    let release = comm.device.priority_stream()?;
    *lock(&comm.signals.0) = Some(Counters { received, peers, of_ranks, waits: Vec::new(), release });
    Ok(())
}

fn check_indices(signal: c_int, context: c_int, flags: c_uint) -> Result<()> {
    let found = [("sigIdx", i64::from(signal)), ("ctx", i64::from(context)), ("flags", i64::from(flags))];
    match found.into_iter().find(|(_, value)| *value != 0) {
        Some((name, value)) => Err(Failure::argument(format!("{name}: expected 0, found {value}"))),
        None => Ok(()),
    }
}

fn check_peer(comm: &Comm, peer: c_int) -> Result<u32> {
    let ranks = comm.for_call()?.num_ranks();
    let found = u32::try_from(peer).ok().filter(|peer| *peer < ranks);
    found.ok_or_else(|| Failure::argument(format!("peer: expected a rank below {ranks}, found {peer}")))
}

impl OneSided {
    fn new(comm: &Arc<Comm>, handle: usize, action: Action) -> Self {
        Self { comm: Arc::clone(comm), stream: comm.stream(handle), handle, action }
    }

    /// Writes to the window of another rank, and then a signal.
    ///
    /// # Errors
    /// Those of the arguments; an invalid usage for a rank on another node.
    pub(crate) fn put(comm: &Arc<Comm>, put: &Put, stream: usize) -> Result<Self> {
        let peer = check_peer(comm, put.peer)?;
        check_indices(put.signal, put.context, put.flags)?;
        let dtype = abi::data_type(put.dtype)
            .ok_or_else(|| Failure::argument(format!("datatype: {} is no type of NCCL 2.32", put.dtype)))?;
        let bytes = (put.count as u64).checked_mul(dtype.size() as u64);
        let bytes = bytes
            .ok_or_else(|| Failure::argument(format!("count: {} elements exceed the address space", put.count)))?;
        let to = find_window(comm, put.window)?.address(comm, peer, put.offset as u64, bytes)?;
        let to = to.ok_or_else(|| other_node(peer))?;
        let data = match bytes {
            0 => None,
            _ => Some((comm.memory("localbuff", put.local, bytes, dtype.size())?, Memory::internal(to, bytes))),
        };
        Ok(Self::new(comm, stream, Action::Signal { peer, data }))
    }

    /// Writes a signal of another rank.
    ///
    /// # Errors
    /// Those of the arguments.
    pub(crate) fn signal(
        comm: &Arc<Comm>,
        peer: c_int,
        [signal, context]: [c_int; 2],
        flags: c_uint,
        stream: usize,
    ) -> Result<Self> {
        let peer = check_peer(comm, peer)?;
        check_indices(signal, context, flags)?;
        Ok(Self::new(comm, stream, Action::Signal { peer, data: None }))
    }

    /// Waits for signals: each description is a number, a rank, an index and a context.
    ///
    /// # Errors
    /// Those of the arguments.
    pub(crate) fn wait(comm: &Arc<Comm>, descriptions: &[[c_int; 4]], stream: usize) -> Result<Self> {
        let wait = |&[count, peer, signal, context]: &[c_int; 4]| {
            let peer = check_peer(comm, peer)?;
            check_indices(signal, context, 0)?;
            let number = u64::try_from(count);
            let number = number.map_err(|_| Failure::argument(format!("opCnt: expected at least 0, found {count}")))?;
            Ok((number, peer))
        };
        Ok(Self::new(comm, stream, Action::Wait(descriptions.iter().map(wait).collect::<Result<_>>()?)))
    }

    pub(crate) fn comm(&self) -> &Arc<Comm> {
        &self.comm
    }

    /// Returns whether it may wait for another rank.
    pub(crate) fn is_wait(&self) -> bool {
        matches!(self.action, Action::Wait(_))
    }

    /// Makes the call. The caller excludes the watching thread.
    pub(crate) fn run(self) -> Result<()> {
        self.comm.check_known_failure()?;
        let Self { comm, stream, handle, action } = self;
        if stream.is_capturing()? {
            return Err(Failure::usage(
                "a graph cannot contain one-sided calls: each replay would send the same signals",
            ));
        }
        let own = comm.for_call()?.rank();
        // A failure ends waits, for which it needs the counters.
        let made = {
            let mut counters = lock(&comm.signals.0);
            let counters = counters.as_mut().ok_or_else(|| {
                let text = "the communicator has no signals: register a window of ncclMemAlloc's memory with \
                            NCCL_WIN_COLL_SYMMETRIC first";
                Failure::usage(text)
            })?;
            match action {
                Action::Signal { peer, data } => {
                    counters.signal(own, peer, data, &stream, handle).ok_or_else(|| other_node(peer))?
                }
                Action::Wait(waits) => counters.wait(&waits, &stream),
            }
        };
        comm.result(made)
    }
}

fn other_node(peer: u32) -> Failure {
    Failure::usage(format!(
        "peer: rank {peer} is on another node: use ncclSend and ncclRecv, or name a NCCL with {}",
        crate::forward::VARIABLE
    ))
}

/// Returns the descriptions of a wait.
///
/// # Errors
/// An invalid argument for a null or unaligned pointer and another number than 1 to 65536.
///
/// # Safety
/// A pointer that is neither must be valid for reads of `count` descriptions.
pub(crate) unsafe fn descriptions(count: c_int, at: *const c_void) -> Result<Vec<[c_int; 4]>> {
    crate::entry::check_pointer("signalDescs", at.cast::<[c_int; 4]>())?;
    let len = usize::try_from(count).ok().filter(|len| (1..=MAX_WAITS).contains(len));
    let len = len.ok_or_else(|| Failure::argument(format!("nDesc: expected 1 to {MAX_WAITS}, found {count}")))?;
    // SAFETY: guaranteed by the caller: as many structs of four integers.
    Ok(unsafe { std::slice::from_raw_parts(at.cast::<[c_int; 4]>(), len) }.to_vec())
}

impl Counters {
    /// Enqueues a write and its signal; `None` for a rank on another node.
    fn signal(
        &mut self,
        own: u32,
        peer: u32,
        data: Option<(Memory, Memory)>,
        stream: &Stream,
        handle: usize,
    ) -> Option<std::result::Result<(), Error>> {
        let at = self.peers.address(peer)? + 8 * u64::from(own);
        let of_rank = self.of_ranks.get_mut(peer as usize)?;
        let enqueue = || {
            match &of_rank.last {
                Some((last, end)) if *last != handle => stream.wait_for(end)?,
                _ => {}
            }
            if let Some((from, mut to)) = data {
                stream.copy::<u8>(&from, &mut to)?;
            }
            // SAFETY: the counters stay allocated and mapped as long as the communicator, and only stores and waits of streams
            // access them.
            unsafe { stream.write_value(at, of_rank.num_sent + 1)? };
            of_rank.num_sent += 1;
            of_rank.last = Some((handle, stream.untimed_event()?));
            Ok(())
        };
        Some(enqueue())
    }

    /// Enqueues waits.
    fn wait(&mut self, waits: &[(u64, u32)], stream: &Stream) -> std::result::Result<(), Error> {
        for (count, peer) in waits {
            let at = self.received.as_slice().address + 8 * u64::from(*peer);
            let of_rank = self.of_ranks.get_mut(*peer as usize);
            let of_rank = of_rank.ok_or_else(|| Error::Internal("a rank without signals".into()))?;
            of_rank.num_awaited += count;
            // SAFETY: as in `signal`.
            unsafe { stream.wait_value(at, of_rank.num_awaited)? };
        }
        self.remove_complete()?;
        self.waits.push(stream.untimed_event()?);
        Ok(())
    }

    fn remove_complete(&mut self) -> std::result::Result<(), Error> {
        for at in (0..self.waits.len()).rev() {
            if self.waits[at].is_complete()? {
                self.waits.swap_remove(at);
            }
        }
        Ok(())
    }

    fn is_idle(&mut self) -> std::result::Result<bool, Error> {
        self.remove_complete()?;
        let mut is_idle = self.waits.is_empty();
        for (_, end) in self.of_ranks.iter().filter_map(|rank| rank.last.as_ref()) {
            is_idle &= end.is_complete()?;
        }
        Ok(is_idle)
    }
}

impl Signals {
    /// Returns whether all calls are complete.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub(super) fn is_idle(&self) -> std::result::Result<bool, Error> {
        lock(&self.0).as_mut().map_or(Ok(true), Counters::is_idle)
    }

    /// Lets the streams continue that wait for signals, which lost ranks do not send.
    pub(super) fn release(&self) {
        let counters = lock(&self.0);
        let Some(Counters { received, of_ranks, release, .. }) = &*counters else { return };
        for rank in 0..of_ranks.len() as u64 {
            // SAFETY: as in `signal`. Without a driver nothing can be done.
            let _ = unsafe { release.write_value(received.as_slice().address + 8 * rank, RELEASED) };
        }
    }
}
