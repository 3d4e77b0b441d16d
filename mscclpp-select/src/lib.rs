//! Selects the algorithm for a call.
//!
//! A [`Request`] describes a call by properties that all ranks share. A [`Registry`] holds the [`Algorithm`]s: built-in
//! ones, those of the program, plans from files. It decides by a selector of the user's or by its default rules, and
//! [`explains`](Registry::explain) its decisions.

#![deny(unsafe_code)]

mod algorithm;
mod choice;
mod constraints;
mod decided_by;
pub mod defaults;
mod dividing;
mod environment;
mod error;
mod explain;
#[cfg(feature = "cuda")]
#[allow(unsafe_code, reason = "what launches kernels of users is unsafe, as those are")]
pub mod kernels;
mod limits;
mod native;
mod order;
mod plan_file;
mod prediction;
mod registry;
mod request;
mod rules;
pub mod tuning;
mod usual;

pub use algorithm::Algorithm;
pub use choice::{Choice, Config};
pub use constraints::{Constraints, Rejection};
pub use decided_by::DecidedBy;
pub use environment::EnvironmentError;
#[doc(hidden)]
pub use environment::{is_strict, plan_files};
pub use error::{CallError, LoadError, PlanError, RegistryError, SelectError};
pub use explain::{CandidateOutcome, Explanation, Outcome};
pub use limits::LaunchLimits;
pub use mscclpp_predict::Machine;
pub use native::{Buffers, Call};
pub use order::OrderPolicy;
pub use plan_file::PlanFile;
pub use prediction::DescribedMachine;
pub use registry::{Decision, Registry};
pub use request::{Backend, CALLS, Request};
