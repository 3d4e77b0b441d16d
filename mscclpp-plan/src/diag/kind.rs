//! What a program can do about an error.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The class of an error: what a program can do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The arguments, environment or files of this rank are invalid: correct them.
    InvalidInput,
    /// The environment describes no job: start the program with a launcher, or give the address.
    NotLaunched,
    /// A plan, or the program that it comes from, is invalid: correct it.
    InvalidPlan,
    /// Ranks make different calls or have different configurations: make them equal.
    Mismatch,
    /// Another thread is in a call of this rank: make one call at a time.
    Busy,
    /// Memory, threads or other resources of the machine do not suffice: ask for less.
    OutOfResources,
    /// This machine or these devices cannot do what was asked: use another executor, algorithm or device.
    Unsupported,
    /// A rank did not take part in time: shrink the communicator if it is lost, or raise the timeout.
    Timeout,
    /// A rank is lost, left or aborted: shrink the communicator.
    RankLost,
    /// A rank revoked the communicator: shrink it to continue.
    Revoked,
    /// A launch in which no operation can make progress: correct the plan.
    Stalled,
    /// The operating system, a peer's messages, a driver or a compiler failed.
    System,
    /// A defect of this library: report it.
    Internal,
}

impl ErrorKind {
    /// Returns the name that logs and JSON use: `rank-lost`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::InvalidInput => "invalid-input",
            Self::NotLaunched => "not-launched",
            Self::InvalidPlan => "invalid-plan",
            Self::Mismatch => "mismatch",
            Self::Busy => "busy",
            Self::OutOfResources => "out-of-resources",
            Self::Unsupported => "unsupported",
            Self::Timeout => "timeout",
            Self::RankLost => "rank-lost",
            Self::Revoked => "revoked",
            Self::Stalled => "stalled",
            Self::System => "system",
            Self::Internal => "internal",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The rank that a failure began with, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RootCause {
    /// The rank.
    pub rank: u32,
    /// What happened there, in words that name the rank.
    pub reason: String,
}

impl RootCause {
    /// Creates a root cause.
    pub fn new(rank: u32, reason: impl Into<String>) -> Self {
        Self { rank, reason: reason.into() }
    }
}

impl fmt::Display for RootCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {}: {}", self.rank, self.reason)
    }
}
