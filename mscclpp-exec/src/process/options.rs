//! Settings of a transport.

use std::time::Duration;

/// How a rank waits for its peers, and how much memory plans may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// How long a call goes on without getting on before it fails. 30 s by default, at most a year: more counts as that.
    /// Time in which the rank itself could not run, as it was stopped or its machine was, hardly counts.
    pub timeout: Duration,
    /// Most bytes of scratch of a plan, all ranks together. 64 GiB by default.
    pub scratch_limit: u64,
    /// Bytes per rank beyond which a plan with `reuse_resources` wraps its scratch, if it can. 64 MiB by default.
    pub scratch_pool: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(30), scratch_limit: 1 << 36, scratch_pool: 1 << 26 }
    }
}

impl Options {
    /// With another deadline.
    #[must_use]
    pub fn timeout(self, deadline: Duration) -> Self {
        Self { timeout: deadline, ..self }
    }

    /// With another limit of scratch.
    #[must_use]
    pub fn scratch_limit(self, scratch_limit: u64) -> Self {
        Self { scratch_limit, ..self }
    }
}
