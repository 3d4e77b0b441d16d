//! Settings of an executor.

use std::time::Duration;

/// Limits of a rank: on its waits for peers, and on the memory of plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// Maximum duration of a call without progress. 30 s by default, at most a year: longer timeouts are reduced to
    /// that. Time in which the rank itself could not run, because its process or its machine was suspended, hardly
    /// counts.
    pub timeout: Duration,
    /// Maximum number of bytes of a plan's scratch, all ranks together. 64 GiB by default.
    pub scratch_limit: u64,
    /// Bytes per rank above which a plan with `reuse_resources` wraps its scratch, if it can. 64 MiB by default.
    pub scratch_pool: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(30), scratch_limit: 1 << 36, scratch_pool: 1 << 26 }
    }
}

impl Options {
    /// Returns these options with another timeout.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Returns these options with another limit of scratch.
    #[must_use]
    pub fn scratch_limit(self, scratch_limit: u64) -> Self {
        Self { scratch_limit, ..self }
    }

    /// Returns these options with another size from which scratch wraps.
    #[must_use]
    pub fn scratch_pool(self, scratch_pool: u64) -> Self {
        Self { scratch_pool, ..self }
    }
}
