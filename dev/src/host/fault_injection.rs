//! Rejected calls: by fault injection, or because they invalidate a capture.

use std::thread::{self, ThreadId};

use super::{Code, Result, SimulatedHost, Work, error};

/// State of a capture.
pub(crate) struct CaptureState {
    pub(crate) work: Vec<Work>,
    /// Thread that has begun the capture: some calls of that thread invalidate it.
    thread: ThreadId,
    spoilt: bool,
}

impl CaptureState {
    pub(crate) fn begin() -> Self {
        Self { work: Vec::new(), thread: thread::current().id(), spoilt: false }
    }

    pub(crate) fn end(self) -> Result<Vec<Work>> {
        match self.spoilt {
            true => error("cuStreamEndCapture", Code::CaptureInvalidated, "an earlier call has spoilt the capture"),
            false => Ok(self.work),
        }
    }
}

/// Calls that the driver rejects in a thread that captures a stream: they need the host, or the device to be idle.
const NOT_IN_CAPTURES: [&str; 9] = [
    "cuCtxSynchronize",
    "cuMemAlloc",
    "cuMemCreate",
    "cuMemFree",
    "cuMemFreeHost",
    "cuMemHostAlloc",
    "cuMemcpyDtoH",
    "cuMemcpyHtoD",
    "cuMemsetD8",
];

impl SimulatedHost {
    /// Counts a call, and fails if it is the one that is to fail, or if it invalidates a capture.
    pub(crate) fn count_call(&self, call: &'static str) -> Result<()> {
        if NOT_IN_CAPTURES.contains(&call) {
            let own = thread::current().id();
            self.invalidate_capture(call, |_, recording| recording.thread == own)?;
        }
        let Some((name, nth)) = self.options.failing else { return Ok(()) };
        let mut state = self.state();
        if state.dead {
            return error(call, Code::IllegalAddress, "made to fail, as all calls after the first that was");
        }
        if name != call {
            return Ok(());
        }
        state.calls += 1;
        if state.calls != nth {
            return Ok(());
        }
        state.dead = self.options.sticky;
        error(call, if state.dead { Code::IllegalAddress } else { Code::Unknown }, "made to fail")
    }

    /// Rejects a call because of captures, which it invalidates.
    pub(crate) fn invalidate_capture(
        &self,
        call: &'static str,
        of: impl Fn(usize, &CaptureState) -> bool,
    ) -> Result<()> {
        let mut state = self.state();
        let recordings =
            state.streams.iter_mut().filter_map(|(&handle, queue)| Some((handle, queue.recording.as_mut()?)));
        let spoilt = recordings.filter(|(handle, recording)| of(*handle, recording));
        let count = spoilt.map(|(_, recording)| recording.spoilt = true).count();
        match count {
            0 => Ok(()),
            _ => error(call, Code::CaptureUnsupported, "operation not permitted when stream is capturing"),
        }
    }
}
