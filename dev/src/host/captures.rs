//! Captures, and the calls that invalidate them.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, ThreadId};

use mscclpp_exec::cuda::CaptureMode;

use super::{Code, Result, SimulatedHost, State, Work, error};

thread_local! {
    /// The mode of the thread, on all hosts.
    static MODE: Cell<CaptureMode> = const { Cell::new(CaptureMode::Global) };
}

/// Sets the mode of the thread, and returns its mode before.
pub(crate) fn exchange_mode(mode: CaptureMode) -> CaptureMode {
    MODE.replace(mode)
}

/// State of a capture.
pub(crate) struct CaptureState {
    pub(crate) work: Vec<Work>,
    /// No other capture has it.
    pub(crate) id: u64,
    /// Thread that has begun the capture.
    thread: ThreadId,
    /// Whether unsafe calls of other threads invalidate it too.
    is_global: bool,
    invalidated: bool,
}

impl CaptureState {
    fn begin(is_global: bool) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(1);
        let id = COUNT.fetch_add(1, Ordering::Relaxed);
        Self { work: Vec::new(), id, thread: thread::current().id(), is_global, invalidated: false }
    }

    pub(crate) fn end(self) -> Result<Vec<Work>> {
        match self.invalidated {
            true => {
                error("cuStreamEndCapture", Code::CaptureInvalidated, "an earlier call has invalidated the capture")
            }
            false => Ok(self.work),
        }
    }

    /// Returns whether an unsafe call of this thread invalidates it.
    fn excludes_unsafe_calls(&self) -> bool {
        let is_own = self.thread == thread::current().id();
        match MODE.get() {
            CaptureMode::Relaxed => false,
            CaptureMode::ThreadLocal => is_own,
            CaptureMode::Global => is_own || self.is_global,
        }
    }
}

/// Unsafe calls, which concern no captured stream but need the device or the host at once. Clearing and copying memory without
/// a stream are unsafe too: they wait.
const UNSAFE: [&str; 16] = [
    "cuEventQuery",
    "cuIpcCloseMemHandle",
    "cuIpcOpenMemHandle",
    "cuMemAlloc",
    "cuMemCreate",
    "cuMemFree",
    "cuMemFreeHost",
    "cuMemHostAlloc",
    "cuMemUnmap",
    "cuMemcpyDtoHAsync",
    "cuMemcpyHtoDAsync",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuMulticastBindMem",
    "cuStreamQuery",
    "cuStreamSynchronize",
];

impl SimulatedHost {
    /// Begins a capture of a stream.
    pub(crate) fn begin_capture(&self, stream: usize) {
        let mut state = self.state();
        if let Some(queue) = state.streams.get_mut(&stream) {
            queue.recording = Some(CaptureState::begin(self.options.global_captures));
            self.may_capture.store(true, Ordering::Release);
        }
    }

    /// Rejects an unsafe call of this thread while there are captures that it would invalidate, which it does.
    pub(crate) fn check_unsafe(&self, call: &'static str) -> Result<()> {
        self.invalidate_captures(call, |_, _, capture| capture.excludes_unsafe_calls())
    }

    pub(crate) fn is_unsafe(call: &str) -> bool {
        UNSAFE.contains(&call)
    }

    /// Rejects a wait for a stream that is captured, in any mode.
    pub(crate) fn check_wait_for_stream(&self, call: &'static str, stream: usize) -> Result<()> {
        self.invalidate_captures(call, |handle, _, _| handle == stream)
    }

    /// Rejects a wait for a device that has a captured stream, in any mode.
    pub(crate) fn check_wait_for_device(&self, call: &'static str, device: u32) -> Result<()> {
        self.check_unsafe(call)?;
        self.invalidate_captures(call, |_, of, _| of == device)
    }

    /// Rejects a call because of captures, given by their streams and devices, which it invalidates.
    fn invalidate_captures(&self, call: &'static str, of: impl Fn(usize, u32, &CaptureState) -> bool) -> Result<()> {
        // Threads that serve devices make such calls all the time.
        if !self.may_capture.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut state = self.state();
        let State { streams, .. } = &mut *state;
        let mut is_rejected = false;
        let mut is_capturing = false;
        for (&handle, queue) in streams {
            let device = queue.device;
            is_capturing |= queue.recording.is_some();
            if let Some(capture) = queue.recording.as_mut().filter(|capture| of(handle, device, capture)) {
                capture.invalidated = true;
                is_rejected = true;
            }
        }
        self.may_capture.store(is_capturing, Ordering::Release);
        match is_rejected {
            true => error(call, Code::CaptureUnsupported, "operation not permitted when stream is capturing"),
            false => Ok(()),
        }
    }
}
