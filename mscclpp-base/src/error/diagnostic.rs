//! Rules, help and diagnostics of errors.

use mscclpp_core::diag::{Code, Diagnostic, Site};
use mscclpp_core::types::ReduceOp;

use super::channel::ChannelError;
use super::{Error, ErrorKind};
use crate::system::AvailableMemory;
#[cfg(feature = "process")]
use mscclpp_bootstrap as bootstrap;

impl Error {
    /// Returns the violated rule.
    pub const fn code(&self) -> Code {
        match self {
            Self::Stalled(_) => Code::Stalled,
            Self::RankCountMismatch { .. } => Code::WrongNumberOfRanks,
            Self::InvalidPlan { .. } | Self::CrossNodeAccess { .. } => Code::MalformedPlan,
            Self::MessageSize { .. } => Code::MessageOutOfRange,
            Self::IndivisibleCount { .. } | Self::NotDividing { .. } => Code::IndivisibleCount,
            Self::TooLarge { .. } => Code::MessageTooLarge,
            Self::FixedReduction { .. } => Code::FixedReduction,
            Self::UnsupportedAccumulator { .. } => Code::NoSuchReduction,
            Self::CountOverflow(_) => Code::CountOverflow,
            Self::Rows(error) => error.code(),
            Self::BufferSize { .. }
            | Self::CountRow { .. }
            | Self::CountMode { .. }
            | Self::BufferCount { .. }
            | Self::ElementType { .. }
            | Self::ForeignBuffers { .. }
            | Self::DeviceCopy { .. }
            | Self::Tensor { .. }
            | Self::NotLocalRank { .. }
            | Self::StreamDeviceMismatch { .. } => Code::WrongBuffers,
            Self::BufferModeMismatch { .. } => Code::InPlaceMismatch,
            Self::ReadOnlyInput { .. } => Code::ReadOnlyInput,
            Self::ScratchLimit { .. }
            | Self::OutOfMemory { .. }
            | Self::LimitExceeded { .. }
            | Self::SpawnThread(_)
            | Self::System { .. } => Code::OutOfResources,
            Self::RankLost { .. } => Code::LostRank,
            #[cfg(feature = "process")]
            Self::Bootstrap(error) if matches!(error.kind(), ErrorKind::Mismatch) => Code::CallMismatch,
            #[cfg(feature = "process")]
            Self::Interrupted(_) | Self::Bootstrap(_) => Code::LostRank,
            Self::Select { .. }
            | Self::NoPlan { .. }
            | Self::Selector { .. }
            | Self::NativeAlgorithm { .. }
            | Self::TuningTable(_)
            | Self::Environment(_) => Code::NoAlgorithm,
            Self::Length { .. } | Self::Root { .. } | Self::Peer { .. } | Self::OwnTransfer { .. } => Code::InvalidCall,
            Self::Transfer { source, .. } => source.code(),
            Self::ReceiveMemory { .. } | Self::PeerOutOfMemory { .. } => Code::OutOfResources,
            Self::Panicked { .. } => Code::CallPanicked,
            Self::LateData(_) => Code::LateAccess,
            Self::DroppedBuffer { .. } | Self::PartLength { .. } | Self::Busy | Self::BusyTimeout { .. } => {
                Code::CallMismatch
            }
            Self::NotCoResident { .. } => Code::NotResident,
            Self::NoPeerAccess { .. } => Code::NoPeerAccess,
            Self::NoDevice(_) => Code::NoDevice,
            Self::Capturing { .. } => Code::Capturing,
            Self::Driver(_) | Self::MapFailed { .. } | Self::NotShareable { .. } => Code::DriverFailed,
            Self::Jit(_) => Code::NotCompiled,
            Self::KernelChannel(error) => match **error {
                ChannelError::Stalled { .. } => Code::Stalled,
                ChannelError::Stopped { .. }
                | ChannelError::InvalidRequest { .. }
                | ChannelError::NoSuchChannel { .. }
                | ChannelError::NotConnected => Code::InvalidCall,
            },
            Self::Internal(_) => Code::ExecutorFault,
        }
    }

