//! The default stream of a device, and the streams that synchronize with it.
//!
//! The simulator has streams that do not synchronize with one another. Work of the default stream is ordered with that of the
//! other kind of streams by events.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use mscclpp_exec::cuda::Handle;

use crate::calls::ask;
use crate::code::Code;
use crate::{captures, state};

/// Handles of the default stream: that of calls without a stream, and `CU_STREAM_LEGACY`.
const DEFAULT: [usize; 2] = [0, 1];

/// `CU_STREAM_PER_THREAD`.
const PER_THREAD: usize = 2;

/// The default stream of a device, and the streams that synchronize with it.
#[derive(Default)]
pub(crate) struct Streams {
    /// The simulator's stream, created at its first use.
    pub(crate) default: Option<Handle>,
    /// Streams that were created without `CU_STREAM_NON_BLOCKING`.
    blocking: BTreeSet<usize>,
    priorities: BTreeMap<usize, i32>,
}

/// Returns the simulator's stream for a handle: where the stream joined a capture, that of the capture.
///
/// # Errors
/// Those of the creation of a stream.
pub(crate) fn resolve(stream: usize) -> Result<usize, Code> {
    if stream == PER_THREAD {
        return captures::origin(of_thread()?);
    }
    if !DEFAULT.contains(&stream) {
        return captures::origin(stream);
    }
    if let Some(known) = state::here(|device| device.streams.default)? {
        return Ok(known.0);
    }
    let created = ask(|driver| driver.create_stream())?;
    let used = state::here(|device| *device.streams.default.get_or_insert(created))?;
    if used != created {
        // Another thread has created it in the meantime.
        ask(|driver| driver.destroy_stream(created))?;
    }
    Ok(used.0)
}

/// Returns the default stream of the calling thread on its device, which its first use creates.
fn of_thread() -> Result<usize, Code> {
    thread_local! {
        /// By device.
        static STREAMS: RefCell<BTreeMap<usize, usize>> = const { RefCell::new(BTreeMap::new()) };
    }
    let device = state::context();
    if let Some(known) = STREAMS.with_borrow(|streams| streams.get(&device).copied()) {
        return Ok(known);
    }
    let Handle(created) = ask(|driver| driver.create_stream())?;
    add(created, true, 0)?;
    STREAMS.with_borrow_mut(|streams| streams.insert(device, created));
    Ok(created)
}

/// Records whether a new stream synchronizes with the default stream, and its priority.
pub(crate) fn add(stream: usize, is_blocking: bool, priority: i32) -> Result<(), Code> {
    state::here(|device| {
        if is_blocking {
            device.streams.blocking.insert(stream);
        }
        device.streams.priorities.insert(stream, priority);
    })
}

/// Returns the priority of a stream; that of the default stream is 0.
pub(crate) fn priority(stream: usize) -> Result<i32, Code> {
    state::here(|device| device.streams.priorities.get(&stream).copied().unwrap_or(0))
}

/// Removes a stream that is destroyed.
pub(crate) fn remove(stream: usize) -> Result<(), Code> {
    state::here(|device| {
        device.streams.blocking.remove(&stream);
        device.streams.priorities.remove(&stream);
    })
}

/// Lets a stream wait for the work of the streams that it synchronizes with, before work is enqueued on it.
pub(crate) fn order(stream: usize) -> Result<(), Code> {
    let awaited: Vec<usize> = state::here(|device| {
        let Some(Handle(default)) = device.streams.default else { return Vec::new() };
        let blocking = &device.streams.blocking;
        let others: Vec<usize> = match stream == default {
            true => blocking.iter().copied().collect(),
            false => blocking.get(&stream).map(|_| default).into_iter().collect(),
        };
        others.into_iter().filter(|&other| device.is_pending(other)).collect()
    })?;
    for other in awaited {
        state::store_now(Some(other))?;
        let event = ask(|driver| driver.create_event())?;
        let ordered = ask(|driver| driver.record(event, Handle(other)))
            .and_then(|()| ask(|driver| driver.wait_event(Handle(stream), event)));
        ask(|driver| driver.destroy_event(event)).and(ordered)?;
        state::here(|device| device.mark_pending(stream))?;
    }
    Ok(())
}
