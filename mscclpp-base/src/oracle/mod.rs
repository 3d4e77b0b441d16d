//! What a collective computes, naively and in double precision: inputs of tests and measurements, and the outputs that follow from them.

mod expected;
mod pattern;
mod periodic_inputs;
mod value;

pub use expected::{Expected, ExpectedElement};
pub use pattern::{Inputs, Pattern};
pub use periodic_inputs::PeriodicInputs;
pub use value::{read, write};
