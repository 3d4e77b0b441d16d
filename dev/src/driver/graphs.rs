//! Captures and graphs.

use mscclpp_exec::cuda::calls::Graphs;
use mscclpp_exec::cuda::{CaptureMode, Handle};

use super::{Simulator, released};
use crate::host::{CaptureState, Code, Result, Work, error, exchange_mode};

impl Graphs for Simulator {
    fn is_capturing(&self, stream: Handle) -> Result<bool> {
        self.called("cuStreamIsCapturing")?;
        Ok(self.machine.state().streams.get(&stream.0).is_some_and(|queue| queue.recording.is_some()))
    }

    fn capture_id(&self, stream: Handle) -> Result<Option<u64>> {
        self.called("cuStreamGetCaptureInfo")?;
        let state = self.machine.state();
        Ok(state.streams.get(&stream.0).and_then(|queue| queue.recording.as_ref()).map(|recording| recording.id))
    }

    fn begin_capture(&self, stream: Handle) -> Result<()> {
        self.called("cuStreamBeginCapture")?;
        self.machine.begin_capture(stream.0);
        Ok(())
    }

    fn exchange_capture_mode(&self, mode: CaptureMode) -> Result<CaptureMode> {
        self.called("cuThreadExchangeStreamCaptureMode")?;
        if mode == CaptureMode::Relaxed {
            // Perhaps a thread that serves devices.
            self.machine.state().helped = true;
        }
        // As in set-up that forgets it.
        let is_lost = self.machine.options.bug == Some("lost_modes");
        Ok(if is_lost { CaptureMode::Global } else { exchange_mode(mode) })
    }

    fn end_capture(&self, stream: Handle) -> Result<Handle> {
        let recorded = self.machine.state().streams.get_mut(&stream.0).and_then(|queue| queue.recording.take());
        self.called("cuStreamEndCapture")?;
        let work = recorded.map_or_else(|| Ok(Vec::new()), CaptureState::end)?;
        let handle = self.machine.handle();
        self.machine.state().graphs.insert(handle.0, work);
        Ok(handle)
    }

    fn launch_graph(&self, graph: Handle, stream: Handle) -> Result<()> {
        self.called("cuGraphLaunch")?;
        let Some(work) = self.machine.state().graphs.get(&graph.0).cloned() else {
            return error("cuGraphLaunch", Code::InvalidValue, "no such graph");
        };
        work.into_iter().try_for_each(|work| match work {
            Work::RecordOfGraph(event) => self.machine.record(Handle(event), stream),
            Work::WaitOfGraph(event) => self.machine.wait_event(stream, Handle(event)),
            work => self.machine.put("cuGraphLaunch", stream, work),
        })
    }

    fn destroy_graph(&self, graph: Handle) -> Result<()> {
        self.called("cuGraphExecDestroy")?;
        released("cuGraphExecDestroy", self.machine.state().graphs.remove(&graph.0))
    }
}
