//! Captures of streams, and the resulting graphs.

use std::ffi::c_int;

use mscclpp_exec::cuda::Handle;

use super::{ask, calls, valid};
use crate::code::Code;
use crate::state::{self, called_here};

/// A thread's capture mode in which its calls do not disturb captures.
const RELAXED: c_int = 2;

calls! {
    fn cuStreamIsCapturing(stream: usize, status: *mut c_int) -> status {
        ask(|driver| driver.is_capturing(Handle(stream))).map(c_int::from)
    }

    fn cuStreamBeginCapture_v2(stream: usize, _mode: c_int) { ask(|driver| driver.begin_capture(Handle(stream))) }

    fn cuStreamEndCapture(stream: usize, graph: *mut usize) -> graph {
        ask(|driver| driver.end_capture(Handle(stream))).map(|graph| graph.0)
    }

    fn cuThreadExchangeStreamCaptureMode(mode: *mut c_int) {
        // SAFETY: the caller's pointer to a mode.
        let before = unsafe { mode.replace(0) };
        valid(before == RELAXED)?;
        ask(|driver| driver.enter_helper_thread())
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
        state::after_stores()?;
        ask(|driver| driver.launch_graph(Handle(graph), Handle(stream)))
    }
}
