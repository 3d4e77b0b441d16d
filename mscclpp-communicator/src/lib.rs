//! Collective calls between the ranks of a job, and what serves them: measured choices of algorithms, dumps of failed calls, the state
//! of running jobs.
//!
//! | item | what it has |
//! |---|---|
//! | [`Communicator`] | collective calls on slices, over [`mscclpp_bootstrap`], and on device memory |
//! | [`tune`] | which algorithm is fastest |
//! | [`flight_recorder`] | dumps of the ranks whose call failed |
//! | [`status`], [`metrics`] | what the ranks of a running job are doing, and counters of their calls |
//!
//! Without the feature `process` there is only what [`tune`] measures in one process.
#![forbid(unsafe_code)]

#[cfg(feature = "process")]
mod communicator;
#[cfg(feature = "process")]
pub mod flight_recorder;
#[cfg(feature = "process")]
pub mod metrics;
#[cfg(feature = "process")]
pub mod status;
pub mod tune;

#[cfg(feature = "process")]
pub use communicator::{AllToAllVOutput, Communicator, Dispatched, Group, Pending, Route};
#[cfg(feature = "cuda")]
pub use communicator::{DeviceExperts, KernelPolicy, LaunchedCall, OnStream, PendingCombine, PendingDispatch};
#[cfg(feature = "process")]
pub use mscclpp_base::experts::{ExpertShape, RowElement, RowLayout, quantize_rows};
