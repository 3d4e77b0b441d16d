//! Errors of channels for user-supplied kernels.

use thiserror::Error;

/// Why channels of user-supplied kernels (`cuda::channels`) cannot be used, or what a kernel was waiting for.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ChannelError {
    /// A kernel waited longer than the timeout. All later waits of the rank's channels fail.
    #[error(
        "rank {rank}: a kernel waited on {channel} longer than the timeout: expected at least {expected}, found {found} (signals, \
         requests, blocks, or the flag of packets)"
    )]
    Stalled {
        /// This rank.
        rank: u32,
        /// `memory channel 0 with rank 1`.
        channel: String,
        /// The value for which it waited.
        expected: u64,
        /// The last value that it has read.
        found: u64,
    },
    /// The channels were stopped, so waits of kernels have returned false.
    #[error("rank {rank}: its channels were stopped")]
    Stopped {
        /// This rank.
        rank: u32,
    },
    /// A kernel requested a copy or a signal that is outside of the memory of the peer, which is on another node.
    #[error("rank {rank}: a kernel's port channel: {reason}; keep offset and size within the peer's shared memory")]
    InvalidRequest {
        /// This rank.
        rank: u32,
        /// The request, and what is there.
        reason: String,
    },
    /// The executor has all ranks in this process: only ranks that `Executor::connect` has connected
    /// have channels.
    #[error(
        "expected an executor of `Executor::connect`, found one with all ranks in this process, which has no channels"
    )]
    NotConnected,
    /// There is no such channel.
    #[error("rank {rank}: there is no {channel}: expected a number below {available} and a peer below {num_ranks}")]
    NoSuchChannel {
        /// This rank.
        rank: u32,
        /// `memory channel 0 with rank 1`.
        channel: String,
        /// Number of channels of this kind with each rank.
        available: u32,
        /// Number of ranks.
        num_ranks: u32,
    },
}

impl ChannelError {
    /// Returns this rank, if there is one.
    pub const fn rank(&self) -> Option<u32> {
        match self {
            Self::NotConnected => None,
            Self::Stalled { rank, .. }
            | Self::Stopped { rank }
            | Self::InvalidRequest { rank, .. }
            | Self::NoSuchChannel { rank, .. } => Some(*rank),
        }
    }
}
