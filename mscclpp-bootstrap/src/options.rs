//! How long ranks wait for each other.

use std::time::Duration;

/// Longest of all these times: instants have an end.
pub const MAX_TIMEOUT: Duration = Duration::from_secs(365 * 86400);

/// Deadlines of a group. Rank 0's hold for all its ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// How long the ranks have to come together, and how long a call waits for the others. 60 s by default, at most a year:
    /// more counts as that. Time in which a waiting rank itself could not run, as it was stopped or its machine was, hardly
    /// counts.
    pub timeout: Duration,
    /// After how long without a sign of life a rank counts as dead; `None` is never. 10 s by default.
    ///
    /// A process that ends is noticed at once. This is for processes that are stopped and hosts that are cut off. At least
    /// 1 ms and at most a year: less or more counts as that.
    pub heartbeat_timeout: Option<Duration>,
}

impl Default for Options {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(60), heartbeat_timeout: Some(Duration::from_secs(10)) }
    }
}

impl Options {
    /// With another deadline.
    #[must_use]
    pub fn timeout(self, deadline: Duration) -> Self {
        Self { timeout: deadline, ..self }
    }

    /// With another time after which a silent rank counts as dead.
    #[must_use]
    pub fn heartbeat_timeout(self, heartbeat_timeout: Option<Duration>) -> Self {
        Self { heartbeat_timeout, ..self }
    }

    /// With times that can be counted with.
    pub(super) fn bounded(self) -> Self {
        let heartbeat_timeout = self
            .heartbeat_timeout
            .map(|heartbeat_timeout| heartbeat_timeout.clamp(Duration::from_millis(1), MAX_TIMEOUT));
        Self { timeout: self.timeout.min(MAX_TIMEOUT), heartbeat_timeout }
    }
}
