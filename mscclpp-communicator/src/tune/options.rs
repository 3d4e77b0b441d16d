//! How measurements are made, and what they return.

use std::hint::black_box;
use std::time::Duration;

/// How a call is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MeasureOptions {
    /// Number of timed calls.
    pub iterations: u32,
    /// Number of untimed calls before them.
    pub warmup: u32,
    /// One of this many calls is compared with the collective's postcondition; 0 for none. The first call is compared
    /// in any other case.
    pub check: u32,
    /// Duration after which ranks of several nodes begin no more calls, once they have timed [`MIN_TIMED_CALLS`]: over a slow link, or
    /// where ranks share processors, a small call may take a thousand times as long as usual.
    pub max_time: Duration,
}

/// Number of calls that are timed however long they take.
pub const MIN_TIMED_CALLS: u32 = 10;

/// Result of a measurement, the same on all ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Measurement {
    /// Median over the calls of the slowest rank's time.
    pub slowest: Duration,
    /// Median over the calls of the time averaged over the ranks.
    pub average: Duration,
    /// Number of wrong elements of all ranks in all compared calls; `None` if no call was compared.
    pub wrong: Option<u64>,
}

impl MeasureOptions {
    /// Returns options with as many calls as a stable median needs: 30 for large messages, up to 4000 for small ones.
    pub fn for_bytes(bytes: u64) -> Self {
        let iterations = ((64 << 20) / bytes.max(1)).clamp(30, 4000) as u32;
        Self { iterations, warmup: iterations / 10 + 2, check: 10, max_time: Duration::from_secs(4) }
    }

    /// Returns these options with another number of timed calls.
    #[must_use]
    pub fn iterations(self, iterations: u32) -> Self {
        Self { iterations, ..self }
    }

    /// Returns these options with another number of untimed calls.
    #[must_use]
    pub fn warmup(self, warmup: u32) -> Self {
        Self { warmup, ..self }
    }

    /// Returns these options with another duration after which no more calls begin.
    #[must_use]
    pub fn max_time(self, max_time: Duration) -> Self {
        Self { max_time, ..self }
    }

    /// Returns these options with every `check`th call compared.
    #[must_use]
    pub fn check(self, check: u32) -> Self {
        Self { check, ..self }
    }
}

/// Loads a word of every cache line, so that the call pays for lines that it left in another cache.
pub(super) fn read_all(bytes: &[u8]) {
    let sum = bytes.iter().step_by(64).fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
    black_box(sum);
}

/// Returns the median of durations.
pub(super) fn median(mut nanoseconds: Vec<u64>) -> Duration {
    nanoseconds.sort_unstable();
    Duration::from_nanos(nanoseconds.get(nanoseconds.len() / 2).copied().unwrap_or(0))
}
