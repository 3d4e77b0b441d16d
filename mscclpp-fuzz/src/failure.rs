//! Defects that the fuzzer finds.

use std::fmt;

/// A defect of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// No agent can make progress.
    Stalled {
        /// The first waiting agents: the position of each and what it waits for.
        waiting: Vec<String>,
    },
    /// A wrong result.
    Wrong {
        /// The launch, counted from 1.
        launch: u32,
        /// The rank that owns the buffer.
        rank: u32,
        /// `output`, or `input` if that changed.
        buffer: &'static str,
        /// The chunk.
        chunk: u32,
        /// The value that was found, and the expected one.
        what: String,
    },
    /// An access to scratch that its rank has freed after its last launch.
    Freed {
        /// The rank.
        rank: u32,
        /// The access.
        what: String,
    },
    /// Signals without a wait, or a semaphore whose value differs from its initial one.
    Drift {
        /// The channel or semaphore, and the difference.
        what: String,
    },
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stalled { waiting } => write!(f, "no thread can make progress: {}", waiting.join("; ")),
            Self::Wrong { launch, rank, buffer, chunk, what } => {
                write!(f, "launch {launch}: rank {rank}'s {buffer} chunk {chunk} {what}")
            }
            Self::Freed { rank, what } => write!(f, "rank {rank} has freed its scratch, but {what}"),
            Self::Drift { what } => f.write_str(what),
        }
    }
}

/// A plan that cannot be executed: malformed, or too large even when it is scaled down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsupportedPlan {
    /// `rank 3 / thread block 0 / operation 5 (put)`, or `the whole plan`.
    pub path: String,
    /// What is wrong there.
    pub what: String,
}

impl UnsupportedPlan {
    pub(crate) fn counts() -> Self {
        let what = "counts together with pipelines, or numbers out of range, expected neither".to_owned();
        Self { path: "the whole plan".to_owned(), what }
    }
}

impl fmt::Display for UnsupportedPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.what)
    }
}

impl std::error::Error for Failure {}

impl std::error::Error for UnsupportedPlan {}