    /// Returns how to fix the error, for errors with a known remedy.
    fn help(&self) -> Option<String> {
        Some(match self {
            Self::RankCountMismatch { expected, found, .. } => format!(
                "use an executor of {expected} ranks, or a \
                plan for {found} ranks"
            ),
            Self::CrossNodeAccess { .. } => {
                "use a port channel between nodes, or a plan that was compiled for the actual number of ranks per \
                 node; devices that cannot access each other's memory are on different nodes (`Executor::peer_paths`)"
                    .into()
            }
            Self::MessageSize { .. } => "use another plan, or disable this check with `Message::any_size`".into(),
            Self::IndivisibleCount { count, num_ranks: ranks, .. } => {
                let next = count.checked_next_multiple_of(u64::from(*ranks)).unwrap_or(0);
                format!("use {next} elements, the next multiple of {ranks}")
            }
            Self::NotDividing { count, multiple } => {
                let next = count.checked_next_multiple_of(*multiple).unwrap_or(0);
                format!("use {next} elements, the next multiple of {multiple}, or another plan")
            }
            Self::FixedReduction { fixed, requested: ReduceOp::Avg, .. } if fixed == ReduceOp::Sum.name() => {
                "an average divides whole outputs, and outputs of this collective may be copies: omit the reduction of the \
                 message and divide the sums, or use `avg` in the plan"
                    .into()
            }
            Self::FixedReduction { fixed, .. } => {
                format!(
                    "omit the reduction of the message to reduce with {fixed}, or use a plan of sums, which supports \
                     any reduction"
                )
            }
            Self::Rows(error) => error.help(),
            Self::UnsupportedAccumulator { dtype, .. } if dtype.is_integer() => "accumulate integers as \
                `Native`"
                .into(),
            Self::UnsupportedAccumulator { .. } => "accumulate as `F64`".into(),
            Self::ForeignBuffers { .. } => {
                "create the buffers with `PreparedPlan::buffers` or `PreparedPlan::bind` on \
                the same executor"
                    .into()
            }
            Self::BufferModeMismatch { in_place: true, .. } => "launch with `launch_in_place`".into(),
            Self::BufferModeMismatch { .. } => "launch with inputs and outputs".into(),
            Self::ReadOnlyInput { .. } => "launch with `Buffers`, whose inputs may be overwritten".into(),
            Self::NotCoResident { .. } => {
                "use fewer ranks, or a plan with fewer thread blocks or threads per block".into()
            }
            Self::NoPeerAccess { .. } => {
                "use devices with peer access (`nvidia-smi topo -p2p r`), one device for all ranks, or a rank per \
                 thread or process with `Communicator` or `Executor::connect`, whose data then goes through the host"
                    .into()
            }
            Self::MapFailed { .. } => {
                "make the devices of all processes visible to every process (`CUDA_VISIBLE_DEVICES`), and use devices \
                 for which `nvidia-smi topo -p2p r` reports OK"
                    .into()
            }
            Self::NotShareable { .. } => {
                "use memory of `OnStream::alloc`, `Executor::alloc` or `cuMemAlloc`; memory of pools, memory that is limited \
                 to one process, and parts of several allocations cannot be shared. Calls of a communicator copy memory that \
                 is not registered"
                    .into()
            }
            Self::StreamDeviceMismatch { .. } => {
                "use memory and a stream of the device of the rank, for an executor a stream of `Executor::stream`".into()
            }
            Self::ScratchLimit { .. } => "send smaller messages, or raise `Options::scratch_limit`".into(),
            Self::OutOfMemory { available: Some(AvailableMemory { group: Some(_), .. }), .. } => {
                "raise the limit of the control group (of a container: `docker run --memory`), send smaller messages, or \
                 use fewer ranks"
                    .into()
            }
            Self::OutOfMemory { .. } => "send smaller messages, or use fewer ranks".into(),
            Self::LimitExceeded { limit, .. } => limit.help(),
            Self::LateData(late) => format!(
                "let rank {} wait for a signal that rank {} sends over the same port channel after the put; a flush \
                 guarantees only that the source was read",
                late.rank, late.peer
            ),
            #[cfg(feature = "process")]
            Self::Bootstrap(error) if matches!(**error, bootstrap::Error::Mismatch { .. }) => {
                "make the same calls in the same order on all ranks".into()
            }
            #[cfg(feature = "process")]
            Self::Bootstrap(error) if error.help().is_some() => error.help()?.into(),
            #[cfg(feature = "process")]
            Self::Interrupted(aborted) if aborted.cause.help().is_some() => aborted.cause.help()?.into(),
            Self::Busy | Self::BusyTimeout { .. } => "use a separate communicator per thread, or make all calls from one thread".into(),
            Self::DroppedBuffer { .. } => "drop shared buffers at the same point of the sequence of calls on all \
                ranks"
                .into(),
            Self::Capturing { .. } => {
                "prepare the plan, allocate and bind the buffers before the capture; with more than 32 ranks, also \
                 launch once with these buffers"
                    .into()
            }
            Self::Driver(error) if error.name == "CUDA_ERROR_OUT_OF_MEMORY" => {
                "send smaller messages, use fewer ranks, or free memory of the device".into()
            }
            Self::ReceiveMemory { .. } => "send fewer elements at once".into(),
            Self::PartLength { .. } => "make the lengths of both ranks equal".into(),
            Self::Transfer { is_send_on_stream: true, source, .. }
                if matches!(source.kind(), ErrorKind::Timeout | ErrorKind::Stalled) =>
            {
                "make the sends and receives of both ranks in a group (`Group`, `ncclGroupStart`, \
                 `batch_isend_irecv`), or receive first on one of them"
                    .into()
            }
            Self::Transfer { source, .. } => return source.help(),
            error if error.kind() == ErrorKind::RankLost => {
                "create a communicator of the remaining ranks with `shrink`".into()
            }
            _ => return None,
        })
    }

    /// Returns the error as a diagnostic, with its rule and how to fix it.
    pub fn diagnostic(&self) -> Diagnostic {
        let mut diagnostic = match self {
            Self::Stalled(stall) => stall.diagnostic(Code::Stalled, None),
            #[cfg(feature = "process")]
            Self::Interrupted(interrupted) => interrupted.diagnostic(),
            Self::InvalidPlan { path: place, what } => {
                Diagnostic::new(self.code(), Site::Path(place.clone()), what.clone())
            }
            other => Diagnostic::new(self.code(), Site::None, other.to_string()),
        };
        if let Some(help) = self.help() {
            diagnostic = diagnostic.help(help);
        }
        diagnostic
    }
}
