//! The group that a thread has opened: how deep it is, what it creates at its end, and why it failed.

use std::cell::RefCell;

use crate::abi::Code;
use crate::failure::{Failure, Result};

/// Creates a communicator, or registers a window of one.
pub(crate) struct Start {
    /// Handle of the one that it comes from, if any. All ranks run those of one in the same order, one after the other.
    pub(crate) parent: Option<usize>,
    /// Whether the caller does not wait for it.
    pub(crate) is_nonblocking: bool,
    pub(crate) run: Box<dyn FnOnce() -> Result<()> + Send>,
}

/// What a thread's open group holds, besides its calls.
#[derive(Default)]
struct Open {
    depth: u32,
    starts: Vec<Start>,
    /// The first call that was not valid: no call of the group is made then.
    failure: Option<Failure>,
}

/// A group that is closed, or one within it.
pub(crate) enum Closed {
    Inner,
    /// The outermost one, with the communicators that it creates; or the first call that was not valid.
    Outermost(Result<Vec<Start>>),
}

thread_local! {
    static OPEN: RefCell<Open> = RefCell::default();
}

/// Calls a function with the thread's open group. A thread that ends, in which functions that a program has registered for its exit may
/// call NCCL, has none.
fn with<T>(call: impl FnOnce(&mut Open) -> T) -> T {
    match OPEN.try_with(|_| ()) {
        Ok(()) => OPEN.with_borrow_mut(call),
        Err(_) => call(&mut Open::default()),
    }
}

fn none() -> Failure {
    Failure::usage("no group is open: ncclGroupStart opens one")
}

/// Opens a group, or one within it.
pub(crate) fn begin() {
    with(|open| open.depth += 1);
}

/// Returns whether a group is open.
pub(crate) fn is_open() -> bool {
    depth() > 0
}

/// Returns the number of open groups, one within the other.
pub(crate) fn depth() -> u32 {
    with(|open| open.depth)
}

/// Closes a group.
///
/// # Errors
/// An invalid usage if none is open.
pub(crate) fn end() -> Result<Closed> {
    with(|open| match open.depth {
        0 => Err(none()),
        1 => {
            let Open { starts, failure, .. } = std::mem::take(open);
            Ok(Closed::Outermost(failure.map_or(Ok(starts), Err)))
        }
        _ => {
            open.depth -= 1;
            Ok(Closed::Inner)
        }
    })
}

/// Closes a group and discards what it would create.
///
/// # Errors
/// As [`end`].
pub(crate) fn discard() -> Result<()> {
    with(|open| match open.depth {
        0 => Err(none()),
        _ => {
            *open = Open { depth: open.depth - 1, ..Open::default() };
            Ok(())
        }
    })
}

/// Keeps the result of a call of an open group.
pub(crate) fn note(result: Result<()>) -> Result<()> {
    result.inspect_err(|failure| {
        with(|open| {
            // What continues after the group has not failed.
            if open.depth > 0 && failure.code != Code::InProgress {
                open.failure.get_or_insert_with(|| failure.clone());
            }
        });
    })
}

/// Keeps what the group runs at its end; returns it if none is open.
pub(crate) fn defer(start: Start) -> Option<Start> {
    with(|open| match open.depth {
        0 => Some(start),
        _ => {
            open.starts.push(start);
            None
        }
    })
}
