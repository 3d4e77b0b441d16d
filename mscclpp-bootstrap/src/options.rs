//! How long ranks wait for each other.

use std::time::Duration;

/// Maximum of all timeouts, because an `Instant` is bounded.
pub const MAX_TIMEOUT: Duration = Duration::from_secs(365 * 86400);

/// Maximum duration of a shutdown.
pub(crate) const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// What carries data between nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeTransport {
    /// UCX for a pair of ranks that both can use it, if it has RDMA or shared memory between them; otherwise TCP.
    #[default]
    Auto,
    /// TCP.
    Tcp,
    /// UCX; an error if a rank cannot use it.
    Ucx,
}

impl NodeTransport {
    /// Returns the value of `MSCCLPP_TRANSPORT`; `auto` without it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Tcp => "tcp",
            Self::Ucx => "ucx",
        }
    }
}

/// Timeouts of a communicator, and whether data is authenticated. The timeouts of rank 0 apply to all its ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// Maximum duration of a call's wait for other ranks. 10 minutes by default, at most a year: longer timeouts are
    /// reduced to that. Time in which the waiting rank itself could not run, because its process or its machine was
    /// suspended, hardly counts.
    ///
    /// A rank that died is noticed at once. This timeout is for ranks that are late or do not make the call: with a
    /// short one, a rank that loads data or writes a checkpoint for longer counts as lost.
    pub timeout: Duration,
    /// Maximum duration of a rendezvous: of joining, shrinking and growing. 5 minutes by default, at most a year.
    ///
    /// A rank that has not joined cannot be told from one that a launcher starts late.
    pub rendezvous_timeout: Duration,
    /// Time without a heartbeat after which a rank counts as dead; `None` disables the check. 10 s by default.
    ///
    /// A process that ends is noticed at once. This timeout is for processes that are suspended and hosts that are
    /// unreachable. At least 1 ms and at most a year: other values are clamped.
    pub heartbeat_timeout: Option<Duration>,
    /// Whether the executors authenticate what they send between nodes, as the bootstrap always does with its own frames.
    /// `false` by default. It must be the same on all ranks, which compare it when they join.
    pub authenticate_data: bool,
    /// What carries data between nodes. [`NodeTransport::Auto`] by default. It must be the same on all ranks, which compare it
    /// when they join.
    pub transport: NodeTransport,
    /// Whether UCX, if it supports CUDA, reads and writes memory of devices; otherwise data passes through memory of the host. Ranks may
    /// differ. No effect where data is authenticated.
    pub ucx_device_memory: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(600),
            rendezvous_timeout: Duration::from_secs(300),
            heartbeat_timeout: Some(Duration::from_secs(10)),
            authenticate_data: false,
            transport: NodeTransport::Auto,
            ucx_device_memory: false,
        }
    }
}

impl Options {
    /// Returns these options with another timeout of both calls and rendezvous.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, rendezvous_timeout: timeout, ..self }
    }

    /// Returns these options with another timeout of rendezvous.
    #[must_use]
    pub fn rendezvous_timeout(self, rendezvous_timeout: Duration) -> Self {
        Self { rendezvous_timeout, ..self }
    }

    /// Returns these options with another time without a heartbeat after which a rank counts as dead.
    #[must_use]
    pub fn heartbeat_timeout(self, heartbeat_timeout: Option<Duration>) -> Self {
        Self { heartbeat_timeout, ..self }
    }

    /// Returns these options with another choice whether data between nodes is authenticated.
    #[must_use]
    pub fn authenticate_data(self, authenticate_data: bool) -> Self {
        Self { authenticate_data, ..self }
    }

    /// Returns these options with another choice of what carries data between nodes.
    #[must_use]
    pub fn transport(self, transport: NodeTransport) -> Self {
        Self { transport, ..self }
    }

    /// Returns these options with another choice whether UCX accesses memory of CUDA devices.
    #[must_use]
    pub fn ucx_device_memory(self, ucx_device_memory: bool) -> Self {
        Self { ucx_device_memory, ..self }
    }

    /// Returns these options with timeouts that do not overflow an `Instant`.
    pub(super) fn bounded(self) -> Self {
        let heartbeat_timeout = self
            .heartbeat_timeout
            .map(|heartbeat_timeout| heartbeat_timeout.clamp(Duration::from_millis(1), MAX_TIMEOUT));
        let rendezvous_timeout = self.rendezvous_timeout.min(MAX_TIMEOUT);
        Self { timeout: self.timeout.min(MAX_TIMEOUT), rendezvous_timeout, heartbeat_timeout, ..self }
    }
}
