//! Captures and graphs.

use std::mem::MaybeUninit;
use std::ptr::null_mut;

use cudarc::driver::{result, sys};

use super::{Cuda, functions, named, stream};
use crate::driver::calls::Graphs;
use crate::driver::{CaptureMode, Handle, Result};

impl Graphs for Cuda {
    fn is_capturing(&self, handle: Handle) -> Result<bool> {
        let _current = self.enter()?;
        // SAFETY: the caller's stream.
        let status = named("cuStreamIsCapturing", unsafe { result::stream::is_capturing(stream(handle)) })?;
        Ok(status != sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE)
    }

    fn capture_id(&self, handle: Handle) -> Result<Option<u64>> {
        if !functions::has_capture_ids() {
            return Ok(None);
        }
        let _current = self.enter()?;
        let (mut status, mut id) = (sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE, 0);
        let (graph, nodes, edges, count) = (null_mut(), null_mut(), null_mut(), null_mut());
        // SAFETY: the caller's stream; what is null is not written.
        let called =
            unsafe { sys::cuStreamGetCaptureInfo_v3(stream(handle), &mut status, &mut id, graph, nodes, edges, count) };
        named("cuStreamGetCaptureInfo", called.result())?;
        Ok((status == sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE).then_some(id))
    }

    fn begin_capture(&self, handle: Handle) -> Result<()> {
        let _current = self.enter()?;
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the caller's stream.
        named("cuStreamBeginCapture", unsafe { result::stream::begin_capture(stream(handle), mode) })
    }

    fn exchange_capture_mode(&self, mode: CaptureMode) -> Result<CaptureMode> {
        use sys::CUstreamCaptureMode as Mode;
        let mut exchanged = match mode {
            CaptureMode::Global => Mode::CU_STREAM_CAPTURE_MODE_GLOBAL,
            CaptureMode::ThreadLocal => Mode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
            CaptureMode::Relaxed => Mode::CU_STREAM_CAPTURE_MODE_RELAXED,
        };
        let _current = self.enter()?;
        // SAFETY: exchanges this thread's capture mode.
        let called = unsafe { sys::cuThreadExchangeStreamCaptureMode(&mut exchanged) };
        named("cuThreadExchangeStreamCaptureMode", called.result())?;
        Ok(match exchanged {
            Mode::CU_STREAM_CAPTURE_MODE_GLOBAL => CaptureMode::Global,
            Mode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL => CaptureMode::ThreadLocal,
            Mode::CU_STREAM_CAPTURE_MODE_RELAXED => CaptureMode::Relaxed,
        })
    }

    fn end_capture(&self, handle: Handle) -> Result<Handle> {
        let _current = self.enter()?;
        // SAFETY: the caller's stream.
        let graph = named("cuStreamEndCapture", unsafe { result::stream::end_capture(stream(handle)) })?;
        let mut made = MaybeUninit::uninit();
        // SAFETY: the graph was just created; the instance is a copy of it.
        let instantiated = unsafe {
            let instantiated = sys::cuGraphInstantiateWithFlags(made.as_mut_ptr(), graph, 0).result();
            let _ = result::graph::destroy(graph);
            instantiated
        };
        named("cuGraphInstantiate", instantiated)?;
        // SAFETY: written by the call that succeeded.
        Ok(Handle(unsafe { made.assume_init() } as usize))
    }

    fn launch_graph(&self, graph: Handle, on: Handle) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: the caller's graph and stream.
        named("cuGraphLaunch", unsafe { result::graph::launch(graph.0 as sys::CUgraphExec, stream(on)) })
    }

    fn destroy_graph(&self, graph: Handle) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: the owner passes the graph to be destroyed.
        named("cuGraphExecDestroy", unsafe { result::graph::exec_destroy(graph.0 as sys::CUgraphExec) })
    }
}
