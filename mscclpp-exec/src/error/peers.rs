//! The report of a launch between processes that could not be finished.

use std::fmt;
use std::time::Duration;

use mscclpp_core::diag::{Code, Diagnostic};

use super::Stall;

/// A launch that a rank gave up, because a peer was gone or nothing happened for too long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchAborted {
    /// The rank that gave up.
    pub rank: u32,
    /// Why.
    pub cause: AbortCause,
    /// Where its thread blocks were, and those of its peers as far as they said.
    pub stall: Stall,
}

/// Why a rank gives a launch up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AbortCause {
    /// A peer's process has ended, or its part of the group was dropped.
    PeerLost {
        /// The rank.
        peer: u32,
    },
    /// Nothing happened until the deadline.
    Timeout {
        /// How long.
        after: Duration,
        /// Ranks that have not begun this launch.
        not_started: Vec<u32>,
        /// Ranks that are in this launch and have not said where: stopped, or at work for longer than the deadline.
        unresponsive: Vec<u32>,
    },
    /// A peer gave up first, for its own reason.
    PeerAborted {
        /// The rank.
        peer: u32,
    },
    /// The group has ended.
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

/// Data that a rank of another node put where no operation of the receiver waited for it, and that came when these had ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LateData {
    /// The plan.
    pub plan: String,
    /// Which launch, counted from 1.
    pub launch: u64,
    /// The rank that it is for.
    pub rank: u32,
    /// The rank that sent it.
    pub peer: u32,
    /// Which memory: `input`, `output`, `scratch`.
    pub memory: &'static str,
    /// The operation that sent it, if that is known: `rank 0 / thread block 0 / operation 5 (put)`.
    pub place: Option<String>,
    /// The port channel that the operation names, as its rank numbers them.
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
