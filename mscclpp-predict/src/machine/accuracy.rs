//! The error of predictions on a machine.

use serde::Deserialize;

use super::{MachineError, invalid};

/// How far predictions were from measured times that were not used for the constants.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Accuracy {
    /// Mean of the relative errors, in percent.
    pub mean_percent: f64,
    /// The largest of the relative errors, in percent.
    pub worst_percent: f64,
    /// Number of points that the errors come from.
    pub held_out: u32,
    /// Number of points that are plans of this project, those used for the constants included.
    pub usable: u32,
    /// When it was computed.
    pub date: String,
}

/// The largest error that a description may state, in percent.
const MAX_PERCENT: f64 = 1e6;

impl Accuracy {
    /// Checks what a file states.
    pub(super) fn check(&self) -> Result<(), MachineError> {
        if !(0.0..=MAX_PERCENT).contains(&self.worst_percent) {
            let reason = format!("expected 0 to {MAX_PERCENT}, found {}", self.worst_percent);
            return Err(invalid("accuracy.worst_percent", reason));
        }
        if !(0.0..=self.worst_percent).contains(&self.mean_percent) {
            let reason = format!("expected 0 to worst_percent, found {}", self.mean_percent);
            return Err(invalid("accuracy.mean_percent", reason));
        }
        if self.held_out > self.usable {
            let reason = format!("expected at most the usable points, {}, found {}", self.usable, self.held_out);
            return Err(invalid("accuracy.held_out", reason));
        }
        Ok(())
    }
}
