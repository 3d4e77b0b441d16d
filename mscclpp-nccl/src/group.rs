//! Calls that a thread makes together: between `ncclGroupStart` and `ncclGroupEnd` they are only checked, and made at the end.

use std::cell::RefCell;
use std::sync::Arc;

use crate::abi::Code;
use crate::call::{Arguments, Call};
use crate::comm::{self, Comm, Identity, OneSided, transfer};
use crate::config::CallConfig;
use crate::entry::Result;
use crate::forward::{self, Nested};
use crate::kind::Kind;
use crate::open_group::{self, Closed};
use crate::profiler;
use crate::workers;

/// A call that the real NCCL alone serves.
type Passed = Box<dyn FnOnce(&Nested) -> Result<()> + Send>;

/// A call that a group makes at its end.
enum Deferred {
    Call(Box<Call>),
    Passed(Arc<Comm>, Identity, Passed),
    OneSided(OneSided, Identity),
}

/// How a call of a group is made: those in sequence that are made alike are made together.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Path {
    Collective,
    Transfer,
    Forwarded,
    OneSided,
}

impl Deferred {
    fn comm(&self) -> &Arc<Comm> {
        match self {
            Self::Call(call) => &call.comm,
            Self::Passed(comm, ..) => comm,
            Self::OneSided(call, _) => call.comm(),
        }
    }

    /// Returns what distinguishes the communicator from all others, the same on all its ranks.
    fn identity(&self) -> Identity {
        match self {
            Self::Call(call) => call.identity(),
            Self::Passed(_, identity, _) | Self::OneSided(_, identity) => *identity,
        }
    }

    fn path(&self) -> Path {
        match self {
            Self::Call(call) if call.is_forwarded() => Path::Forwarded,
            Self::Call(call) if call.is_transfer() => Path::Transfer,
            Self::Call(_) => Path::Collective,
            Self::Passed(..) => Path::Forwarded,
            Self::OneSided(..) => Path::OneSided,
        }
    }

    /// Returns the place among the calls of a rank: of each communicator the calls of all ranks first, in their order, then the
    /// transfers by plans, then the forwarded ones, then one-sided ones, of which waits are the last. Ranks that add transfers in different orders do not wait for one another
    /// in a cycle then.
    fn order(&self) -> (Identity, u32) {
        let place = match self {
            Self::Call(call) if !call.is_transfer() => 0,
            Self::Call(call) if !call.is_forwarded() => 1,
            Self::Call(_) | Self::Passed(..) => 2,
            Self::OneSided(call, _) => {
                if call.is_wait() {
                    4
                } else {
                    3
                }
            }
        };
        (self.identity(), place)
    }

    fn run(self) -> Result<()> {
        match self {
            Self::Call(call) => call.run(),
            Self::Passed(comm, _, run) => {
                let _calling = comm.calling();
                comm.forward(run)
            }
            Self::OneSided(call, _) => {
                let comm = Arc::clone(call.comm());
                let _calling = comm.calling();
                call.run()
            }
        }
    }
}

thread_local! {
    /// The calls of the thread's open group.
    static CALLS: RefCell<Vec<Deferred>> = RefCell::default();
}

/// Closes a group; the outermost one makes its calls.
pub(crate) fn end() -> Result<()> {
    let Closed::Outermost(starts) = open_group::end()? else { return Ok(()) };
    let _profiled = profiler::end_group();
    let (calls, starts) = (CALLS.take(), starts?);
    let started = if starts.is_empty() { Ok(()) } else { comm::run_all(starts) };
    // Other ranks wait for them, whatever became of the communicators that the group creates.
    let made = make(calls);
    match started {
        Err(failure) if failure.code != Code::InProgress => Err(failure),
        started => made.and(started),
    }
}

/// Discards the calls of a group: their times are not predicted.
pub(crate) fn discard() -> Result<()> {
    open_group::discard()?;
    let _profiled = profiler::end_group();
    CALLS.take();
    Ok(())
}

/// Makes a call that the real NCCL alone serves, now or at the end of the group.
///
/// # Errors
/// Those of the call.
pub(crate) fn pass(comm: Arc<Comm>, run: impl FnOnce(&Nested) -> Result<()> + Send + 'static) -> Result<()> {
    let identity = comm.for_call()?.bootstrap().identity();
    add(Deferred::Passed(comm, identity, Box::new(run)))
}

/// Makes a one-sided call, now or at the end of the group.
///
/// # Errors
/// Those of the call.
pub(crate) fn one_sided(call: OneSided) -> Result<()> {
    let identity = call.comm().for_call()?.bootstrap().identity();
    add(Deferred::OneSided(call, identity))
}

/// Checks a call, and makes it, now or at the end of the group.
///
/// # Errors
/// Invalid arguments; those of the call.
pub(crate) fn call(kind: Kind, arguments: Arguments, config: &CallConfig) -> Result<()> {
    let comm = comm::find(arguments.comm)?;
    let mut call = Call::new(comm, kind, &arguments, config)?;
    call.profile();
    if !open_group::is_open() {
        let _profiled = profiler::end_group();
        return call.run();
    }
    add(Deferred::Call(Box::new(call)))
}

fn add(call: Deferred) -> Result<()> {
    if !open_group::is_open() {
        let _profiled = profiler::end_group();
        return call.run();
    }
    CALLS.with_borrow_mut(|calls| calls.push(call));
    Ok(())
}

