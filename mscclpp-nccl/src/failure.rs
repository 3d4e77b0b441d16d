//! Why calls fail.

use std::any::Any;

use mscclpp_exec::Error;
use mscclpp_exec::error::ErrorKind;

use crate::abi::Code;

/// Why a call failed.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    pub(crate) text: String,
}

pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    pub(crate) fn new(code: Code, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    pub(crate) fn argument(text: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, text)
    }

    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::new(Code::InvalidUsage, text)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match (error.kind(), &error) {
            (_, Error::Driver(_) | Error::MapFailed { .. } | Error::NoDevice(_)) => Code::UnhandledCudaError,
            (ErrorKind::InvalidInput, _) => Code::InvalidArgument,
            (
                ErrorKind::NotLaunched
                | ErrorKind::InvalidPlan
                | ErrorKind::Mismatch
                | ErrorKind::Busy
                | ErrorKind::Unsupported
                | ErrorKind::Revoked,
                _,
            )
            | (_, Error::Selector { .. }) => Code::InvalidUsage,
            (ErrorKind::OutOfResources | ErrorKind::System, _) => Code::SystemError,
            // Checked plans end, unless a launch that they need was not made in time.
            (ErrorKind::Timeout | ErrorKind::Stalled, _) => Code::Timeout,
            (ErrorKind::RankLost, _) => Code::RemoteError,
            _ => Code::InternalError,
        };
        Self::new(code, error.to_string())
    }
}

impl From<mscclpp_bootstrap::Error> for Failure {
    fn from(error: mscclpp_bootstrap::Error) -> Self {
        Error::from(error).into()
    }
}

impl From<mscclpp_exec::cuda::CudaUnavailable> for Failure {
    fn from(error: mscclpp_exec::cuda::CudaUnavailable) -> Self {
        Error::from(error).into()
    }
}

/// Returns the failure of a panic.
pub(crate) fn panicked(panic: &(dyn Any + Send)) -> Failure {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    Failure::new(Code::InternalError, format!("a defect of this library, which ended the call: {text}"))
}
