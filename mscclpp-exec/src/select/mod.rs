//! Which algorithm serves a call.
//!
//! A [`Request`] says what is asked for, as far as all ranks know it. A [`Registry`] holds the [`Algorithm`]s: those of the
//! library, those of the program, plans from files. It decides by a selector of the user's or by its own rules, and
//! [`explains`](Registry::explain) what it decides.

mod algorithm;
mod choice;
mod constraints;
mod error;
mod explain;
mod native;
mod registry;
mod request;
mod rules;

pub use algorithm::Algorithm;
pub use choice::{Choice, Config};
pub use constraints::{Constraints, Rejection};
pub use error::{CallError, LoadError, PlanError, RegistryError, SelectError};
pub use explain::{CandidateOutcome, Explanation, Outcome};
pub use native::{Buffers, Call};
pub use registry::{DecidedBy, Decision, Registry};
pub use request::{Backend, CALLS, Request};
