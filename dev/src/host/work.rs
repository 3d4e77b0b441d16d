//! Work on streams, and the execution of work other than kernels.

use std::time::Instant;

use mscclpp_exec::cuda::Handle;

use super::{Code, Result, SimulatedHost, State, error};
use crate::alloc::SimulatedMemory;

/// A launch of a kernel.
#[derive(Clone)]
pub(crate) struct Launch {
    pub(crate) function: Handle,
    pub(crate) blocks: u32,
    pub(crate) threads: u32,
    pub(crate) argument: Vec<u64>,
}

/// Work that can be enqueued on a stream.
#[derive(Clone)]
pub(crate) enum Work {
    Launch(Launch),
    /// An event, and the number of its record.
    Record(usize, u64),
    Wait(usize, u64),
    /// A record of an event, or a wait for it, with each launch of the graph that has it; on no stream.
    RecordOfGraph(usize),
    WaitOfGraph(usize),
    Copy {
        to: u64,
        from: u64,
        bytes: u64,
    },
    Zero {
        to: u64,
        bytes: u64,
    },
    Store {
        to: u64,
        value: u64,
    },
    /// A wait until the 8 bytes are at least a value.
    WaitValue {
        at: u64,
        value: u64,
    },
}

impl State {
    /// Returns whether work other than a kernel is first on a stream and is not blocked: a later attempt executes it.
    pub(super) fn has_delayed_work(&self, one_connection: bool) -> bool {
        let unblocked = self.unblocked(one_connection);
        let mut queues = self.streams.values().filter(|queue| unblocked.has(queue));
        queues.any(|queue| match queue.work.front() {
            None | Some(Work::Launch(_)) => false,
            Some(&Work::Wait(event, recorded)) => !self.blocks(event, recorded),
            Some(_) => true,
        })
    }

    /// Returns whether a wait for a value is first on a stream, and no kernel on any.
    pub(super) fn waits_for_value(&self) -> bool {
        let mut firsts = self.streams.values().map(|queue| queue.work.front());
        !self.has_kernels() && firsts.any(|first| matches!(first, Some(Work::WaitValue { .. })))
    }

    /// Returns whether a kernel is first on a stream and is not blocked.
    pub(super) fn has_startable_kernels(&self, one_connection: bool) -> bool {
        let unblocked = self.unblocked(one_connection);
        let mut queues = self.streams.values().filter(|queue| unblocked.has(queue));
        queues.any(|queue| matches!(queue.work.front(), Some(Work::Launch(_))))
    }

    /// Returns whether a kernel is first on a stream.
    pub(super) fn has_kernels(&self) -> bool {
        self.streams.values().any(|queue| matches!(queue.work.front(), Some(Work::Launch(_))))
    }

    /// Returns whether a wait for a record of an event is blocked. A wait for an event that was never recorded is not.
    fn blocks(&self, event: usize, recorded: u64) -> bool {
        self.events.get(&event).is_some_and(|event| event.done < recorded)
    }
}

impl SimulatedHost {
    /// Executes work that is first on any stream and is no kernel; of delayed work, at random times one on each stream.
    pub(super) fn perform(&self, memory: &SimulatedMemory, state: &mut State) {
        state.turns += 1;
        let turns = state.turns;
        let is_now = |stream: usize| {
            let mixed = (self.options.seed ^ turns).wrapping_add(stream as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            !self.options.late || mixed >> 62 == 0
        };
        let one_connection = self.options.one_connection;
        let mut goes_on = true;
        while std::mem::take(&mut goes_on) {
            let unblocked = state.unblocked(one_connection);
            let State { streams, events, .. } = &mut *state;
            for (_, queue) in streams.iter_mut().filter(|(stream, queue)| is_now(**stream) && unblocked.has(queue)) {
                while let Some(first) = queue.work.front() {
                    match *first {
                        Work::Launch(_) => break,
                        Work::Wait(event, recorded) => {
                            if events.get(&event).is_some_and(|event| event.done < recorded) {
                                break;
                            }
                        }
                        Work::WaitValue { at, value } => match reaches(memory, at, value) {
                            Ok(true) => {}
                            Ok(false) => break,
                            Err(error) => _ = queue.failed.get_or_insert(error),
                        },
                        Work::Record(event, recorded) => {
                            let event = events.entry(event).or_default();
                            event.done = event.done.max(recorded);
                            event.done_at = Some(Instant::now());
                            goes_on = true;
                        }
                        ref other => {
                            // A stream may wait for the value.
                            goes_on |= matches!(other, Work::Store { .. });
                            if let Err(error) = store(memory, other) {
                                queue.failed.get_or_insert(error);
                            }
                        }
                    }
                    queue.pop();
                    // Work on another stream may have been enqueued before the next one.
                    goes_on |= one_connection;
                    if self.options.late || one_connection {
                        break;
                    }
                }
            }
            goes_on &= !self.options.late;
        }
    }
}

/// Executes a copy or a store.
pub(super) fn store(memory: &SimulatedMemory, work: &Work) -> Result<()> {
    let check = |call, address, bytes| {
        if bytes == 0 || memory.holds(address, bytes) {
            return Ok(());
        }
        error(call, Code::IllegalAddress, format!("{bytes} bytes at {address:#x} are no longer allocated"))
    };
    match *work {
        Work::Copy { to, from, bytes } => {
            check("cuMemcpyAsync", to, bytes)?;
            check("cuMemcpyAsync", from, bytes)?;
            // SAFETY: allocated, as just checked.
            unsafe { (to as *mut u8).copy_from(from as *const u8, bytes as usize) };
        }
        Work::Zero { to, bytes } => {
            check("cuMemsetD8Async", to, bytes)?;
            // SAFETY: allocated, as just checked.
            unsafe { (to as *mut u8).write_bytes(0, bytes as usize) };
        }
        Work::Store { to, value } => {
            check("cuStreamWriteValue64", to, 8)?;
            // SAFETY: allocated, as just checked; counters are aligned.
            unsafe { &*(to as *const std::sync::atomic::AtomicU64) }.store(value, std::sync::atomic::Ordering::Release);
        }
        Work::Launch(_) | Work::Record(..) | Work::Wait(..) | Work::WaitValue { .. } => {}
        Work::RecordOfGraph(_) | Work::WaitOfGraph(_) => {}
    }
    Ok(())
}

/// Returns whether the 8 bytes at an address are at least a value.
fn reaches(memory: &SimulatedMemory, at: u64, value: u64) -> Result<bool> {
    if !memory.holds(at, 8) {
        return error(
            "cuStreamWaitValue64",
            Code::IllegalAddress,
            format!("8 bytes at {at:#x} are no longer allocated"),
        );
    }
    // SAFETY: allocated, as just checked; counters are aligned.
    let found = unsafe { &*(at as *const std::sync::atomic::AtomicU64) }.load(std::sync::atomic::Ordering::Acquire);
    Ok(found.wrapping_sub(value).cast_signed() >= 0)
}
