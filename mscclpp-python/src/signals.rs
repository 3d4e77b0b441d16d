//! Signals of Python in calls that its own thread makes.

use std::cell::RefCell;

use mscclpp_exec::process::with_interrupt_check;
use pyo3::prelude::*;

thread_local! {
    /// What the handler of a signal has raised in the current call.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Makes a call that handles signals while it waits. If a handler raises an exception, this rank aborts the communicator, and
/// [`raise_signal`] returns the exception.
pub(crate) fn interruptible<R>(call: impl FnOnce() -> R) -> R {
    with_interrupt_check(has_raised, call)
}

fn has_raised() -> bool {
    match Python::attach(|py| py.check_signals()) {
        Ok(()) => false,
        Err(error) => {
            RAISED.set(Some(error));
            true
        }
    }
}

/// Returns the exception of a handler that ran in the last call.
pub(crate) fn raise_signal() -> PyResult<()> {
    match RAISED.take() {
        Some(error) => Err(error),
        None => Ok(()),
    }
}
