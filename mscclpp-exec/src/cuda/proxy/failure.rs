//! Reasons why a proxy stops.

use mscclpp_base::error::Error;
use mscclpp_bootstrap as bootstrap;
use mscclpp_cuda::driver;

/// Reason why the thread cannot continue.
#[derive(Clone, Debug)]
pub(in crate::cuda) enum Failure {
    /// A call failed.
    Error(Error),
    /// Another rank is the reason that a launch cannot be finished.
    Cause(bootstrap::Error),
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
