//! Events.

use std::time::Duration;

use mscclpp_exec::cuda::Handle;
use mscclpp_exec::cuda::calls::Events;

use super::Simulator;
use crate::host::{Code, Event, Result, Work, error};

/// The shortest time between two events.
const RESOLUTION: Duration = Duration::from_nanos(500);

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
        let time_of =
            |event: Handle| state.events.get(&event.0).filter(|event| event.is_timed).and_then(|event| event.done_at);
        let (Some(from), Some(to)) = (time_of(from), time_of(to)) else {
            return error(CALL, Code::InvalidHandle, "an event without a time");
        };
        // Of the host. As on a device, no time is shorter than the resolution.
        let elapsed = to.saturating_duration_since(from).max(RESOLUTION);
        Ok(elapsed.as_secs_f64() * 1e6)
    }

    fn destroy_event(&self, event: Handle) -> Result<()> {
        self.called("cuEventDestroy")?;
        self.machine.destroy_event(event)
    }
}
