//! Events of communicators.
//!
//! ```text
//! group of calls (ncclGroupStart to ncclGroupEnd; each call alone is one, too)
//!    call of all ranks            while it is checked
//!       call that was enqueued    parent: the call; its group: all calls that were enqueued together
//!    transfer                     while it is checked
//!       transfer that was enqueued
//!    launch                       while the host enqueues a call, or transfers that are made together
//! ```
//!
//! As with NCCL, an event may name a parent that was stopped already.

use std::cell::RefCell;
use std::ffi::{CStr, c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cudarc::driver::sys;

use super::abi::{
    Coll, CollApi, Descriptor, Detail, GROUP_END_STARTED, GROUP_START_STOPPED, GroupApi, KernelLaunch, P2p, P2pApi,
    event,
};
use super::plugin::{Plugin, mask, plugin};
use crate::entry::{Result, keep_name};
use crate::kind::Kind;

/// Number of functions that are calls of all ranks.
const NUM_COLLECTIVES: usize = 8;

/// What a plugin keeps of a communicator. The plugin frees it when this is dropped: after the last event of the communicator.
pub(crate) struct Profiler {
    plugin: &'static Plugin,
    context: usize,
    rank: c_int,
    /// Number of calls of each function that were enqueued.
    sequences: [AtomicU64; NUM_COLLECTIVES],
}

impl Drop for Profiler {
    fn drop(&mut self) {
        self.plugin.finalize(self.context);
    }
}

/// An event that was started; dropping it stops it.
pub(crate) struct Event {
    profiler: Arc<Profiler>,
    handle: usize,
}

impl Drop for Event {
    fn drop(&mut self) {
        self.profiler.plugin.stop(self.handle);
    }
}

/// The event of a group of calls; none if the plugin wants none.
pub(crate) struct Group(#[expect(dead_code, reason = "it is dropped")] Option<Event>);

thread_local! {
    /// The group that the thread has open, once it has a call.
    static GROUP: RefCell<Option<Option<Event>>> = const { RefCell::new(None) };
}

/// What a call does.
#[derive(Clone, Copy)]
pub(crate) struct Subject {
    pub(crate) kind: Kind,
    pub(crate) send: usize,
    pub(crate) recv: usize,
    /// Elements, as the caller counts them.
    pub(crate) count: usize,
    /// NCCL's number of the type.
    pub(crate) dtype: c_int,
    pub(crate) stream: usize,
    /// Tag that the caller gives the call.
    pub(crate) tag: u64,
}

/// The events of a call.
pub(crate) struct Trace {
    profiler: Arc<Profiler>,
    subject: Subject,
    /// The events that the plugin asked for when the call was made.
    mask: c_int,
    /// Handles of the parents.
    group: usize,
    api: usize,
}

/// Names of functions in events, by their numbers.
const FUNCTION_NAMES: [&CStr; 10] = [
    c"AllReduce",
    c"Reduce",
    c"ReduceScatter",
    c"Broadcast",
    c"AllGather",
    c"AlltoAll",
    c"Gather",
    c"Scatter",
    c"Send",
    c"Recv",
];

/// Returns NCCL's name of a data type.
fn dtype_name(number: c_int) -> &'static CStr {
    const NAMES: [&CStr; 12] = [
        c"ncclInt8",
        c"ncclUint8",
        c"ncclInt32",
        c"ncclUint32",
        c"ncclInt64",
        c"ncclUint64",
        c"ncclFloat16",
        c"ncclFloat32",
        c"ncclFloat64",
        c"ncclBfloat16",
        c"ncclFloat8e4m3",
        c"ncclFloat8e5m2",
    ];
    usize::try_from(number).ok().and_then(|number| NAMES.get(number).copied()).unwrap_or(c"Unknown")
}

/// Returns whether a graph is being captured on a stream.
fn is_captured(stream: usize) -> bool {
    let mut status = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    // SAFETY: the stream is one of the caller's, as NCCL demands; the driver is loaded, and writes the status.
    let code = unsafe { sys::cuStreamIsCapturing(stream as sys::CUstream, &raw mut status) };
    code == sys::CUresult::CUDA_SUCCESS && status != sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE
}

impl Profiler {
    /// Tells the plugin of a new communicator; none without a plugin, and if the plugin reports an error. `communicator` is the
    /// same number on all ranks.
    pub(crate) fn new(
        communicator: u64,
        name: Option<&str>,
        [num_nodes, num_ranks, rank]: [u32; 3],
    ) -> Option<Arc<Self>> {
        let plugin = plugin()?.as_ref().ok()?;
        let context = plugin.init(communicator, name.map(keep_name), [num_nodes, num_ranks, rank])?;
        Some(Arc::new(Self { plugin, context, rank: rank as c_int, sequences: Default::default() }))
    }

    /// Returns whether a plugin asks for events.
    pub(crate) fn is_active() -> bool {
        mask() != 0
    }

    fn start(self: &Arc<Self>, kind: c_int, parent: usize, detail: Detail) -> Option<Event> {
        let mut descriptor = Descriptor { kind: kind as u64, parent: parent as *mut c_void, rank: self.rank, detail };
        match self.plugin.start(self.context, &mut descriptor) {
            0 => None,
            handle => Some(Event { profiler: Arc::clone(self), handle }),
        }
    }
}

/// Returns the handle of an event, or 0 for none.
fn handle(event: Option<&Event>) -> usize {
    event.map_or(0, |event| event.handle)
}

/// Returns the handle of the thread's group of calls, whose event its first call starts.
fn group(profiler: &Arc<Profiler>, mask: c_int, is_captured: bool, depth: c_int) -> usize {
    GROUP.with_borrow_mut(|group| {
        let event = group.get_or_insert_with(|| {
            if mask & event::FOR_GROUP_API == 0 {
                return None;
            }
            let mut detail = Detail::NONE;
            detail.group_api = GroupApi { is_captured, depth };
            let event = profiler.start(event::GROUP_API, 0, detail)?;
            profiler.plugin.record(event.handle, GROUP_START_STOPPED);
            Some(event)
        });
        handle(event.as_ref())
    })
}

/// Starts the events of a call within `depth` groups of the caller's.
pub(crate) fn begin(profiler: Arc<Profiler>, subject: Subject, depth: u32) -> Trace {
    let (mask, is_captured) = (mask(), is_captured(subject.stream));
    let group = group(&profiler, mask, is_captured, depth as c_int + 1);
    let Subject { kind, count, dtype, tag, .. } = subject;
    let (function, dtype, stream) =
        (FUNCTION_NAMES[kind.number()], dtype_name(dtype).as_ptr(), subject.stream as *mut c_void);
    let mut detail = Detail::NONE;
    let (of_type, bits) = if kind.is_transfer() {
        detail.p2p_api = P2pApi { function: function.as_ptr(), count, dtype, stream, is_captured, tag };
        (event::P2P_API, event::FOR_P2P_API)
    } else {
        let root = root(kind);
        detail.coll_api = CollApi { function: function.as_ptr(), count, dtype, root, stream, is_captured, tag };
        (event::COLL_API, event::FOR_COLL_API)
    };
    let api = if mask & bits == 0 { None } else { profiler.start(of_type, group, detail) };
    let api = handle(api.as_ref());
    Trace { profiler, subject, mask, group, api }
}

/// Ends the thread's group of calls: its calls are made next, and its event is stopped with the result.
pub(crate) fn end_group() -> Group {
    let event = GROUP.take().flatten();
    if let Some(event) = &event {
        event.profiler.plugin.record(event.handle, GROUP_END_STARTED);
    }
    Group(event)
}

/// Returns the rank of a root, 0 for calls that have none.
fn root(kind: Kind) -> c_int {
    kind.rank().map_or(0, |(_, root)| root)
}

/// Returns the first trace of each communicator.
fn communicators(traces: &[Trace]) -> impl Iterator<Item = &Trace> {
    let is_first = |at: usize| !traces[..at].iter().any(|before| Arc::ptr_eq(&before.profiler, &traces[at].profiler));
    traces.iter().enumerate().filter(move |(at, _)| is_first(*at)).map(|(_, trace)| trace)
}

/// Starts the event of a launch, one for each communicator, of calls that are made together; dropping them stops them.
pub(crate) fn launch(traces: &[Trace]) -> Vec<Event> {
    let launch = |trace: &Trace| {
        let mut detail = Detail::NONE;
        detail.kernel_launch = KernelLaunch { stream: trace.subject.stream as *mut c_void };
        let is_wanted = trace.mask & event::KERNEL_LAUNCH != 0;
        is_wanted.then(|| trace.profiler.start(event::KERNEL_LAUNCH, trace.group, detail)).flatten()
    };
    communicators(traces).filter_map(launch).collect()
}

/// Sends the events of calls that were enqueued together: by an algorithm, or as transfers.
pub(crate) fn enqueued(traces: &[Trace], algorithm: &str) {
    let start = |trace: &Trace| {
        let is_wanted = trace.mask & event::FOR_GROUP != 0;
        is_wanted.then(|| trace.profiler.start(event::GROUP, 0, Detail::NONE)).flatten()
    };
    // Dropped last.
    let groups: Vec<_> = communicators(traces).map(|trace| (&trace.profiler, start(trace))).collect();
    let group_of = |trace: &Trace| {
        let group = groups.iter().find(|(profiler, _)| Arc::ptr_eq(profiler, &trace.profiler));
        group.map_or(0, |(_, event)| handle(event.as_ref()))
    };
    let events: Vec<_> = traces.iter().filter_map(|trace| trace.task(group_of(trace), algorithm)).collect();
    drop(events);
}

/// Makes transfers together, and sends their events.
pub(crate) fn record_transfers(traces: &[Trace], make: impl FnOnce() -> Result<()>) -> Result<()> {
    let launch = launch(traces);
    let made = make();
    drop(launch);
    if made.is_ok() && !traces.is_empty() {
        enqueued(traces, "transfers");
    }
    made
}

impl Trace {
    /// Starts the event of a call that was enqueued.
    fn task(&self, group: usize, algorithm: &str) -> Option<Event> {
        let Subject { kind, send, recv, count, dtype, tag, .. } = self.subject;
        let (number, dtype, group) = (kind.number(), dtype_name(dtype).as_ptr(), group as *mut c_void);
        let function = FUNCTION_NAMES[number].as_ptr();
        let mut detail = Detail::NONE;
        let Some(sequence) = self.profiler.sequences.get(number) else {
            let buffer = if matches!(kind, Kind::Send(_)) { send } else { recv } as *mut c_void;
            let peer = root(kind);
            detail.p2p = P2p { function, buffer, dtype, count, peer, num_channels: 0, group, tag };
            let is_wanted = self.mask & event::FOR_P2P != 0;
            return is_wanted.then(|| self.profiler.start(event::P2P, self.api, detail)).flatten();
        };
        let sequence = sequence.fetch_add(1, Ordering::Relaxed);
        if self.mask & event::FOR_COLL == 0 {
            return None;
        }
        detail.coll = Coll {
            sequence,
            function,
            send: send as *const c_void,
            recv: recv as *mut c_void,
            count,
            root: root(kind),
            dtype,
            num_channels: 0,
            num_warps: 0,
            algorithm: keep_name(algorithm).as_ptr(),
            protocol: c"Unknown".as_ptr(),
            group,
            kernel_variant: c"".as_ptr(),
            is_symmetric: false,
            tag,
        };
        self.profiler.start(event::COLL, self.api, detail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi;

    #[test]
    fn names_of_functions_are_in_the_order_of_their_numbers() {
        for (name, function) in FUNCTION_NAMES.into_iter().zip(crate::kind::FUNCTIONS) {
            assert_eq!(Ok(function), name.to_str().map(|name| format!("nccl{name}")).as_deref());
        }
    }

    #[test]
    fn names_of_types_are_in_the_order_of_their_numbers() {
        let of = |dtype| abi::data_type(dtype).expect("a type").size();
        let ends = [("8", 1), ("32", 4), ("64", 8), ("16", 2), ("e4m3", 1), ("e5m2", 1)];
        for number in 0..12 {
            let name = dtype_name(number).to_str().expect("ASCII");
            let (_, bytes) = ends.iter().find(|(end, _)| name.ends_with(end)).expect("a size");
            assert_eq!(of(number), *bytes, "{name}");
        }
        assert_eq!((dtype_name(12), dtype_name(-1)), (c"Unknown", c"Unknown"));
    }
}
