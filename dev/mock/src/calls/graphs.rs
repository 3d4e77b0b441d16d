//! Captures of streams, and the resulting graphs.

use std::ffi::c_int;

use mscclpp_exec::cuda::{CaptureMode, Handle};

use super::{ask, calls, valid};
use crate::code::Code;
use crate::state::{self, called_here};

/// The modes of threads, by the driver's numbers.
const MODES: [CaptureMode; 3] = [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed];

/// The mode in which the executor begins captures.
const THREAD_LOCAL: c_int = 1;

calls! {
    fn cuStreamIsCapturing(stream: usize, status: *mut c_int) -> status {
        ask(|driver| driver.is_capturing(Handle(stream))).map(c_int::from)
    }

    fn cuStreamBeginCapture_v2(stream: usize, mode: c_int) {
        valid(mode == THREAD_LOCAL)?;
        ask(|driver| driver.begin_capture(Handle(stream)))
    }

    fn cuStreamEndCapture(stream: usize, graph: *mut usize) -> graph {
        ask(|driver| driver.end_capture(Handle(stream))).map(|graph| graph.0)
    }

    fn cuThreadExchangeStreamCaptureMode(mode: *mut c_int) {
        // SAFETY: the caller's pointer to a mode.
        let wanted = usize::try_from(unsafe { mode.read() }).ok().and_then(|mode| MODES.get(mode));
        valid(wanted.is_some())?;
        let before = ask(|driver| driver.exchange_capture_mode(*wanted.unwrap_or(&CaptureMode::Global)))?;
        let before = MODES.iter().position(|mode| *mode == before).unwrap_or_default();
        // SAFETY: as above.
        unsafe { mode.write(before as c_int) };
        Ok(())
    }

    // The simulator's graphs are ready when they are created: instantiating returns the same handle, and destroying the
    // first handle has no effect.
    fn cuGraphInstantiateWithFlags(made: *mut usize, graph: usize, _flags: u64) -> made {
        if let Err(code) = called_here("cuGraphInstantiate") {
            // Destroying the remaining handle destroys the graph.
            ask(|driver| driver.destroy_graph(Handle(graph)))?;
            return Err(code);
        }
        Ok(graph)
    }

    fn cuGraphDestroy(_graph: usize) { Ok(()) }

    fn cuGraphExecDestroy(graph: usize) { ask(|driver| driver.destroy_graph(Handle(graph))) }

    fn cuGraphLaunch(graph: usize, stream: usize) {
        state::enqueue_on(stream)?;
        ask(|driver| driver.launch_graph(Handle(graph), Handle(stream)))
    }
}
