//! What programs ask of an error: its class, who reports it, in which operation, who caused it, who is lost.

#[cfg(feature = "process")]
use super::LaunchAborted;
use super::channel::ChannelError;
use super::{Error, ErrorKind, RootCause, Stall, UnblockedBy, WaitsFor};

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
            | Self::NotDividing { .. }
            | Self::TooLarge { .. }
            | Self::FixedReduction { .. }
            | Self::UnsupportedAccumulator { .. }
            | Self::BufferSize { .. }
            | Self::CountOverflow(_)
            | Self::CountRow { .. }
            | Self::CountMode { .. }
            | Self::Rows(_)
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
            | Self::Environment(_)
            | Self::Length { .. }
            | Self::Root { .. }
            | Self::Peer { .. }
            | Self::OwnTransfer { .. } => ErrorKind::InvalidInput,
            Self::Transfer { source, .. } => source.kind(),
            Self::DroppedBuffer { .. } | Self::PartLength { .. } => ErrorKind::Mismatch,
            Self::Busy => ErrorKind::Busy,
            Self::BusyTimeout { .. } => ErrorKind::Timeout,
            Self::ScratchLimit { .. }
            | Self::OutOfMemory { .. }
            | Self::LimitExceeded { .. }
            | Self::PeerOutOfMemory { .. }
            | Self::ReceiveMemory { .. }
            | Self::NotCoResident { .. }
            | Self::SpawnThread(_) => ErrorKind::OutOfResources,
            Self::CrossNodeAccess { .. } | Self::NoPeerAccess { .. } => ErrorKind::Unsupported,
            Self::NoDevice(_) | Self::NotShareable { .. } => ErrorKind::Unsupported,
            #[cfg(feature = "process")]
            Self::Interrupted(aborted) => aborted.cause.kind(),
            Self::KernelChannel(error) => match **error {
                ChannelError::Stalled { .. } => ErrorKind::Stalled,
                _ => ErrorKind::InvalidInput,
            },
            Self::RankLost { .. } => ErrorKind::RankLost,
            Self::Driver(_) | Self::MapFailed { .. } | Self::Jit(_) => ErrorKind::System,
            Self::Selector { .. } | Self::NativeAlgorithm { .. } | Self::Panicked { .. } | Self::System { .. } => {
                ErrorKind::System
            }
            Self::Internal(_) => ErrorKind::Internal,
        }
    }

    /// Returns why the communicator has failed, if that is the cause.
    #[cfg(feature = "process")]
    pub fn bootstrap(&self) -> Option<&mscclpp_bootstrap::Error> {
        match self {
            Self::Bootstrap(error) => Some(error),
            Self::Interrupted(aborted) => Some(&aborted.cause),
            _ => None,
        }
    }

    /// Returns the rank that reports the error, where the error names it.
    pub fn rank(&self) -> Option<u32> {
        match self {
            Self::CrossNodeAccess { rank, .. }
            | Self::BufferSize { rank, .. }
            | Self::CountRow { rank, .. }
            | Self::DroppedBuffer { rank, .. }
            | Self::Select { rank, .. }
            | Self::NoPlan { rank, .. }
            | Self::Selector { rank, .. }
            | Self::NativeAlgorithm { rank, .. }
            | Self::Length { rank, .. }
            | Self::Root { rank, .. }
            | Self::Peer { rank, .. }
            | Self::OwnTransfer { rank, .. }
            | Self::Transfer { rank, .. }
            | Self::ReceiveMemory { rank, .. }
            | Self::PartLength { rank, .. }
            | Self::BusyTimeout { rank, .. }
            | Self::Panicked { rank, .. } => Some(*rank),
            Self::MapFailed { rank, .. } | Self::NotShareable { rank, .. } => Some(*rank),
            Self::CountOverflow(overflow) => Some(overflow.rank),
            Self::Rows(error) => error.rank(),
            Self::KernelChannel(error) => error.rank(),
            #[cfg(feature = "process")]
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
            #[cfg(feature = "process")]
            Self::Interrupted(aborted) => blocked(&aborted.stall),
            Self::InvalidPlan { path: place, .. } | Self::CrossNodeAccess { path: place, .. } => Some(place.clone()),
            Self::LateData(late) => late.sent_by.clone(),
            Self::CountOverflow(_) => Some("exchange_counts".to_owned()),
            Self::PeerOutOfMemory { call, .. } => Some(call.clone()),
            Self::NoPlan { request, .. } | Self::Selector { request, .. } | Self::NativeAlgorithm { request, .. } => {
                Some(request.clone())
            }
            Self::Length { call, .. }
            | Self::Root { call, .. }
            | Self::Peer { call, .. }
            | Self::PartLength { call, .. }
            | Self::ReceiveMemory { call, .. } => Some((*call).to_owned()),
            Self::Transfer { call, source, .. } => source.operation().or_else(|| Some((*call).to_owned())),
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
            #[cfg(feature = "process")]
            Self::Interrupted(aborted) => return aborted.cause.root_cause(),
            Self::Stalled(stall) => stall.root_cause()?,
            Self::RankLost { peer, .. }
            | Self::PeerOutOfMemory { peer, .. }
            | Self::DroppedBuffer { peer, .. }
            | Self::PartLength { peer, .. } => *peer,
            Self::MapFailed { peer, .. } | Self::NotShareable { rank: peer, .. } => *peer,
            Self::LateData(late) => late.peer,
            Self::CountOverflow(overflow) => overflow.root_cause(),
            Self::ReceiveMemory { rank, .. } | Self::BusyTimeout { rank, .. } => *rank,
            Self::Transfer { rank, peer, source, .. } => {
                let of_pair = source.root_cause()?.rank;
                if of_pair == 0 { *rank.min(peer) } else { *rank.max(peer) }
            }
            _ => return None,
        };
        Some(RootCause::new(rank, self.to_string()))
    }

    /// Returns the ranks that the communicator has lost by this failure, ascending; for `Communicator::shrink`.
    pub fn lost(&self) -> Vec<u32> {
        match self {
            #[cfg(feature = "process")]
            Self::Bootstrap(error) => error.lost(),
            Self::RankLost { peer, .. } => vec![*peer],
            #[cfg(feature = "process")]
            Self::Interrupted(aborted) => aborted.lost(),
            Self::Transfer { rank, peer, source, .. } => {
                let of_all = |of_pair: u32| if of_pair == 0 { *rank.min(peer) } else { *rank.max(peer) };
                source.lost().into_iter().map(of_all).collect()
            }
            _ => Vec::new(),
        }
    }
}

