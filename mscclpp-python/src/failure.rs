//! Failures of calls as exceptions of Python.

use mscclpp_exec::Error;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// What an exception of `mscclpp_rs` has. All waits for a call raise the same.
#[derive(Clone, Debug)]
pub(crate) struct Failure(Box<Details>);

#[derive(Clone, Debug)]
struct Details {
    kind: &'static str,
    message: String,
    rank: Option<u32>,
    operation: Option<String>,
    /// The rank that the failure began with, and why.
    cause: Option<(u32, String)>,
    lost: Vec<u32>,
}

impl Failure {
    /// Returns the failure of a call with invalid arguments.
    pub(crate) fn invalid(operation: &str, message: String) -> Self {
        Self::of_kind("invalid-input", operation, message)
    }

    /// Returns a failure without a cause among the ranks.
    pub(crate) fn of_kind(kind: &'static str, operation: &str, message: String) -> Self {
        let message = format!("{operation}: {message}");
        let operation = Some(operation.to_owned());
        Self(Box::new(Details { kind, message, rank: None, operation, cause: None, lost: Vec::new() }))
    }

    /// Names the rank that the failure began with, and why.
    pub(crate) fn with_cause(mut self, rank: u32, reason: String) -> Self {
        self.0.cause = Some((rank, reason));
        self
    }

    /// Names the rank and the operation that fails, where the failure does not.
    pub(crate) fn on(mut self, rank: u32, operation: &str) -> Self {
        self.0.rank.get_or_insert(rank);
        self.0.operation.get_or_insert_with(|| operation.to_owned());
        self
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self(Box::new(Details {
            kind: error.kind().name(),
            message: error.to_string(),
            rank: error.rank(),
            operation: error.operation(),
            cause: error.root_cause().map(|cause| (cause.rank, cause.reason)),
            lost: error.lost(),
        }))
    }
}

impl From<mscclpp_bootstrap::Error> for Failure {
    fn from(error: mscclpp_bootstrap::Error) -> Self {
        Error::from(error).into()
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        Python::attach(|py| {
            let make = MAKE.get_or_try_init(py, || {
                Ok::<_, PyErr>(py.import("mscclpp_rs._errors")?.getattr("make_error")?.unbind())
            });
            let Details { kind, message, rank, operation, cause, lost } = *failure.0;
            let (cause_rank, reason) = cause.unzip();
            match make.and_then(|make| make.call1(py, (kind, message, rank, operation, cause_rank, reason, lost))) {
                Ok(exception) => Self::from_value(exception.into_bound(py)),
                Err(error) => error,
            }
        })
    }
}