/// Calls that one thread makes: those of one rank.
struct Lane {
    device: u32,
    /// Identity and handle of each communicator.
    comms: Vec<(Identity, usize)>,
    calls: Vec<Deferred>,
}

/// Makes calls: those of each rank in the order that no ranks wait for each other in a cycle, and the ranks of this process
/// at once, each in a thread of its own.
fn make(mut calls: Vec<Deferred>) -> Result<()> {
    if calls.len() <= 1 {
        return calls.pop().map_or(Ok(()), Deferred::run);
    }
    let is_of_first = |call: &Deferred| call.comm().handle == calls[0].comm().handle;
    if calls.iter().all(is_of_first) {
        return make_lane(calls);
    }
    let mut lanes: Vec<Lane> = Vec::new();
    for call in calls {
        let (device, identity, handle) = (call.comm().device.ordinal(), call.identity(), call.comm().handle);
        // Two handles of one communicator are two ranks.
        let is_other = |&(of, known): &(Identity, usize)| of == identity && known != handle;
        let lane = lanes.iter_mut().find(|lane| lane.device == device && !lane.comms.iter().any(is_other));
        match lane {
            Some(lane) => {
                if !lane.comms.contains(&(identity, handle)) {
                    lane.comms.push((identity, handle));
                }
                lane.calls.push(call);
            }
            None => lanes.push(Lane { device, comms: vec![(identity, handle)], calls: vec![call] }),
        }
    }
    if lanes.len() <= 1 {
        return lanes.pop().map_or(Ok(()), |lane| make_lane(lane.calls));
    }
    workers::run_at_once(lanes.into_iter().map(|lane| || make_lane(lane.calls)).collect())
}

/// Makes the calls of one rank. If all of them are forwarded, they are one group of the real NCCL; otherwise those that follow one
/// another in [`Deferred::order`].
///
/// # Errors
/// The first one. Later calls of the communicator on which it occurs are not made, those of other communicators are: other ranks,
/// which may not have the communicator that failed, wait for them.
fn make_lane(mut calls: Vec<Deferred>) -> Result<()> {
    let mut comms: Vec<_> = calls.iter().map(|call| Arc::clone(call.comm())).collect();
    comms.sort_by_key(|comm| comm.handle);
    comms.dedup_by_key(|comm| comm.handle);
    let _calling: Vec<_> = comms.iter().map(|comm| comm.calling()).collect();
    if calls.iter().any(|call| call.path() != Path::Forwarded) {
        calls.sort_by_key(Deferred::order);
    }
    let (mut result, mut failed) = (Ok(()), Vec::new());
    let mut calls = calls.into_iter().peekable();
    while let Some(first) = calls.next() {
        let (path, identity) = (first.path(), first.identity());
        if let (Path::Collective, Deferred::Call(call)) = (path, &first) {
            let handle = call.comm.handle;
            if !failed.contains(&handle) {
                result = result.and(call.run_collective().inspect_err(|_| failed.push(handle)));
            }
            continue;
        }
        let mut run = vec![first];
        let is_together = |next: &Deferred| match path {
            Path::Collective | Path::OneSided => false,
            Path::Transfer => next.path() == path && next.identity() == identity,
            Path::Forwarded => next.path() == path,
        };
        while let Some(next) = calls.next_if(is_together) {
            run.push(next);
        }
        run.retain(|call| !failed.contains(&call.comm().handle));
        let handles: Vec<_> = run.iter().map(|call| call.comm().handle).collect();
        let made = match path {
            Path::Collective | Path::OneSided => run.into_iter().try_for_each(|call| match call {
                Deferred::OneSided(call, _) => call.run(),
                _ => Ok(()),
            }),
            Path::Transfer => make_transfers(run),
            Path::Forwarded => make_forwarded(run),
        };
        if made.is_err() {
            failed.extend(handles);
        }
        result = result.and(made);
    }
    result
}

/// Makes transfers of one communicator by plans.
fn make_transfers(mut calls: Vec<Deferred>) -> Result<()> {
    let traces = calls.iter_mut().filter_map(|call| match call {
        Deferred::Call(call) => call.take_trace(),
        _ => None,
    });
    let traces: Vec<_> = traces.collect();
    let transfers = calls.iter().filter_map(|call| match call {
        Deferred::Call(call) => call.transfer(),
        _ => None,
    });
    profiler::record_transfers(&traces, || transfer::make_grouped(transfers.collect()))?;
    calls.iter().try_for_each(|call| match call {
        Deferred::Call(call) => call.record_event(),
        _ => Ok(()),
    })
}

/// Makes forwarded calls in one group of the real NCCL.
fn make_forwarded(calls: Vec<Deferred>) -> Result<()> {
    let Some(library) = forward::usable() else { return Ok(()) };
    let mut made = Vec::new();
    forward::group(library, || {
        calls.into_iter().try_for_each(|call| match call {
            Deferred::Call(call) => {
                call.forward()?;
                made.push(call);
                Ok(())
            }
            Deferred::Passed(comm, _, run) => comm.forward(run),
            Deferred::OneSided(..) => Ok(()),
        })
    })?;
    made.iter().try_for_each(|call| call.record_event())
}
