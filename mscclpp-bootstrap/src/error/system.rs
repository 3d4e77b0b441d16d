//! Errors of system calls.

use std::io;

use super::Error;
use crate::descriptors::Exhausted;

impl Error {
    /// Returns the error of a failed system call, which names the limit if there is no file descriptor left.
    pub(crate) fn of_system(what: impl Into<String>, error: &io::Error) -> Self {
        let what = what.into();
        match Exhausted::of(error) {
            Some(limit) => Self::NoDescriptor { what, limit: limit.name().into(), allowed: limit.allowed() },
            None => Self::System { what, reason: error.to_string() },
        }
    }

    /// Returns the error of a failed system call: `other`, unless there is no file descriptor left.
    pub(crate) fn of_system_or(what: impl Into<String>, error: &io::Error, other: impl FnOnce() -> Self) -> Self {
        match Self::of_system(what, error) {
            limit @ Self::NoDescriptor { .. } => limit,
            _ => other(),
        }
    }
}
