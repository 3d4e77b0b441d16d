//! Streams: their work, events, and waits for them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mscclpp_exec::cuda::calls::Priority;
use mscclpp_exec::cuda::{DriverError, Handle};

use super::work::store;
use super::{CaptureState, Code, Result, SimulatedHost, State, Work, error};

/// How long a thread that waits for a stream sleeps if the stream waits for a value.
const VALUE_INTERVAL: Duration = Duration::from_micros(200);

/// A stream.
#[derive(Default)]
pub(crate) struct Queue {
    pub(crate) device: u32,
    /// None for an ordinary stream.
    pub(crate) priority: Option<Priority>,
    pub(crate) recording: Option<CaptureState>,
    pub(crate) work: VecDeque<Work>,
    /// Numbers of its work among all that was enqueued on the host.
    pub(crate) numbers: VecDeque<u64>,
    /// Whether its first work, a kernel, runs.
    pub(crate) runs: bool,
    pub(crate) failed: Option<DriverError>,
}

impl Queue {
    /// Returns the number of its first work.
    fn first(&self) -> u64 {
        self.numbers.front().copied().unwrap_or(u64::MAX)
    }

    /// Returns the hardware queue that it may share with other streams.
    fn connection(&self) -> (u32, Option<Priority>) {
        (self.device, self.priority)
    }

    /// Removes the first work.
    pub(super) fn pop(&mut self) {
        self.work.pop_front();
        self.numbers.pop_front();
    }
}

/// The streams whose first work may be executed: of those that share a hardware queue, the one with the work that was enqueued first.
pub(super) struct Unblocked {
    /// Number of the first work of each hardware queue; `None` if each stream has one.
    firsts: Option<BTreeMap<(u32, Option<Priority>), u64>>,
}

impl Unblocked {
    pub(super) fn has(&self, queue: &Queue) -> bool {
        self.firsts.as_ref().is_none_or(|firsts| firsts.get(&queue.connection()) == Some(&queue.first()))
    }
}

/// An event; a destroyed one is removed when no work is left.
#[derive(Clone, Copy, Default)]
pub(crate) struct Event {
    pub(crate) is_timed: bool,
    pub(crate) destroyed: bool,
    pub(crate) recorded: u64,
    pub(crate) done: u64,
    /// When the last record was complete.
    pub(crate) done_at: Option<Instant>,
}

impl Event {
    pub(crate) fn is_done(self) -> bool {
        self.done >= self.recorded
    }
}

impl State {
    /// Returns which streams' first work may be executed. `one_connection`: whether streams of a device and priority share a hardware
    /// queue.
    pub(super) fn unblocked(&self, one_connection: bool) -> Unblocked {
        let mut firsts = BTreeMap::new();
        for queue in self.streams.values().filter(|_| one_connection) {
            let of_connection = firsts.entry(queue.connection()).or_insert(u64::MAX);
            *of_connection = queue.first().min(*of_connection);
        }
        Unblocked { firsts: one_connection.then_some(firsts) }
    }

    /// Rejects an event that does not exist.
    pub(crate) fn check_event(&self, call: &'static str, event: Handle) -> Result<()> {
        match self.events.get(&event.0) {
            Some(event) if !event.destroyed => Ok(()),
            _ => error(call, Code::InvalidHandle, "no such event"),
        }
    }
}

impl SimulatedHost {
    /// Enqueues work on a stream, or records it in the stream's capture, except events. If the work is executed
    /// immediately, this call returns its failure.
    pub(crate) fn put(self: &Arc<Self>, call: &'static str, stream: Handle, work: Work) -> Result<()> {
        self.enqueue(call, stream, work)?;
        self.start_kernels();
        Ok(())
    }

    /// Begins to run kernels that are first on their streams, unless the options let them wait until a thread waits for them.
    fn start_kernels(self: &Arc<Self>) {
        let state = self.state();
        if self.options.starts_at_launch && !state.running && !state.dead && state.has_kernels() {
            drop(self.begin(state));
        }
    }

