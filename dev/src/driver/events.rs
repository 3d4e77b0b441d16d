//! Events.

use mscclpp_exec::cuda::Handle;
use mscclpp_exec::cuda::calls::Events;

use super::Simulator;
use crate::host::{Code, Event, Result, Work, error};

impl Simulator {
    fn add_event(&self, is_timed: bool) -> Handle {
        let handle = self.machine.handle();
        self.machine.state().events.insert(handle.0, Event { is_timed, ..Event::default() });
        handle
    }
}

impl Events for Simulator {
    fn create_event(&self) -> Result<Handle> {
        self.called("cuEventCreate")?;
        Ok(self.add_event(true))
    }

    fn create_untimed_event(&self) -> Result<Handle> {
        self.called("cuEventCreate")?;
        Ok(self.add_event(false))
    }

    fn record(&self, event: Handle, stream: Handle) -> Result<()> {
        self.called("cuEventRecord")?;
        self.machine.state().check_event("cuEventRecord", event)?;
        self.machine.record(event, stream)
    }

    fn wait_event(&self, stream: Handle, event: Handle) -> Result<()> {
        self.called("cuStreamWaitEvent")?;
        self.machine.state().check_event("cuStreamWaitEvent", event)?;
        self.machine.wait_event(stream, event)
    }

    fn record_in_graph(&self, event: Handle, stream: Handle) -> Result<()> {
        self.called("cuEventRecordWithFlags")?;
        self.machine.state().check_event("cuEventRecordWithFlags", event)?;
        self.machine.put_in_graph("cuEventRecordWithFlags", stream, Work::RecordOfGraph(event.0))
    }

    fn wait_event_in_graph(&self, stream: Handle, event: Handle) -> Result<()> {
        self.called("cuStreamWaitEvent")?;
        self.machine.state().check_event("cuStreamWaitEvent", event)?;
        self.machine.put_in_graph("cuStreamWaitEvent", stream, Work::WaitOfGraph(event.0))
    }

    fn is_done(&self, event: Handle) -> Result<bool> {
        self.called("cuEventQuery")?;
        self.machine.state().check_event("cuEventQuery", event)?;
        Ok(self.machine.is_done(event))
    }

    fn elapsed_us(&self, from: Handle, to: Handle) -> Result<f64> {
        const CALL: &str = "cuEventElapsedTime";
        self.called(CALL)?;
        let state = self.machine.state();
        match [from, to].iter().all(|event| state.events.get(&event.0).is_some_and(|event| event.is_timed)) {
            true => Ok(0.0),
            false => error(CALL, Code::InvalidHandle, "an event without a time"),
        }
    }

    fn destroy_event(&self, event: Handle) -> Result<()> {
        self.called("cuEventDestroy")?;
        self.machine.destroy_event(event)
    }
}
