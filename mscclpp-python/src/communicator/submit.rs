//! How calls are made: by the thread that calls, by that of the communicator, or on a stream.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use mscclpp_communicator::Communicator;
use mscclpp_exec::Error;
use mscclpp_select::OrderPolicy;
use pyo3::prelude::*;

use super::{PyCommunicator, Submitted};
use crate::call::Call;
use crate::device::Devices;
use crate::failure::Failure;
use crate::signals::{interruptible, raise_signal};
use crate::tensor::{current_stream, is_deterministic};
use crate::work::{Completion, PyWork};

impl PyCommunicator {
    /// Makes or starts a call on the tensors in `keep`, which exist until it has ended.
    pub(super) fn submit(&self, call: Call, timeout: i64, is_async: bool, keep: &Bound<'_, PyAny>) -> Submitted {
        let py = keep.py();
        let timeout = self.ranks.timeout(timeout);
        self.ranks.num_calls.fetch_add(1, Relaxed);
        let name = call.name();
        if let Some(device) = call.device()? {
            let stream = current_stream(py, device)?;
            // Without it a switch may sum, in an order that differs between calls.
            let least = if is_deterministic(py)? { OrderPolicy::SameOnAllRanks } else { OrderPolicy::Any };
            self.enqueue(py, name, timeout, |comm, devices| {
                devices.run(&comm.with_order_at_least(least), device, stream, &call)
            })?;
            return Ok(None);
        }
        if !is_async {
            let made = py.detach(|| {
                let _turn = self.ranks.queue.try_enter()?;
                Some(interruptible(|| self.ranks.run(&call, timeout)))
            });
            if let Some(made) = made {
                raise_signal()?;
                made?;
                return Ok(None);
            }
        }
        self.ranks.check_caller(name)?;
        let work = self.start(call, timeout, keep.clone().unbind())?;
        if is_async {
            return Ok(Some(work));
        }
        work.completion.wait(py, name, None)?;
        Ok(None)
    }

    /// Makes a call on a device, in turn with the others.
    pub(super) fn enqueue(
        &self,
        py: Python<'_>,
        name: &'static str,
        timeout: Option<Duration>,
        call: impl FnOnce(&Communicator, &mut Devices) -> Result<(), Failure> + Send,
    ) -> PyResult<()> {
        self.ranks.check_caller(name)?;
        let made = py.detach(|| {
            let _turn = self.ranks.queue.enter();
            let mut devices = self.ranks.devices.lock().unwrap_or_else(PoisonError::into_inner);
            let comm = match timeout {
                Some(timeout) => self.ranks.comm.with_timeout(timeout),
                None => self.ranks.comm.clone(),
            };
            interruptible(|| call(&comm, &mut devices))
        });
        raise_signal()?;
        Ok(made.map_err(|failure| failure.on(self.ranks.comm.rank(), name))?)
    }

    fn start(&self, call: Call, timeout: Option<Duration>, keep: Py<PyAny>) -> Result<PyWork, Failure> {
        let (ranks, completion, name) = (Arc::clone(&self.ranks), Arc::new(Completion::default()), call.name());
        let work = PyWork { completion: Arc::clone(&completion), name, helper: None };
        self.ranks.queue.push(
            name,
            Box::new(move || {
                let made = catch_unwind(AssertUnwindSafe(|| ranks.run(&call, timeout)));
                let made = made.unwrap_or_else(|_| Err(Error::Internal(format!("{name} panicked")).into()));
                // The tensors exist until here.
                drop(keep);
                completion.finish(made.map(|()| 0));
            }),
        )?;
        Ok(work)
    }
}
