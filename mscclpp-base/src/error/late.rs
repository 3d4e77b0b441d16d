//! Report of data that arrived too late for a launch.

use std::fmt;

/// Data that a rank of another node put where no operation of the receiver waited for it, and that arrived after these
/// had finished.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    pub sent_by: Option<String>,
    /// The port channel of the operation, as numbered on its rank.
    pub channel: Option<u32>,
}

impl fmt::Display for LateData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { plan, launch, rank, peer, memory, sent_by, channel } = self;
        write!(
            f,
            "plan `{plan}`, launch {launch}: data from rank {peer} for the {memory} of rank {rank} arrived after the"
        )?;
        write!(f, " operations of rank {rank} had finished")?;
        if let Some(sent_by) = sent_by {
            write!(f, "; it was sent by {sent_by}")?;
        }
        if let Some(channel) = channel {
            write!(f, " over port channel {channel}")?;
        }
        Ok(())
    }
}

impl std::error::Error for LateData {}
