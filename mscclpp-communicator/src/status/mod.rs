//! What the ranks of a running job are doing, and for which of them the others wait.
//!
//! Each rank reports its last calls through its connection thread, also while it computes. [`query`] asks rank 0 of a job as a
//! process that is not one of its ranks; [`Communicator::status`](crate::Communicator::status) asks the ranks of a
//! communicator from one of them. The verdict follows from the same reasoning as the root cause of a failure.

mod assemble;
mod verdict;

use std::time::Duration;

use mscclpp_bootstrap::{Address, Secret, Topic, observe};
use serde::{Serialize, Serializer};

pub(crate) use self::assemble::{Member, assemble};
pub use self::verdict::{Finding, Verdict};
use crate::flight_recorder::Dump;
use crate::metrics::{JobMetrics, job_metrics};
use mscclpp_base::error::Error;

/// State of the ranks of a communicator at one time.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CommunicatorStatus {
    /// Number that distinguishes the communicator from the others of its job; 0 for that of all ranks.
    pub number: u64,
    /// Its ranks, in order.
    pub ranks: Vec<RankStatus>,
    /// Whether they progress, and what keeps them from it.
    pub verdict: Verdict,
}

/// State of a rank.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RankStatus {
    /// The rank in its communicator.
    pub rank: u32,
    /// The rank in its job.
    pub job_rank: u32,
    /// Its process; 0 if it has not joined.
    pub pid: u32,
    /// Name of its host.
    pub host: String,
    /// What it is doing.
    pub state: RankState,
    /// For how long; `None` if unknown. In JSON in seconds.
    #[serde(rename = "seconds", serialize_with = "seconds")]
    pub duration: Option<Duration>,
    /// The call in which it is, or its last call.
    pub call: Option<CallStatus>,
    /// The ranks of the communicator for which it waits.
    pub waits_for: Vec<u32>,
}

/// What a rank is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum RankState {
    /// It has not joined the job.
    NotJoined,
    /// It is in no call of the communicator.
    BetweenCalls,
    /// It is in a call, and does not wait for other ranks.
    InCall,
    /// It waits for other ranks in a call.
    Waiting,
    /// It does not answer: its process is suspended or its host is unreachable.
    Silent,
    /// It has left in order.
    Left,
    /// It is lost.
    Lost,
}

impl RankState {
    /// Returns the name that tables show.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotJoined => "not joined",
            Self::BetweenCalls => "between calls",
            Self::InCall => "in call",
            Self::Waiting => "waiting",
            Self::Silent => "silent",
            Self::Left => "left",
            Self::Lost => "lost",
        }
    }
}

/// A call of a rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CallStatus {
    /// The call with its number: `allreduce of 4 KiB f32, sum, in place, 4 ranks on 1 node (call 7)`.
    pub text: String,
    /// Its source location, if known.
    pub at: Option<String>,
}

fn seconds<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    duration.as_ref().map(Duration::as_secs_f64).serialize(serializer)
}

/// Asks rank 0 of the job at `address` for the state of all ranks, and returns it for each communicator that has made calls, that
/// of the whole job first. The asking process is no rank of the job, and nothing in the job waits for it.
///
/// # Errors
/// [`Error::Bootstrap`] if no job answers there within `time`, or if it has another secret.
pub fn query(address: &Address, secret: &Secret, time: Duration) -> Result<Vec<CommunicatorStatus>, Error> {
    Ok(assemble::communicators(&observe(address, secret, Topic::Calls, time)?))
}

/// Asks all ranks of a job for dumps, one for each communicator. Ranks that do not answer are missing.
///
/// # Errors
/// As [`query`].
pub fn query_dumps(address: &Address, secret: &Secret, time: Duration) -> Result<Vec<Dump>, Error> {
    let report = observe(address, secret, Topic::Dump, time)?;
    let reports = report.ranks.iter().filter_map(|rank| rank.reports.as_ref()).flatten();
    Ok(reports.filter_map(|report| Dump::parse("a report".as_ref(), &report.bytes).ok()).collect())
}

/// Asks all ranks of a job for their metrics.
///
/// # Errors
/// As [`query`].
pub fn query_metrics(address: &Address, secret: &Secret, time: Duration) -> Result<JobMetrics, Error> {
    Ok(job_metrics(&observe(address, secret, Topic::Metrics, time)?))
}
