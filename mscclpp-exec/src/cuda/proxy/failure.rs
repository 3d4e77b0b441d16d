//! What ends a proxy's work.

use crate::cuda::driver;
use crate::error::{AbortCause, Error};

/// Why the thread cannot go on.
#[derive(Clone, Debug)]
pub(in crate::cuda) enum Failure {
    /// Something failed.
    Error(Error),
    /// Somebody else is the reason that a launch cannot be finished.
    Cause(AbortCause),
}

impl From<driver::DriverError> for Failure {
    fn from(error: driver::DriverError) -> Self {
        Self::Error(error.into())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}
