//! What can go wrong with a collective call.

use thiserror::Error;

use crate::select::{CallError, PlanError, SelectError};
use crate::tune::TableError;
use mscclpp_bootstrap as bootstrap;

/// Why a collective call did not do what it says.
#[derive(Error)]
#[non_exhaustive]
pub enum Error {
    /// The ranks cannot come together, or one of them is gone.
    #[error(transparent)]
    Bootstrap(#[from] bootstrap::Error),
    /// No algorithm is chosen.
    #[error("rank {rank}: {source}")]
    Select {
        /// This rank.
        rank: u32,
        /// Why not; it names the request.
        source: SelectError,
    },
    /// The chosen algorithm gives no plan.
    #[error("rank {rank}, {request}: {source}")]
    Plan {
        /// This rank.
        rank: u32,
        /// The request, in words.
        request: String,
        /// Why not.
        source: PlanError,
    },
    /// A native algorithm failed.
    #[error("rank {rank}, {request}: {source}")]
    Native {
        /// This rank.
        rank: u32,
        /// The request, in words.
        request: String,
        /// How.
        source: CallError,
    },
    /// The plan cannot be prepared, or did not finish.
    #[error(transparent)]
    Run(#[from] crate::Error),
    /// The tuning table that the environment names cannot be read.
    #[error(transparent)]
    Table(#[from] TableError),
    /// A buffer whose length does not go with the other one's, or with the number of ranks.
    #[error("{call} of rank {rank}: {what} has {found} elements, expected {expected}")]
    Length {
        /// The call: `all_gather`.
        call: &'static str,
        /// This rank.
        rank: u32,
        /// The buffer.
        what: &'static str,
        /// What it should have.
        expected: String,
        /// What it has.
        found: usize,
    },
    /// A root that is no rank of the group.
    #[error("{call} of rank {rank}: expected a root of 0 to {}, found {root}", ranks - 1)]
    Root {
        /// The call.
        call: &'static str,
        /// This rank.
        rank: u32,
        /// The root that was asked for.
        root: u32,
        /// Number of ranks.
        ranks: u32,
    },
    /// Memory for what other ranks send that a rank does not have.
    #[error(
        "{call}: rank {rank} has no memory for the {count} elements of {bytes} bytes that the others send it; send less at once"
    )]
    NoMemory {
        /// The call.
        call: &'static str,
        /// The rank.
        rank: u32,
        /// Elements that the others send it.
        count: u64,
        /// Bytes of an element.
        bytes: usize,
    },
}

impl std::fmt::Debug for Error {
    /// The message, for those who return the error from `main` or unwrap it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}