    fn enqueue(self: &Arc<Self>, call: &'static str, stream: Handle, work: Work) -> Result<()> {
        let is_launch = matches!(work, Work::Launch(_));
        let is_event = matches!(work, Work::Record(..) | Work::Wait(..));
        if let Some(Queue { recording: Some(recording), .. }) = self.state().streams.get_mut(&stream.0)
            && !is_event
        {
            recording.work.push(work);
            return Ok(());
        }
        if self.options.bug == Some("early_stores") && matches!(work, Work::Store { .. }) {
            return store(&self.memory(), &work);
        }
        {
            let mut state = self.state();
            state.enqueued += 1;
            let number = state.enqueued;
            let Some(queue) = state.streams.get_mut(&stream.0) else {
                return error(call, Code::InvalidValue, "no such stream");
            };
            queue.work.push_back(work);
            queue.numbers.push_back(number);
            // The kernels that it waits for may be launched later: on another device, or by another process.
            let is_later = if is_launch { self.devices > 1 || self.options.others } else { self.options.late };
            if queue.work.len() > 1 || is_later {
                return Ok(());
            }
        }
        if is_launch {
            return self.wait(call, |_, handle| handle == stream.0);
        }
        let memory = self.memory();
        self.perform(&memory, &mut self.state());
        Ok(())
    }

    /// Records work that only graphs have in the capture of a stream.
    pub(crate) fn put_in_graph(&self, call: &'static str, stream: Handle, work: Work) -> Result<()> {
        match self.state().streams.get_mut(&stream.0) {
            Some(Queue { recording: Some(recording), .. }) => {
                recording.work.push(work);
                Ok(())
            }
            _ => error(call, Code::InvalidValue, "the stream is not captured"),
        }
    }

    /// Enqueues the record of an event on a stream.
    pub(crate) fn record(self: &Arc<Self>, event: Handle, stream: Handle) -> Result<()> {
        let recorded = {
            let mut state = self.state();
            let event = state.events.entry(event.0).or_default();
            event.recorded += 1;
            event.recorded
        };
        self.put("cuEventRecord", stream, Work::Record(event.0, recorded))
    }

    /// Enqueues a wait for the last record of an event.
    pub(crate) fn wait_event(self: &Arc<Self>, stream: Handle, event: Handle) -> Result<()> {
        if self.options.bug == Some("lost_waits") {
            return Ok(());
        }
        let recorded = self.state().events.get(&event.0).map_or(0, |event| event.recorded);
        self.put("cuStreamWaitEvent", stream, Work::Wait(event.0, recorded))
    }

    /// Removes an event: immediately, or when no work is left that may wait for it.
    pub(crate) fn destroy_event(&self, event: Handle) -> Result<()> {
        let mut state = self.state();
        state.check_event("cuEventDestroy", event)?;
        if state.streams.values().all(|queue| queue.work.is_empty()) {
            state.events.remove(&event.0);
        } else if let Some(event) = state.events.get_mut(&event.0) {
            event.destroyed = true;
        }
        Ok(())
    }

