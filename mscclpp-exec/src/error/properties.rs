//! What programs ask of an error: its class, who reports it, in which operation, who caused it, who is lost.

use super::{AbortCause, Error, ErrorKind, LaunchAborted, RootCause, Stall};

impl Error {
    /// Returns the class of the error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            #[cfg(feature = "process")]
            Self::Bootstrap(error) => error.kind(),
            Self::Stalled(_) => ErrorKind::Stalled,
            Self::InvalidPlan { .. } | Self::LateData(_) => ErrorKind::InvalidPlan,
            Self::RankCountMismatch { .. }
            | Self::MessageSize { .. }
            | Self::IndivisibleCount { .. }
            | Self::TooLarge { .. }
            | Self::FixedReduction { .. }
            | Self::UnsupportedAccumulator { .. }
            | Self::BufferSize { .. }
            | Self::BufferCount { .. }
            | Self::ElementType { .. }
            | Self::ForeignBuffers { .. }
            | Self::BufferModeMismatch { .. }
            | Self::ReadOnlyInput { .. }
            | Self::Tensor { .. }
            | Self::NotLocalRank { .. }
            | Self::StreamDeviceMismatch { .. }
            | Self::DeviceCopy { .. }
            | Self::Capturing { .. }
            | Self::Select { .. }
            | Self::NoPlan { .. }
            | Self::TuningTable(_)
            | Self::Length { .. }
            | Self::Root { .. } => ErrorKind::InvalidInput,
            Self::CallMismatch { .. } | Self::DroppedBuffer { .. } => ErrorKind::Mismatch,
            Self::Busy => ErrorKind::Busy,
            Self::ScratchLimit { .. }
            | Self::OutOfMemory { .. }
            | Self::ReceiveMemory { .. }
            | Self::NotCoResident { .. }
            | Self::SpawnThread(_) => ErrorKind::OutOfResources,
            Self::CrossNodeAccess { .. } | Self::NoPeerAccess { .. } => ErrorKind::Unsupported,
            #[cfg(feature = "cuda")]
            Self::NoDevice(_) => ErrorKind::Unsupported,
            Self::Interrupted(aborted) => match &aborted.cause {
                AbortCause::Timeout { .. } => ErrorKind::Timeout,
                AbortCause::PeerLost { .. } | AbortCause::PeerAborted { .. } => ErrorKind::RankLost,
                #[cfg(feature = "process")]
                AbortCause::Group(error) => error.kind(),
            },
            Self::RankLost { .. } | Self::CommunicatorFailed { .. } => ErrorKind::RankLost,
            #[cfg(feature = "cuda")]
            Self::Driver(_) | Self::MapFailed { .. } | Self::Jit(_) => ErrorKind::System,
            Self::NativeAlgorithm { .. } | Self::Panicked { .. } | Self::System { .. } => ErrorKind::System,
            Self::Internal(_) => ErrorKind::Internal,
        }
    }

    /// Returns why the communicator has failed, if that is the cause.
    #[cfg(feature = "process")]
    pub(crate) fn bootstrap(&self) -> Option<&mscclpp_bootstrap::Error> {
        match self {
            Self::Bootstrap(error) => Some(error),
            Self::Interrupted(interrupted) => match &interrupted.cause {
                AbortCause::Group(error) => Some(error),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns the rank that reports the error, where the error names it.
    pub fn rank(&self) -> Option<u32> {
        match self {
            Self::CrossNodeAccess { rank, .. }
            | Self::BufferSize { rank, .. }
            | Self::CallMismatch { rank, .. }
            | Self::DroppedBuffer { rank, .. }
            | Self::Select { rank, .. }
            | Self::NoPlan { rank, .. }
            | Self::NativeAlgorithm { rank, .. }
            | Self::Length { rank, .. }
            | Self::Root { rank, .. }
            | Self::ReceiveMemory { rank, .. }
            | Self::Panicked { rank, .. } => Some(*rank),
            #[cfg(feature = "cuda")]
            Self::MapFailed { rank, .. } => Some(*rank),
            Self::Interrupted(aborted) => Some(aborted.rank),
            Self::LateData(late) => Some(late.rank),
            Self::Stalled(stall) => stall.blocked.first().map(|block| block.rank),
            #[cfg(feature = "process")]
            Self::Bootstrap(error) => error.rank(),
            _ => None,
        }
    }

    /// Returns the operation that failed: of a plan, `rank 3 / thread block 0 / operation 5 (put)`, of a call, its name.
    pub fn operation(&self) -> Option<String> {
        let blocked = |stall: &Stall| stall.blocked.first().map(|block| block.path());
        match self {
            Self::Stalled(stall) => blocked(stall),
            Self::Interrupted(aborted) => blocked(&aborted.stall),
            Self::InvalidPlan { place, .. } | Self::CrossNodeAccess { place, .. } => Some(place.clone()),
            Self::LateData(late) => late.place.clone(),
            Self::CallMismatch { call, .. } => Some(call.clone()),
            Self::NoPlan { request, .. } | Self::NativeAlgorithm { request, .. } => Some(request.clone()),
            Self::Length { call, .. } | Self::Root { call, .. } | Self::ReceiveMemory { call, .. } => {
                Some((*call).to_owned())
            }
            #[cfg(feature = "process")]
            Self::Bootstrap(error) => error.operation().map(str::to_owned),
            _ => None,
        }
    }

    /// Returns the rank that the failure began with, and why; none if no other rank caused the error.
    pub fn root_cause(&self) -> Option<RootCause> {
        let rank = match self {
            #[cfg(feature = "process")]
            Self::Bootstrap(error) => return error.root_cause(),
            Self::Interrupted(aborted) => match &aborted.cause {
                #[cfg(feature = "process")]
                AbortCause::Group(error) => return error.root_cause(),
                _ => *self.lost().first()?,
            },
            Self::CallMismatch { peer, .. } | Self::RankLost { peer, .. } | Self::DroppedBuffer { peer, .. } => *peer,
            Self::LateData(late) => late.peer,
            Self::ReceiveMemory { rank, .. } => *rank,
            _ => return None,
        };
        let reason = match self {
            Self::Interrupted(aborted) => aborted.cause.to_string(),
            other => other.to_string(),
        };
        Some(RootCause::new(rank, reason))
    }

    /// Returns the ranks that the communicator has lost by this failure, ascending; for `Communicator::shrink`.
    pub fn lost(&self) -> Vec<u32> {
        match self {
            #[cfg(feature = "process")]
            Self::Bootstrap(error) => error.lost(),
            Self::RankLost { peer, .. } => vec![*peer],
            Self::Interrupted(aborted) => aborted.lost(),
            _ => Vec::new(),
        }
    }
}

impl LaunchAborted {
    /// Returns the ranks that ended, aborted, did not start the launch or did not report within the timeout, ascending.
    pub fn lost(&self) -> Vec<u32> {
        let mut lost = match &self.cause {
            AbortCause::PeerLost { peer } | AbortCause::PeerAborted { peer } => vec![*peer],
            AbortCause::Timeout { not_started, unresponsive, .. } => [&not_started[..], unresponsive].concat(),
            #[cfg(feature = "process")]
            AbortCause::Group(error) => error.lost(),
        };
        lost.sort_unstable();
        lost.dedup();
        lost
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn aborted(cause: AbortCause) -> Error {
        let stall = Stall { plan: "ring".into(), launch: 3, blocks: 0, blocked: Vec::new() };
        Error::Interrupted(Box::new(LaunchAborted { rank: 0, cause, stall }))
    }

    #[test]
    fn aborted_launch_names_lost_ranks_and_root_cause() {
        let timeout =
            AbortCause::Timeout { after: Duration::from_secs(4), not_started: vec![3, 1], unresponsive: vec![2, 3] };
        let error = aborted(timeout);
        assert_eq!((error.kind(), error.rank(), error.lost()), (ErrorKind::Timeout, Some(0), vec![1, 2, 3]));
        assert_eq!(error.root_cause().map(|cause| cause.rank), Some(1));
        let error = aborted(AbortCause::PeerLost { peer: 2 });
        assert_eq!((error.kind(), error.lost()), (ErrorKind::RankLost, vec![2]));
        assert!(error.root_cause().is_some_and(|cause| cause.rank == 2 && cause.reason.contains("rank 2")));
    }

    #[test]
    fn invalid_call_names_call_and_rank_but_no_root_cause() {
        let error = Error::Root { call: "broadcast", rank: 1, root: 9, ranks: 4 };
        assert_eq!((error.kind(), error.rank()), (ErrorKind::InvalidInput, Some(1)));
        assert_eq!((error.operation().as_deref(), error.root_cause()), (Some("broadcast"), None));
        assert!(error.lost().is_empty());
    }
}
