//! What decides a selection.

use std::fmt;

use super::request::Bytes;

/// What decided the selection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecidedBy {
    /// The selector that was set.
    Selector,
    /// The tuning table; bytes of the entry.
    Table(u64),
    /// The caller forced the algorithm, for measuring.
    Forced,
    /// The application registered the algorithm.
    Added,
    /// Predictions for the machine, which has a description; the predicted time in nanoseconds.
    Prediction(u64),
    /// A default rule; its reason.
    Rule(&'static str),
    /// The first eligible algorithm, because no rule covers the request.
    First,
}

impl fmt::Display for DecidedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Table(bytes) => return write!(f, "tuning table entry for {}", Bytes(*bytes)),
            Self::Prediction(nanoseconds) => {
                return write!(f, "predicted to be the fastest: {:.1} us", *nanoseconds as f64 / 1e3);
            }
            Self::Forced => "forced by the caller",
            Self::Selector => "choice of the selector",
            Self::Added => "registered by the application",
            Self::Rule(because) => because,
            Self::First => "first eligible algorithm",
        })
    }
}
