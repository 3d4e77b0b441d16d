//! How ranks join.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mscclpp_bootstrap::{Options, RootListener, place};
use mscclpp_communicator::Communicator;
use mscclpp_core::threads;
use mscclpp_exec::Error;
use pyo3::prelude::*;

use super::PyCommunicator;
use super::ranks::Ranks;
use crate::failure::Failure;
use crate::work::SIGNAL_INTERVAL;

/// Timeouts, from the environment and the process group.
pub(super) fn options(timeout_ms: u64) -> Result<Options, Failure> {
    let timeout = Duration::from_millis(timeout_ms);
    Ok(Options::from_env().map_err(Failure::from)?.timeout(timeout).rendezvous_timeout(timeout))
}

/// Rank 0 before the others have joined.
#[pyclass(module = "mscclpp_rs._native", frozen)]
pub(crate) struct Listener(Mutex<Option<RootListener>>);

#[pymethods]
impl Listener {
    /// Listens on a free port of this host.
    #[new]
    fn new() -> PyResult<Self> {
        Ok(Self(Mutex::new(Some(RootListener::new().map_err(Failure::from)?))))
    }

    /// Returns the address and secret that the other ranks need.
    fn unique_id(&self) -> PyResult<String> {
        let listener = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let listener = listener.as_ref().ok_or_else(used)?;
        Ok(listener.unique_id().to_string())
    }
}

fn used() -> Failure {
    Failure::invalid("Listener", "expected a listener whose ranks have not joined; make another one".into())
}

impl Listener {
    /// Returns the listener, which is used up.
    pub(super) fn take(&self) -> Result<RootListener, Failure> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take().ok_or_else(used)
    }
}

impl PyCommunicator {
    /// Creates a communicator on another thread, while this one handles signals. Failures name the rank and the call.
    pub(super) fn create(
        py: Python<'_>,
        (rank, name): (u32, &'static str),
        create: impl FnOnce() -> Result<Communicator, Failure> + Send + 'static,
    ) -> PyResult<Self> {
        let (result, received) = mpsc::channel();
        let thread = threads::named("mscclpp-join").spawn(move || {
            // Without a receiver, the thread that waited has been interrupted.
            // What follows are parts of the creation of a group.
            let (_name, _part) =
                (place::enter_name(name), place::enter_call(1, || "the creation of a group".to_owned()));
            let _ = result.send(create().and_then(Ranks::new).map_err(|failure| failure.on(rank, name)));
        });
        thread.map_err(|error| Failure::of_kind("out-of-resources", "join", format!("no thread: {error}")))?;
        let received = Mutex::new(received);
        loop {
            let ranks =
                py.detach(|| received.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(SIGNAL_INTERVAL));
            match ranks {
                Ok(ranks) => return Ok(Self { ranks: Arc::new(ranks?) }),
                Err(RecvTimeoutError::Timeout) => py.check_signals()?,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Failure::from(Error::Internal("the thread that joins has ended".into())).into());
                }
            }
        }
    }
}
