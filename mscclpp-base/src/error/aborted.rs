//! Report of a launch that was aborted, on one of its ranks.

use std::fmt;

use mscclpp_core::diag::{Code, Diagnostic};

use super::Stall;
use mscclpp_bootstrap as bootstrap;

/// A launch that a rank aborted, because a peer was lost or there was no progress within the timeout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchAborted {
    /// The rank that aborted.
    pub rank: u32,
    /// The cause, which is the same on all ranks.
    pub cause: Box<bootstrap::Error>,
    /// Positions of its thread blocks, and of its peers' as far as they were reported.
    pub stall: Stall,
}

impl LaunchAborted {
    pub(super) fn diagnostic(&self) -> Diagnostic {
        self.stall.diagnostic(Code::LostRank, Some(format!("rank {}: {}", self.rank, self.cause)))
    }
}

impl fmt::Display for LaunchAborted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {}: {}\n{}", self.rank, self.cause, self.stall)
    }
}

impl std::error::Error for LaunchAborted {}
