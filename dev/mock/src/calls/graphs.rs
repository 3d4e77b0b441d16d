//! Captures of streams, and the resulting graphs.

use std::cell::Cell;
use std::ffi::{c_int, c_void};

use mscclpp_exec::cuda::{CaptureMode, Handle};

use super::{ask, calls, give_optional, valid};
use crate::code::{self, Code};
use crate::state::{self, called_here};
use crate::{captures, streams};

/// The modes of threads, by the driver's numbers.
const MODES: [CaptureMode; 3] = [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed];

thread_local! {
    /// The operation that the thread's last query of a capture has returned.
    static LAST_NODE: Cell<usize> = const { Cell::new(0) };
}

calls! {
    fn cuStreamIsCapturing(stream: usize, status: *mut c_int) -> status {
        let stream = streams::resolve(stream)?;
        ask(|driver| driver.is_capturing(Handle(stream))).map(c_int::from)
    }

    fn cuStreamBeginCapture_v2(stream: usize, mode: c_int) {
        // The simulator has one mode for captures: calls of other threads do not invalidate them.
        valid((0..MODES.len() as c_int).contains(&mode) && stream > 2)?;
        captures::begin(stream)
    }

    // The dependencies remain valid until the next query of this thread; their edges have no data.
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
        let capture = captures::of(stream)?;
        // It may be made to fail.
        ask(|driver| driver.capture_id(Handle(stream)))?;
        // SAFETY: guaranteed by the caller; all but the status are optional.
        unsafe {
            status.write(c_int::from(capture.is_some()));
            if let Some(capture) = capture {
                let last = capture.last_node();
                LAST_NODE.set(last.unwrap_or(0));
                give_optional(id, capture.id);
                give_optional(graph, capture.graph);
                give_optional(dependencies, LAST_NODE.with(|node| node.as_ptr().cast_const()));
                give_optional(edges, std::ptr::null());
                give_optional(count, usize::from(last.is_some()));
            }
        }
        Ok(())
    }

    fn cuStreamEndCapture(stream: usize, graph: *mut usize) -> graph {
        captures::end(stream)
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

    fn cuGraphInstantiateWithFlags(made: *mut usize, graph: usize, _flags: u64) -> made {
        called_here("cuGraphInstantiate")?;
        captures::instantiate(graph)
    }

    fn cuGraphDestroy(graph: usize) { captures::destroy(graph) }

    fn cuGraphGetNodes(graph: usize, nodes: *mut usize, count: *mut usize) -> count {
        if !nodes.is_null() {
            eprintln!("handles of a graph's operations are not supported on simulated devices");
            return Err(code::NOT_SUPPORTED);
        }
        captures::num_nodes(graph)
    }

    fn cuGraphExecDestroy(graph: usize) { ask(|driver| driver.destroy_graph(Handle(graph))) }

    fn cuGraphLaunch(graph: usize, stream: usize) {
        let stream = streams::resolve(stream)?;
        captures::count(stream)?;
        state::enqueue_on(stream)?;
        ask(|driver| driver.launch_graph(Handle(graph), Handle(stream)))
    }
}
