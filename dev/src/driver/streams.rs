//! Streams.

use mscclpp_exec::cuda::Handle;
use mscclpp_exec::cuda::calls::{Priority, Streams};

use super::{Simulator, released};
use crate::host::{Queue, Result, Work};

impl Simulator {
    fn add_stream(&self, priority: Option<Priority>) -> Handle {
        let (handle, device) = (self.machine.handle(), self.properties.ordinal);
        self.machine.state().streams.insert(handle.0, Queue { device, priority, ..Queue::default() });
        handle
    }
}

impl Streams for Simulator {
    fn create_stream(&self) -> Result<Handle> {
        self.called("cuStreamCreate")?;
        Ok(self.add_stream(None))
    }

    fn create_priority_stream(&self, priority: Priority) -> Result<Handle> {
        self.called("cuStreamCreateWithPriority")?;
        Ok(self.add_stream((self.machine.options.bug != Some("equal_priorities")).then_some(priority)))
    }

    fn destroy_stream(&self, stream: Handle) -> Result<()> {
        // Work that was enqueued on it is still executed.
        let done = self.machine.wait("cuStreamDestroy", |_, handle| handle == stream.0);
        self.called("cuStreamDestroy")?;
        released("cuStreamDestroy", self.machine.state().streams.remove(&stream.0))?;
        done
    }

    fn stream_id(&self, stream: Handle) -> Option<u64> {
        Some(stream.0 as u64)
    }

    fn synchronize(&self, stream: Handle) -> Result<()> {
        self.called("cuStreamSynchronize")?;
        self.machine.check_wait_for_stream("cuStreamSynchronize", stream.0)?;
        self.machine.wait("cuStreamSynchronize", |_, handle| handle == stream.0)
    }

    fn is_idle(&self, stream: Handle) -> Result<bool> {
        self.called("cuStreamQuery")?;
        self.machine.check_wait_for_stream("cuStreamQuery", stream.0)?;
        self.machine.is_idle("cuStreamQuery", stream)
    }

    fn copy(&self, to: u64, from: u64, bytes: u64, stream: Handle) -> Result<()> {
        const CALL: &str = "cuMemcpyAsync";
        self.called(CALL)?;
        self.machine.check(CALL, to, bytes)?;
        self.machine.check(CALL, from, bytes)?;
        std::thread::sleep(self.machine.options.time_per_copy);
        self.machine.put(CALL, stream, Work::Copy { to, from, bytes })
    }

    fn memset_async(&self, to: u64, bytes: u64, stream: Handle) -> Result<()> {
        const CALL: &str = "cuMemsetD8Async";
        self.called(CALL)?;
        self.machine.check(CALL, to, bytes)?;
        self.machine.put(CALL, stream, Work::Zero { to, bytes })
    }

    fn write_value(&self, to: u64, value: u64, stream: Handle) -> Result<()> {
        const CALL: &str = "cuStreamWriteValue64";
        self.called(CALL)?;
        self.machine.check(CALL, to, 8)?;
        self.machine.put(CALL, stream, Work::Store { to, value })
    }

    fn wait_value(&self, at: u64, value: u64, stream: Handle) -> Result<()> {
        const CALL: &str = "cuStreamWaitValue64";
        self.called(CALL)?;
        self.machine.check(CALL, at, 8)?;
        self.machine.put(CALL, stream, Work::WaitValue { at, value })
    }
}
