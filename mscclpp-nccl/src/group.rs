//! Calls that a thread makes together: between `ncclGroupStart` and `ncclGroupEnd` they are only checked, and made at the end.

use std::cell::RefCell;
use std::thread;

use mscclpp_exec::Group;

use crate::call::Call;
use crate::comm;
use crate::entry::{Failure, Result, panicked};

/// Creates a communicator.
pub(crate) type Start = Box<dyn FnOnce() -> Result<()> + Send>;

/// What a thread's open group holds.
#[derive(Default)]
struct Open {
    depth: u32,
    starts: Vec<Start>,
    calls: Vec<Call>,
    /// The first call that was not valid: no call of the group is made then.
    failure: Option<Failure>,
}

thread_local! {
    static OPEN: RefCell<Open> = RefCell::default();
}

/// Opens a group, or one within it.
pub(crate) fn begin() {
    OPEN.with_borrow_mut(|open| open.depth += 1);
}

/// Closes a group; the outermost one makes its calls.
pub(crate) fn end() -> Result<()> {
    let Some(Open { starts, calls, failure, .. }) = OPEN.with_borrow_mut(|open| match open.depth {
        0 => Err(Failure::usage("no group is open: ncclGroupStart opens one")),
        1 => Ok(Some(std::mem::take(open))),
        _ => {
            open.depth -= 1;
            Ok(None)
        }
    })?
    else {
        return Ok(());
    };
    if let Some(failure) = failure {
        return Err(failure);
    }
    if !starts.is_empty() {
        comm::run_all(starts)?;
    }
    make(calls)
}

/// Discards the calls of a group: their times are not predicted.
pub(crate) fn discard() -> Result<()> {
    OPEN.with_borrow_mut(|open| match open.depth {
        0 => Err(Failure::usage("no group is open: ncclGroupStart opens one")),
        _ => {
            *open = Open { depth: open.depth - 1, ..Open::default() };
            Ok(())
        }
    })
}

/// Keeps the result of a call of an open group.
pub(crate) fn note(result: Result<()>) -> Result<()> {
    result.inspect_err(|failure| {
        OPEN.with_borrow_mut(|open| {
            if open.depth > 0 {
                open.failure.get_or_insert_with(|| failure.clone());
            }
        });
    })
}

/// Creates a communicator, now or at the end of the group.
pub(crate) fn start(start: Start) -> Result<()> {
    let now = OPEN.with_borrow_mut(|open| match open.depth {
        0 => Some(start),
        _ => {
            open.starts.push(start);
            None
        }
    });
    now.map_or(Ok(()), |start| start())
}

/// Makes a call, now or at the end of the group.
pub(crate) fn call(call: Call) -> Result<()> {
    let now = OPEN.with_borrow_mut(|open| match open.depth {
        0 => Some(call),
        _ => {
            open.calls.push(call);
            None
        }
    });
    now.map_or(Ok(()), Call::run)
}

/// Calls that one thread makes: those of one rank.
struct Lane {
    device: u32,
    /// Number and handle of each communicator.
    comms: Vec<(u64, usize)>,
    calls: Vec<Call>,
}

/// Makes calls: those of each rank in the order that no ranks wait for each other in a cycle, and the ranks of this process
/// at once, each in a thread.
fn make(mut calls: Vec<Call>) -> Result<()> {
    if calls.len() <= 1 {
        return calls.pop().map_or(Ok(()), Call::run);
    }
    let mut lanes: Vec<Lane> = Vec::new();
    for call in calls {
        let (device, number, handle) = (call.comm.device.ordinal(), call.number(), call.comm.handle);
        // Two handles of one communicator are two ranks.
        let is_other = |&(of, known): &(u64, usize)| of == number && known != handle;
        let lane = lanes.iter_mut().find(|lane| lane.device == device && !lane.comms.iter().any(is_other));
        match lane {
            Some(lane) => {
                if !lane.comms.contains(&(number, handle)) {
                    lane.comms.push((number, handle));
                }
                lane.calls.push(call);
            }
            None => lanes.push(Lane { device, comms: vec![(number, handle)], calls: vec![call] }),
        }
    }
    if lanes.len() <= 1 {
        return lanes.pop().map_or(Ok(()), |lane| make_lane(lane.calls));
    }
    thread::scope(|scope| {
        let threads: Vec<_> = lanes.into_iter().map(|lane| scope.spawn(|| make_lane(lane.calls))).collect();
        // All of them are joined, also if one fails.
        let mut result = Ok(());
        for thread in threads {
            result = result.and(thread.join().unwrap_or_else(|panic| Err(panicked(&*panic))));
        }
        result
    })
}

/// Makes the calls of one rank.
fn make_lane(mut calls: Vec<Call>) -> Result<()> {
    let mut comms: Vec<_> = calls.iter().map(|call| std::sync::Arc::clone(&call.comm)).collect();
    comms.sort_by_key(|comm| comm.handle);
    comms.dedup_by_key(|comm| comm.handle);
    let _calling: Vec<_> = comms.iter().map(|comm| comm.calling()).collect();
    let mut group = Group::new();
    calls.iter_mut().for_each(|call| call.add(&mut group));
    match group.run() {
        Ok(()) => Ok(()),
        // The first communicator stands for the group: which call failed is in the text.
        Err(error) => comms.first().map_or_else(|| Ok(()), |comm| comm.result(Err(error))),
    }
}
