//! Calls that are made while Python does something else.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

use crate::callbacks;
use crate::failure::Failure;

/// How long a thread of Python waits before it handles signals.
pub(crate) const SIGNAL_INTERVAL: Duration = Duration::from_millis(100);

/// The result of a call, once it is there.
#[derive(Default)]
pub(crate) struct Completion {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    result: Option<Result<u32, Failure>>,
    callbacks: Vec<Py<PyAny>>,
}

impl Completion {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the result: the rank that data came from, where that was open.
    pub(crate) fn finish(&self, result: Result<u32, Failure>) {
        let mut state = self.lock();
        if state.result.is_some() {
            return;
        }
        state.result = Some(result.clone());
        let callbacks = std::mem::take(&mut state.callbacks);
        drop(state);
        self.changed.notify_all();
        if !callbacks.is_empty() {
            callbacks::start(Box::new(move |py| {
                callbacks.iter().for_each(|callback| call_back(py, callback, result.clone()));
            }));
        }
    }

    /// Returns whether the call has ended.
    pub(crate) fn is_finished(&self) -> bool {
        self.lock().result.is_some()
    }

    /// Returns the result if it is there within a time.
    pub(crate) fn wait_for(&self, time: Duration) -> Option<Result<u32, Failure>> {
        let state = self.lock();
        let waiting = |state: &mut State| state.result.is_none();
        let (state, _) = self.changed.wait_timeout_while(state, time, waiting).unwrap_or_else(PoisonError::into_inner);
        state.result.clone()
    }

    /// Waits with the GIL released, and handles signals of Python.
    pub(crate) fn wait(&self, py: Python<'_>, name: &str, timeout: Option<Duration>) -> PyResult<u32> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            let rest = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let time = rest.map_or(SIGNAL_INTERVAL, |rest| rest.min(SIGNAL_INTERVAL));
            if let Some(result) = py.detach(|| self.wait_for(time)) {
                return result.map_err(PyErr::from);
            }
            py.check_signals()?;
            if rest.is_some_and(|rest| rest.is_zero()) {
                let waited = timeout.unwrap_or_default().as_secs_f64();
                let message = format!("expected the call to end within {waited} s, which it did not; it is still made");
                return Err(Failure::of_kind("timeout", name, message).into());
            }
        }
    }
}

fn call_back(py: Python<'_>, callback: &Py<PyAny>, result: Result<u32, Failure>) {
    let error = result.err().map(PyErr::from);
    if let Err(error) = callback.call1(py, (error,)) {
        error.write_unraisable(py, Some(callback.bind(py)));
    }
}

/// What a thread that waits for a transfer does for the receives of this rank.
pub(crate) trait Helper: Send + Sync {
    /// Helps a thread that waits for a call.
    fn help(&self, completion: &Completion);

    /// Lets receives be made although no thread waits for them.
    fn leave(&self);
}

/// A call that was started.
#[pyclass(name = "Work", module = "mscclpp_rs._native", frozen)]
pub(crate) struct PyWork {
    pub(crate) completion: Arc<Completion>,
    pub(crate) name: &'static str,
    /// What a thread that waits for a transfer does meanwhile.
    pub(crate) helper: Option<Box<dyn Helper>>,
}

impl PyWork {
    /// Lets the call be made although no thread waits for it.
    fn leave(&self) {
        if let Some(helper) = &self.helper {
            helper.leave();
        }
    }
}

#[pymethods]
impl PyWork {
    /// Whether the call is a send.
    #[getter]
    fn is_send(&self) -> bool {
        self.name == "send"
    }

    /// Waits until the call has ended, at most `timeout` milliseconds unless it is negative. Returns the rank that the data of a
    /// receive came from, 0 for other calls. Raises the exception of the call, and `TimeoutError` of this package.
    fn wait(&self, py: Python<'_>, timeout: i64) -> PyResult<u32> {
        let timeout = u64::try_from(timeout).ok().map(Duration::from_millis);
        if let Some(helper) = &self.helper {
            py.detach(|| helper.help(&self.completion));
        }
        self.completion.wait(py, self.name, timeout)
    }

    /// Returns whether the call has ended.
    fn is_completed(&self) -> bool {
        let is_finished = self.completion.is_finished();
        if !is_finished {
            self.leave();
        }
        is_finished
    }

    /// Returns the exception of the call, `None` before its end and for a call that succeeded.
    fn exception(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let failure = self.completion.lock().result.clone()?.err()?;
        Some(PyErr::from(failure).into_value(py).into_any())
    }

    /// Calls `callback` with the exception of the call or `None` when it has ended, at once if it has.
    fn then(&self, py: Python<'_>, callback: Py<PyAny>) {
        self.leave();
        let mut state = self.completion.lock();
        match state.result.clone() {
            Some(result) => {
                drop(state);
                call_back(py, &callback, result);
            }
            None => state.callbacks.push(callback),
        }
    }
}
