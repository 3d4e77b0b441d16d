//! Captures of streams, and the resulting graphs.

use std::ffi::{c_int, c_void};

use mscclpp_exec::cuda::{CaptureMode, Handle};

use super::{ask, calls, valid};
use crate::code::{self, Code};
use crate::state::{self, called_here};
use crate::streams;

/// The modes of threads, by the driver's numbers.
const MODES: [CaptureMode; 3] = [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed];

calls! {
    fn cuStreamIsCapturing(stream: usize, status: *mut c_int) -> status {
        let stream = streams::resolve(stream)?;
        ask(|driver| driver.is_capturing(Handle(stream))).map(c_int::from)
    }

    fn cuStreamBeginCapture_v2(stream: usize, mode: c_int) {
        // The simulator has one mode for captures: calls of other threads do not invalidate them.
        valid((0..MODES.len() as c_int).contains(&mode) && stream > 2)?;
        ask(|driver| driver.begin_capture(Handle(stream)))?;
        streams::begin_capture(stream)
    }

    // The graph of a capture and its nodes exist when the capture ends.
    fn cuStreamGetCaptureInfo_v3(
        stream: usize,
        status: *mut c_int,
        id: *mut u64,
        graph: *mut usize,
        dependencies: *mut *const usize,
        edges: *mut *const c_void,
        count: *mut usize,
    ) {
        let stream = streams::resolve(stream)?;
        let is_capturing = ask(|driver| driver.is_capturing(Handle(stream)))?;
        if is_capturing && !(graph.is_null() && dependencies.is_null() && edges.is_null() && count.is_null()) {
            eprintln!("the graph of a capture that has not ended is not supported on simulated devices");
            return Err(code::NOT_SUPPORTED);
        }
        // SAFETY: guaranteed by the caller; the identifier is optional.
        unsafe {
            status.write(c_int::from(is_capturing));
            if let Some(id) = id.as_mut().filter(|_| is_capturing) {
                *id = streams::capture(stream)?.unwrap_or(0);
            }
        }
        Ok(())
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
        let stream = streams::resolve(stream)?;
        state::enqueue_on(stream)?;
        ask(|driver| driver.launch_graph(Handle(graph), Handle(stream)))
    }
}
