//! Timing model: predicted times of plans on described machines, and lower bounds of collectives.
//!
//! * [`Machine`] describes links, switches, and the constants of the model, each with its source; some are built in.
//! * [`predict`] executes a plan on the abstract machine of the checks, and simulates its operations on a machine.
//! * [`lower_bound`] is a time that no algorithm beats on a machine, with a certificate.
//!
//! All results are functions of their arguments: nothing depends on time, hash order or threads. The constants of the model are
//! in the machine descriptions; the code has none.

#![forbid(unsafe_code)]

mod bound;
mod error;
#[doc(hidden)]
pub mod fit;
mod flow;
mod machine;
mod prediction;
mod simulation;
mod topology;
mod trace;

pub use bound::{Bound, BoundError, Certificate, Direction, lower_bound, lower_bound_of_root};
pub use error::PredictError;
pub use machine::{
    Accuracy, Constant, Constants, Link, LinkEnd, MIN_POINTS, Machine, MachineError, RecognizedBy, Tier,
};
pub use prediction::{Prediction, Predictor, Share, predict};
pub use simulation::{Cause, Span, Timeline};
pub use topology::{Edge, Topology};
pub use trace::trace;
