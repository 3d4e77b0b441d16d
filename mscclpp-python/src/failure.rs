//! Failures of calls as exceptions of Python.

use mscclpp_bootstrap::{Error as JobError, RankInfo};
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

    /// Returns this failure with an addition to its message.
    pub(crate) fn with(mut self, addition: &str) -> Self {
        self.0.message += addition;
        self
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
        let mut details = Details {
            kind: error.kind().name(),
            message: error.to_string(),
            rank: error.rank(),
            operation: error.operation(),
            cause: error.root_cause().map(|cause| (cause.rank, cause.reason)),
            lost: error.lost(),
        };
        if let Some((transfer, reason)) = transfer_texts(&error) {
            details.message = format!("{transfer}: {reason}");
            details.cause = details.cause.map(|(rank, _)| (rank, reason));
            // The error has that of the communicator of the two ranks; `on` names the call.
            details.operation = None;
        }
        Self(Box::new(details))
    }
}

/// Returns what failed and why, of a transfer, with the ranks of the communicator. The error's own text names ranks 0 and 1, those of the
/// communicator that the two ranks have for their transfers. `None` for other errors, and for those whose text may have other ranks.
fn transfer_texts(error: &Error) -> Option<(String, String)> {
    // The text of a send on a stream says why it has not ended.
    let Error::Transfer { call, rank, peer, is_send_on_stream: false, source } = error else { return None };
    let of_pair = match &**source {
        Error::Bootstrap(error) => error,
        Error::Interrupted(aborted) => &aborted.cause,
        _ => return None,
    };
    let reason = renumbered(of_pair, [*rank.min(peer), *rank.max(peer)])?;
    Some((format!("{call} of rank {rank} with rank {peer}"), reason.to_string()))
}

/// Returns an error of a pair's communicator with the ranks `of_all` instead of 0 and 1. `None` for errors whose text may have other ranks.
fn renumbered(error: &JobError, of_all: [u32; 2]) -> Option<JobError> {
    let mut is_known = true;
    let mut map = |rank: &mut u32| match of_all.get(*rank as usize) {
        Some(number) => *rank = *number,
        None => is_known = false,
    };
    let mut error = error.clone();
    let mut info = |who: &mut RankInfo| map(&mut who.rank);
    match &mut error {
        JobError::Died { who, .. } | JobError::Unresponsive { who, .. } | JobError::Aborted { who, .. } => info(who),
        JobError::Mismatch { first, second, .. } => {
            info(first);
            info(second);
        }
        JobError::RankLeft { who, waiting, .. } => {
            info(who);
            waiting.iter_mut().for_each(map);
        }
        JobError::CollectiveTimeout { missing, waiting, .. } | JobError::NoProgress { ranks: missing, waiting, .. } => {
            missing.iter_mut().for_each(info);
            waiting.iter_mut().for_each(map);
        }
        JobError::Timeout { rank, from, .. } => {
            info(from);
            map(rank);
        }
        JobError::Unreachable { rank, peer, .. } => {
            map(rank);
            map(peer);
        }
        _ => return None,
    }
    is_known.then_some(error)
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
