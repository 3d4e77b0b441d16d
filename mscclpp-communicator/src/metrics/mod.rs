//! Counters of a rank's calls.
//!
//! Each rank counts its own calls, in its own memory. [`Communicator::metrics`](crate::Communicator::metrics) returns them,
//! `MSCCLPP_METRICS` names a file or folder for them, and `mscclpp status --metrics` collects those of a running job.
//!
//! # Cost
//! A call stores a few words of its rank, without synchronization. Every 16th call of a kind is timed and counts for 16 in
//! the histogram; calls of at least 20 ms are all timed.

mod counters;
mod prometheus;

use std::collections::BTreeMap;

use mscclpp_bootstrap::JobReport;
use serde::{Deserialize, Serialize};

pub(crate) use self::counters::{CallCounters, Counters};

/// Metrics of a rank since it joined.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Metrics {
    /// Calls that have returned without an error, by collective and algorithm.
    pub calls: Vec<CallMetrics>,
    /// Seconds for which the rank has waited for others in its calls, without waits that end before the
    /// rank leaves its processor to others, after about a millisecond.
    pub wait_seconds: f64,
    /// Number of calls that have failed, by [kind of error](mscclpp_base::error::ErrorKind::name).
    pub failures: BTreeMap<String, u64>,
    /// Number of kinds and sizes of calls that are prepared.
    pub prepared_plans: u64,
    /// Bytes of memory that the rank shares with the other ranks of its node, as of its last allocation.
    pub memory_bytes: u64,
}

/// Metrics of the calls of one collective with one algorithm.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CallMetrics {
    /// Name of the collective, or `barrier`.
    pub collective: String,
    /// Name of the algorithm; empty for a barrier.
    pub algorithm: String,
    /// Number of calls.
    pub calls: u64,
    /// Bytes of the calls: the larger of a rank's input and output.
    pub bytes: u64,
    /// Time in the calls. Those on device memory, which only enqueue work, are counted and not timed.
    pub seconds: Histogram,
}

/// Durations by size, and their sum.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Histogram {
    /// Number of durations up to each of [`Histogram::BOUNDS`] and above the one before it, then of those above the last.
    pub counts: Vec<u64>,
    /// Sum of the durations, in seconds.
    pub sum: f64,
}

impl Histogram {
    /// Upper bounds in seconds: powers of 4 from a microsecond to 67 s.
    pub const BOUNDS: [f64; 14] = {
        let mut bounds = [1e-6; 14];
        let mut at = 1;
        while at < bounds.len() {
            bounds[at] = (1_u64 << (2 * at)) as f64 / 1e6;
            at += 1;
        }
        bounds
    };
}

impl Metrics {
    /// Adds the metrics of another communicator of the same rank.
    fn add(&mut self, other: &Self) {
        for more in &other.calls {
            let is_same =
                |calls: &&mut CallMetrics| (&calls.collective, &calls.algorithm) == (&more.collective, &more.algorithm);
            match self.calls.iter_mut().find(is_same) {
                Some(calls) => {
                    calls.calls += more.calls;
                    calls.bytes += more.bytes;
                    calls.seconds.sum += more.seconds.sum;
                    calls.seconds.counts.iter_mut().zip(&more.seconds.counts).for_each(|(count, more)| *count += more);
                }
                None => self.calls.push(more.clone()),
            }
        }
        self.wait_seconds += other.wait_seconds;
        other.failures.iter().for_each(|(kind, count)| *self.failures.entry(kind.clone()).or_default() += count);
        self.prepared_plans += other.prepared_plans;
        self.memory_bytes += other.memory_bytes;
    }
}

/// Metrics of all ranks of a job. Displays in the text format of Prometheus.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobMetrics {
    /// By rank, summed over its communicators; `None` for ranks that do not answer.
    pub ranks: Vec<Option<Metrics>>,
}

/// Returns the metrics in what the ranks of a job report.
pub(crate) fn job_metrics(job: &JobReport) -> JobMetrics {
    let of_rank = |rank: &mscclpp_bootstrap::RankReport| {
        let mut sum = Metrics::default();
        let reports = rank.reports.as_ref()?.iter();
        reports.filter_map(|report| postcard::from_bytes(&report.bytes).ok()).for_each(|metrics| sum.add(&metrics));
        Some(sum)
    };
    JobMetrics { ranks: job.ranks.iter().map(of_rank).collect() }
}
