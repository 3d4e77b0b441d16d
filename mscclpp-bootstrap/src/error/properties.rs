//! What programs ask of an error: its class, who reports it, in which call, who caused it, who is lost, what to do.

use mscclpp_core::diag::{ErrorKind, RootCause};

use super::Error;

impl Error {
    /// Returns the ranks that the communicator has lost by this error, as ranks of the communicator whose call returned
    /// it: those that died, are unresponsive, left, aborted, were excluded, or did not join or call. Empty if no rank is
    /// lost.
    pub fn lost(&self) -> Vec<u32> {
        match self {
            Self::Died { who, .. }
            | Self::Ended { who, .. }
            | Self::Unresponsive { who, .. }
            | Self::RankLeft { who, .. }
            | Self::Aborted { who, .. }
            | Self::Excluded { who, .. } => {
                vec![who.rank]
            }
            Self::Timeout { from, .. } => vec![from.rank],
            Self::CollectiveTimeout { missing: ranks, .. } | Self::NoProgress { ranks, .. } => {
                ranks.iter().map(|member| member.rank).collect()
            }
            Self::CallFailed { who, kind: ErrorKind::RankLost, .. } => vec![who.rank],
            Self::JoinTimeout { missing, .. } => missing.clone(),
            _ => Vec::new(),
        }
    }

    /// Returns the class of the error.
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::MissingVariable { .. } => ErrorKind::NotLaunched,
            Self::InvalidVariable { .. }
            | Self::ConflictingVariables { .. }
            | Self::DerivedSecret { .. }
            | Self::InvalidText { .. }
            | Self::NoSuchRank { .. }
            | Self::TooManyRanks { .. }
            | Self::TooLarge { .. }
            | Self::Forked { .. }
            | Self::DuplicateRank { .. } => ErrorKind::InvalidInput,
            Self::Mismatch { .. }
            | Self::ConfigMismatch { .. }
            | Self::WorldSize { .. }
            | Self::Version { .. }
            | Self::AuthenticationFailed { .. } => ErrorKind::Mismatch,
            Self::JoinTimeout { .. }
            | Self::CollectiveTimeout { .. }
            | Self::NoProgress { .. }
            | Self::Timeout { .. }
            | Self::NotObserved { .. }
            | Self::Unreachable { .. } => ErrorKind::Timeout,
            Self::NoDescriptor { .. } => ErrorKind::OutOfResources,
            Self::CallFailed { kind, .. } | Self::JobFailed { kind, .. } => *kind,
            Self::Died { .. }
            | Self::Ended { .. }
            | Self::Unresponsive { .. }
            | Self::RankLeft { .. }
            | Self::Aborted { .. }
            | Self::Excluded { .. } => ErrorKind::RankLost,
            Self::Revoked { .. } => ErrorKind::Revoked,
            Self::Bind { .. }
            | Self::Protocol { .. }
            | Self::FrameAuthenticationFailed { .. }
            | Self::System { .. } => ErrorKind::System,
        }
    }

    /// Returns the rank that waited or failed, if the error names one. Errors of a whole group are the same on all its ranks
    /// and name none.
    pub const fn rank(&self) -> Option<u32> {
        match self {
            Self::Unreachable { rank, .. }
            | Self::Timeout { rank, .. }
            | Self::NoSuchRank { rank, .. }
            | Self::DerivedSecret { rank, .. } => Some(*rank),
            Self::RankLeft { waiting, .. } => *waiting,
            Self::Bind { .. } => Some(0),
            _ => None,
        }
    }

    /// Returns the call that failed: `barrier`.
    pub fn operation(&self) -> Option<&str> {
        match self {
            Self::CollectiveTimeout { call, .. }
            | Self::NoProgress { call, .. }
            | Self::CallFailed { call, .. }
            | Self::RankLeft { call, .. }
            | Self::Timeout { call, .. }
            | Self::TooLarge { call, .. } => Some(call),
            Self::Mismatch { first_call, .. } => Some(first_call),
            Self::Ended { cause, .. } => cause.operation(),
            _ => None,
        }
    }

    /// Returns the rank that the failure began with. Of several ranks that are missing, the first.
    pub fn root_cause(&self) -> Option<RootCause> {
        let rank = match self {
            Self::Mismatch { second, .. }
            | Self::ConfigMismatch { second, .. }
            | Self::DuplicateRank { second, .. } => second.rank,
            Self::WorldSize { who, .. } | Self::CallFailed { who, .. } | Self::Revoked { who } => who.rank,
            Self::Unreachable { peer, .. } => *peer,
            Self::Ended { who, cause } => cause.root_cause().map_or(who.rank, |cause| cause.rank),
            Self::FrameAuthenticationFailed { from, .. } => *from,
            _ => *self.lost().first()?,
        };
        Some(RootCause::new(rank, self.to_string()))
    }

    /// Returns how to fix the error, for errors with a known remedy.
    pub fn help(&self) -> Option<&'static str> {
        Some(match self {
            Self::MissingVariable { .. } => {
                "start the program with `mscclpp launch`, torchrun, mpirun or srun, or set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT"
            }
            Self::Bind { .. } => {
                "set MSCCLPP_MASTER_ADDR and MSCCLPP_MASTER_PORT to an address of rank 0's host and a free port"
            }
            Self::Unreachable { peer: 0, .. } => {
                "check that rank 0 is running, and that MASTER_ADDR and MASTER_PORT are the same on all ranks"
            }
            Self::Unreachable { .. } => {
                "check that the hosts of the ranks can reach each other at this address; set \
                 MSCCLPP_MASTER_ADDR=interface:host:port to select the interface"
            }
            Self::AuthenticationFailed { .. } => {
                "set the same MSCCLPP_SECRET on all ranks of a job, and use a separate port for each job"
            }
            Self::DerivedSecret { .. } => {
                "set MSCCLPP_SECRET to the same value on all ranks, such as the output of `openssl rand -hex 16`; or set \
                 MSCCLPP_ALLOW_DERIVED_SECRET=1 on all ranks if every user who can reach their hosts is trusted"
            }
            Self::FrameAuthenticationFailed { .. } => {
                "find what changes data between the hosts of these ranks: a proxy, a relay or defective hardware; connect \
                 them directly, or select another interface with MSCCLPP_MASTER_ADDR=interface:host:port"
            }
            Self::JoinTimeout { .. } => {
                "set MSCCLPP_RENDEZVOUS_TIMEOUT to the number of seconds in which all ranks start"
            }
            Self::CollectiveTimeout { .. } | Self::NoProgress { .. } | Self::Timeout { .. } => {
                "set MSCCLPP_TIMEOUT to the number of seconds that ranks may wait for each other"
            }
            Self::NoDescriptor { .. } => {
                "raise the limit: `ulimit -n` of a process, `sysctl fs.file-max` of all processes"
            }
            Self::Excluded { .. } => "join the other ranks again with `join_grown` when they call `grow`",
            Self::Revoked { .. } => "continue with `shrink(&[])`, which creates a new communicator of the same ranks",
            Self::Unresponsive { .. } => {
                "set MSCCLPP_HEARTBEAT_TIMEOUT to the number of seconds without a heartbeat after which a rank \
                 counts as lost; 0 disables the check"
            }
            Self::Forked { .. } => {
                "start processes before the communicator is created, or with `spawn` instead of `fork`, and create a \
                 communicator in each process that makes calls"
            }
            Self::Version { .. } | Self::ConfigMismatch { .. } => {
                "run the same build with the same settings on all ranks"
            }
            _ => return None,
        })
    }
}
