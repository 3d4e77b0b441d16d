//! Threads that call functions of Python when calls have ended.
//!
//! They are none of the threads that make calls: a function may make other calls and wait for them, also for their functions.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use pyo3::prelude::*;

/// Calls a function of Python.
pub(crate) type Callback = Box<dyn FnOnce(Python<'_>) + Send>;

struct State {
    waiting: VecDeque<Callback>,
    num_idle: usize,
    num_running: usize,
    /// Whether the interpreter ends: a thread that waits for it then is ended by it, in the middle of its work.
    is_ended: bool,
}

static STATE: Mutex<State> =
    Mutex::new(State { waiting: VecDeque::new(), num_idle: 0, num_running: 0, is_ended: false });
static CHANGED: Condvar = Condvar::new();

fn lock() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wait(state: MutexGuard<'static, State>) -> MutexGuard<'static, State> {
    CHANGED.wait(state).unwrap_or_else(PoisonError::into_inner)
}

/// Calls a function on an idle thread, or on a new one if all threads are in functions, which may wait for this one.
pub(crate) fn start(callback: Callback) {
    let mut state = lock();
    let needs_thread = state.num_idle <= state.waiting.len();
    if needs_thread && thread::Builder::new().name("mscclpp-callbacks".into()).spawn(serve).is_err() {
        drop(run(state, callback));
        return;
    }
    state.waiting.push_back(callback);
    drop(state);
    CHANGED.notify_all();
}

fn serve() {
    let mut state = lock();
    loop {
        state = match state.waiting.pop_front() {
            Some(callback) => run(state, callback),
            None => {
                state.num_idle += 1;
                let mut state = wait(state);
                state.num_idle -= 1;
                state
            }
        };
    }
}

/// Calls a function on this thread, unless the interpreter ends.
fn run(mut state: MutexGuard<'static, State>, callback: Callback) -> MutexGuard<'static, State> {
    if state.is_ended {
        return state;
    }
    state.num_running += 1;
    drop(state);
    Python::attach(callback);
    let mut state = lock();
    state.num_running -= 1;
    CHANGED.notify_all();
    state
}

/// Waits for the functions that are being called, and lets no other be called any more.
#[pyfunction]
pub(crate) fn end_callbacks(py: Python<'_>) {
    py.detach(|| {
        let mut state = lock();
        // These may wait for functions that are called meanwhile.
        while state.num_running > 0 {
            state = wait(state);
        }
        state.is_ended = true;
    });
}