#[cfg(feature = "process")]
impl LaunchAborted {
    /// Returns the ranks that ended, aborted, did not start the launch or made no progress in it within the timeout, ascending.
    pub fn lost(&self) -> Vec<u32> {
        self.cause.lost()
    }
}

impl Stall {
    /// Returns the rank that the others wait for: one that has not started, else one that would unblock the first waiting
    /// thread block, else that block's own.
    fn root_cause(&self) -> Option<u32> {
        let first = self.blocked.first()?;
        Some(match (&first.waits_for, &first.unblocked_by) {
            (WaitsFor::Peers { ranks }, _) if !ranks.is_empty() => ranks[0],
            (_, UnblockedBy::Operation { rank, .. }) | (WaitsFor::Signal { peer: rank, .. }, _) => *rank,
            _ => first.rank,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "process")]
    #[test]
    fn aborted_launch_names_lost_ranks_and_root_cause() {
        let group = mscclpp_bootstrap::Bootstrap::local(4).expect("four ranks");
        let ranks = [1, 2].map(|rank| group[0].rank_info(rank).expect("it exists").clone()).to_vec();
        let cause = mscclpp_bootstrap::Error::NoProgress {
            call: "a call".into(),
            ranks,
            waiting: vec![0],
            waited: std::time::Duration::from_secs(4),
        };
        let stall = Stall { plan: "ring".into(), launch: 3, num_blocks: 0, blocked: Vec::new() };
        let error = Error::Interrupted(Box::new(LaunchAborted { rank: 0, cause: Box::new(cause), stall }));
        assert_eq!((error.kind(), error.rank(), error.lost()), (ErrorKind::Timeout, Some(0), vec![1, 2]));
        assert!(error.root_cause().is_some_and(|cause| cause.rank == 1 && cause.reason.contains("no progress")));
    }

    #[test]
    fn invalid_call_names_call_and_rank_but_no_root_cause() {
        let error = Error::Root { call: "broadcast", rank: 1, root: 9, num_ranks: 4 };
        assert_eq!((error.kind(), error.rank()), (ErrorKind::InvalidInput, Some(1)));
        assert_eq!((error.operation().as_deref(), error.root_cause()), (Some("broadcast"), None));
        assert!(error.lost().is_empty());
    }
}
