//! The calls of a communicator, one at a time and in order, although several threads make them.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use mscclpp_core::threads;

use crate::failure::Failure;

type Job = Box<dyn FnOnce() + Send>;

/// Calls in the order in which they were made. A call without others before it is made by its own thread, all others by a thread of
/// the queue.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    /// Whether a call is being made.
    is_busy: bool,
    has_thread: bool,
    /// Threads that wait for their turn.
    num_waiting: usize,
    is_closed: bool,
}

/// Ends a call when it is dropped.
pub(crate) struct Turn<'a>(&'a Queue);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.is_busy = false;
        // To wake the thread for nothing would cost more than a short call.
        if !state.jobs.is_empty() || state.num_waiting > 0 || state.is_closed {
            drop(state);
            self.0.changed.notify_all();
        }
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the right to make a call now, if no call is before it.
    pub(crate) fn try_enter(&self) -> Option<Turn<'_>> {
        let mut state = self.lock();
        if state.is_busy || !state.jobs.is_empty() {
            return None;
        }
        state.is_busy = true;
        Some(Turn(self))
    }

    /// Waits until all calls before this one are made, and returns the right to make it.
    pub(crate) fn enter(&self) -> Turn<'_> {
        let mut state = self.lock();
        while state.is_busy || !state.jobs.is_empty() {
            state.num_waiting += 1;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.num_waiting -= 1;
        }
        state.is_busy = true;
        Turn(self)
    }

    /// Adds a call, which the thread of the queue makes.
    ///
    /// # Errors
    /// If the queue is closed, or the system gives no thread.
    pub(crate) fn push(self: &Arc<Self>, name: &str, job: Job) -> Result<(), Failure> {
        let mut state = self.lock();
        if state.is_closed {
            return Err(Failure::of_kind("invalid-input", name, "the process group was destroyed".into()));
        }
        if !state.has_thread {
            let queue = Arc::clone(self);
            let thread = threads::named("mscclpp-calls").spawn(move || queue.serve());
            thread.map_err(|error| Failure::of_kind("out-of-resources", name, format!("no thread: {error}")))?;
            state.has_thread = true;
        }
        state.jobs.push_back(job);
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// Ends the thread after the calls that were added so far.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    fn serve(&self) {
        loop {
            let mut state = self.lock();
            let job = loop {
                if !state.is_busy {
                    if let Some(job) = state.jobs.pop_front() {
                        break job;
                    }
                    if state.is_closed {
                        return;
                    }
                }
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            };
            state.is_busy = true;
            drop(state);
            let _turn = Turn(self);
            job();
        }
    }
}