    /// Waits until some streams have no work left, and returns whether all of it succeeded. All kernels run meanwhile, on
    /// a thread of their own: those of other streams may wait for what the caller does next.
    pub(crate) fn wait(self: &Arc<Self>, call: &'static str, of: impl Fn(&Queue, usize) -> bool) -> Result<()> {
        let mut begun = false;
        let mut state = self.state();
        loop {
            if state.dead {
                return error(call, Code::IllegalAddress, "nothing is done any more");
            }
            // Where one thread does everything, the kernels that do not wait for it end first, so that a seed determines
            // the order of all accesses.
            let is_first = begun && state.running && !state.stuck;
            let waits = state.streams.iter().any(|(handle, queue)| of(queue, *handle) && !queue.work.is_empty());
            if !waits && !is_first {
                let mut queues = state.streams.iter_mut().filter(|(handle, queue)| of(queue, **handle));
                let failed = queues.find_map(|(_, queue)| queue.failed.take());
                return failed.map_or(Ok(()), |error| Err(DriverError { call, ..error }));
            }
            if state.running {
                state = self.finished.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            // A wait for an event whose record is on no stream would never end.
            if begun
                && !self.options.others
                && !state.has_delayed_work(self.options.one_connection)
                && !state.has_kernels()
            {
                return error(call, Code::Unknown, "a stream waits for what is on no other one");
            }
            if std::mem::replace(&mut begun, true) && state.waits_for_value() {
                // The thread or process that writes the value needs time.
                drop(state);
                thread::sleep(VALUE_INTERVAL);
                state = self.state();
                if state.running {
                    continue;
                }
            }
            state = self.begin(state);
        }
    }

    /// Returns whether a stream has no work left and all of it succeeded. Kernels begin to run, if none does.
    pub(crate) fn is_idle(self: &Arc<Self>, call: &'static str, stream: Handle) -> Result<bool> {
        let mut state = self.state();
        if state.dead {
            return error(call, Code::IllegalAddress, "nothing is done any more");
        }
        let Some(queue) = state.streams.get_mut(&stream.0) else {
            return error(call, Code::InvalidValue, "no such stream");
        };
        if queue.work.is_empty() {
            return queue.failed.take().map_or(Ok(true), |error| Err(DriverError { call, ..error }));
        }
        if !state.running {
            state = self.begin(state);
        }
        drop(state);
        Ok(false)
    }

    /// Begins to run kernels.
    fn begin<'a>(self: &'a Arc<Self>, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        (state.running, state.stuck) = (true, false);
        state.runs += 1;
        let seed = self.options.seed.wrapping_add(state.runs << 20);
        let last = state.runner.take();
        drop(state);
        // It has run all kernels and ends now.
        last.map(JoinHandle::join);
        let host = Arc::clone(self);
        let runner = thread::spawn(move || {
            let panics = PanicInRun(&host);
            host.run(seed);
            while !host.end_run() {
                host.run(seed);
            }
            std::mem::forget(panics);
        });
        let mut state = self.state();
        state.runner = Some(runner);
        state
    }

    /// Ends a run and returns true, unless a kernel was launched after the run had found no more: that launch began no other run.
    fn end_run(&self) -> bool {
        let mut state = self.state();
        let goes_on = self.options.starts_at_launch && state.has_startable_kernels(self.options.one_connection);
        if !goes_on {
            state.end_run();
            self.finished.notify_all();
        }
        !goes_on
    }

    /// Waits until the thread that ran kernels has ended, if it runs none.
    pub(crate) fn join(&self) {
        let runner = {
            let mut state = self.state();
            if state.running { None } else { state.runner.take() }
        };
        runner.map(JoinHandle::join);
    }

    /// Returns whether an event is complete. Delayed work makes progress with kernels, or, if none runs, with each
    /// query.
    pub(crate) fn is_done(self: &Arc<Self>, event: Handle) -> bool {
        if self.options.late && !self.state().running {
            let memory = self.memory();
            self.perform(&memory, &mut self.state());
        }
        let is_early = self.options.bug == Some("early_events");
        let mut state = self.state();
        if is_early || state.events.get(&event.0).is_none_or(|event| event.is_done()) {
            return true;
        }
        // A device makes progress also if its host only asks.
        if !state.running && !state.dead {
            state = self.begin(state);
        }
        drop(state);
        false
    }
}

impl State {
    fn end_run(&mut self) {
        self.running = false;
        if self.streams.values().all(|queue| queue.work.is_empty()) {
            self.events.retain(|_, event| !event.destroyed);
        }
    }
}

/// Tells those who wait that no kernels run any more after a panic, which makes all later calls fail.
struct PanicInRun<'a>(&'a SimulatedHost);

impl Drop for PanicInRun<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.dead = true;
        state.end_run();
        self.0.finished.notify_all();
    }
}
