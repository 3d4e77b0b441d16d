//! Captures of streams, and the resulting graphs.

use std::ffi::{c_int, c_void};

use crate::driver;
use crate::error::{self, Code};
use crate::runtime::runtime;
use crate::user_objects;

/// Instantiates a graph. The instance keeps the objects of the graph.
fn instantiate(graph: usize, flags: u64) -> Result<usize, Code> {
    let instance = driver::cuGraphInstantiateWithFlags(graph, flags)?;
    user_objects::instantiate(graph, instance);
    Ok(instance)
}

runtime! {
    fn cudaStreamIsCapturing(stream: usize, status: *mut c_int) -> status { driver::cuStreamIsCapturing(stream) }

    fn cudaStreamBeginCapture(stream: usize, mode: c_int) { driver::cuStreamBeginCapture_v2(stream, mode) }

    fn cudaStreamEndCapture(stream: usize, graph: *mut usize) -> graph { driver::cuStreamEndCapture(stream) }

    fn cudaStreamGetCaptureInfo(
        stream: usize,
        status: *mut c_int,
        id: *mut u64,
        graph: *mut usize,
        dependencies: *mut *const usize,
        edges: *mut *const c_void,
        count: *mut usize,
    ) {
        if status.is_null() {
            return Err(error::INVALID_VALUE);
        }
        // SAFETY: guaranteed by the caller.
        unsafe { driver::cuStreamGetCaptureInfo_v3(stream, status, id, graph, dependencies, edges, count) }
    }

    fn cudaThreadExchangeStreamCaptureMode(mode: *mut c_int) {
        if mode.is_null() {
            return Err(error::INVALID_VALUE);
        }
        // SAFETY: guaranteed by the caller.
        unsafe { driver::cuThreadExchangeStreamCaptureMode(mode) }
    }

    fn cudaGraphInstantiate(made: *mut usize, graph: usize, flags: u64) -> made {
        instantiate(graph, flags)
    }

    fn cudaGraphInstantiateWithFlags(made: *mut usize, graph: usize, flags: u64) -> made {
        instantiate(graph, flags)
    }

    fn cudaGraphLaunch(graph: usize, stream: usize) { driver::cuGraphLaunch(graph, stream) }

    fn cudaGraphExecDestroy(graph: usize) { driver::cuGraphExecDestroy(graph).and_then(|()| user_objects::destroy(graph)) }

    fn cudaGraphGetNodes(graph: usize, nodes: *mut usize, count: *mut usize) {
        if count.is_null() {
            return Err(error::INVALID_VALUE);
        }
        // SAFETY: guaranteed by the caller.
        unsafe { driver::cuGraphGetNodes(graph, nodes, count) }
    }

    fn cudaGraphDestroy(graph: usize) { driver::cuGraphDestroy(graph).and_then(|()| user_objects::destroy(graph)) }
}
