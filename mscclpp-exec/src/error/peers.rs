//! Reports of launches across processes that failed.

use std::fmt;
use std::time::Duration;

use mscclpp_core::diag::{Code, Diagnostic};

use super::Stall;

/// A launch that a rank aborted, because a peer was lost or there was no progress within the timeout.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaunchAborted {
    /// The rank that aborted.
    pub rank: u32,
    /// The cause.
    pub cause: AbortCause,
    /// Positions of its thread blocks, and of its peers' as far as they were reported.
    pub stall: Stall,
}

/// Why a rank aborts a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AbortCause {
    /// A peer's process has ended, or its handle of the communicator was dropped.
    PeerLost {
        /// The rank.
        peer: u32,
    },
    /// There was no progress within the timeout.
    Timeout {
        /// The timeout.
        after: Duration,
        /// Ranks that have not started this launch.
        not_started: Vec<u32>,
        /// Ranks that are in this launch and have not reported their positions: suspended, or busy for longer than the
        /// timeout.
        unresponsive: Vec<u32>,
    },
    /// A peer aborted first, for another cause.
    PeerAborted {
        /// The rank.
        peer: u32,
    },
    /// The communicator has failed.
    #[cfg(feature = "process")]
    Group(Box<mscclpp_bootstrap::Error>),
}

impl fmt::Display for AbortCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PeerLost { peer } => write!(f, "lost rank {peer}: its connection was closed"),
            Self::Timeout { after, not_started: absent, unresponsive: silent } => {
                write!(f, "no progress for {after:?}")?;
                for (ranks, what) in
                    [(absent, "has not started this launch"), (silent, "has not reported its position")]
                {
                    for rank in ranks {
                        write!(f, "; rank {rank} {what}")?;
                    }
                }
                Ok(())
            }
            Self::PeerAborted { peer } => write!(f, "rank {peer} aborted this launch"),
            #[cfg(feature = "process")]
            Self::Group(error) => error.fmt(f),
        }
    }
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

/// Data that a rank of another node put where no operation of the receiver waited for it, and that arrived after these
/// had finished.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LateData {
    /// The plan.
    pub plan: String,
    /// Number of the launch, counted from 1.
    pub launch: u64,
    /// The rank that received it.
    pub rank: u32,
    /// The rank that sent it.
    pub peer: u32,
    /// The buffer: `input`, `output`, `scratch`.
    pub memory: &'static str,
    /// The operation that sent it, if known: `rank 0 / thread block 0 / operation 5 (put)`.
    pub place: Option<String>,
    /// The port channel of the operation, as numbered on its rank.
    pub channel: Option<u32>,
}

impl fmt::Display for LateData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { plan, launch, rank, peer, memory, place, channel } = self;
        write!(
            f,
            "plan `{plan}`, launch {launch}: data from rank {peer} for the {memory} of rank {rank} arrived after the"
        )?;
        write!(f, " operations of rank {rank} had finished")?;
        if let Some(place) = place {
            write!(f, "; it was sent by {place}")?;
        }
        if let Some(channel) = channel {
            write!(f, " over port channel {channel}")?;
        }
        Ok(())
    }
}

impl std::error::Error for LateData {}
