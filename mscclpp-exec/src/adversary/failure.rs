//! What an adversary has found.

use std::fmt;

/// How a plan went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Nobody can go on.
    Stalled {
        /// Who waits, where, for what: a line each, the first few.
        waiting: Vec<String>,
    },
    /// A wrong result.
    Wrong {
        /// The launch, counted from 1.
        launch: u32,
        /// The rank whose buffer it is.
        rank: u32,
        /// `output`, or `input` if that changed.
        buffer: &'static str,
        /// The chunk.
        chunk: u32,
        /// What was found there, and what should be.
        what: String,
    },
    /// Signals that nobody waited for, or a semaphore that is not where it began.
    Drift {
        /// Which, by how much.
        what: String,
    },
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stalled { waiting } => write!(f, "nobody can go on: {}", waiting.join("; ")),
            Self::Wrong { launch, rank, buffer, chunk, what } => {
                write!(f, "launch {launch}: rank {rank}'s {buffer} chunk {chunk} {what}")
            }
            Self::Drift { what } => f.write_str(what),
        }
    }
}
