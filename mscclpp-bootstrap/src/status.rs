//! What the ranks of a running job report to a process that is not one of them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::rank_info::RankInfo;

/// What ranks report. Their executors and communicators define the contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Topic {
    /// Their last calls.
    Calls,
    /// A dump.
    Dump,
    /// Their metrics.
    Metrics,
}

/// What the ranks of a job report at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobReport {
    /// By rank.
    pub ranks: Vec<RankReport>,
    /// Collective calls of the control plane that some ranks have entered and others have not.
    pub pending: Vec<PendingCall>,
    /// Why communicators have failed; `None` is the whole job.
    pub failures: Vec<(Option<u64>, String)>,
}

/// A rank of a job, as rank 0 knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankReport {
    /// Its identity; only its number if it has not joined.
    pub info: RankInfo,
    /// Whether it takes part in the job.
    pub presence: Presence,
    /// What it reports, for each communicator; `None` if it did not answer in time.
    pub reports: Option<Vec<CommunicatorReport>>,
}

/// Whether a rank takes part in a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Presence {
    /// It has not joined yet, for this time.
    NotJoined(Duration),
    /// It has joined, and rank 0 received its last frame this time ago.
    Joined(Duration),
    /// It has left in order.
    Left,
    /// It is lost, with the reason.
    Lost(String),
}

/// What a rank reports about a communicator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommunicatorReport {
    /// Number of the communicator; see [`Bootstrap::number`](crate::Bootstrap::number).
    pub context: u64,
    /// The contents.
    #[serde(with = "serde_bytes")]
    pub bytes: Vec<u8>,
}

/// A collective call of the control plane that some ranks have entered. All ranks are those of the job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingCall {
    /// Number of the communicator.
    pub context: u64,
    /// The call: `barrier (call 5)`.
    pub call: String,
    /// The ranks that have entered it, with the source locations of their calls.
    pub entered: Vec<(u32, String)>,
    /// The ranks that have not.
    pub missing: Vec<u32>,
    /// Time since the first rank entered it.
    pub waited: Duration,
}
