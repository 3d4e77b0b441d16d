//! Events.

use mscclpp_exec::cuda::Handle;
use mscclpp_exec::cuda::calls::Events;

use super::Simulator;
use crate::host::Result;

impl Events for Simulator {
    fn create_event(&self) -> Result<Handle> {
        self.called("cuEventCreate")?;
        let handle = self.machine.handle();
        self.machine.state().events.insert(handle.0, Default::default());
        Ok(handle)
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

    fn is_done(&self, event: Handle) -> Result<bool> {
        self.called("cuEventQuery")?;
        self.machine.state().check_event("cuEventQuery", event)?;
        Ok(self.machine.is_done(event))
    }

    fn elapsed_us(&self, _: Handle, _: Handle) -> Result<f64> {
        self.called("cuEventElapsedTime")?;
        Ok(0.0)
    }

    fn destroy_event(&self, event: Handle) -> Result<()> {
        self.called("cuEventDestroy")?;
        self.machine.destroy_event(event)
    }
}
