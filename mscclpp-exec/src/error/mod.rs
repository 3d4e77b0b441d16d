//! What can go wrong when a plan runs.

mod peers;
mod stall;

pub use peers::{AbortCause, LateData, LaunchAborted};
pub(crate) use stall::path;
pub use stall::{BlockedThreadBlock, Stall, UnblockedBy, WaitsFor};

use mscclpp_core::diag::{Code, Diagnostic, Site};
use mscclpp_core::types::ReduceOp;
use thiserror::Error;

#[cfg(feature = "cuda")]
use crate::cuda::{CudaUnavailable, DriverError, jit::JitError};
use crate::dtype::DataType;
use crate::numeric::AccumType;

/// Why a plan could not be prepared or did not finish.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Error {
    /// No thread block could go on.
    #[error(transparent)]
    Stalled(Box<Stall>),
    /// A world of another size.
    #[error("plan `{plan}` is for {expected} ranks, found an executor of {found} ranks")]
    RankCountMismatch {
        /// The plan.
        plan: String,
        /// Ranks of the plan.
        expected: u32,
        /// Ranks of the world.
        found: u32,
    },
    /// A plan that cannot be run: an index outside of its table, an operation without what it needs.
    #[error("{place}: {what}")]
    InvalidPlan {
        /// `rank 3 / thread block 0 / operation 5 (put)`.
        place: String,
        /// What is wrong there.
        what: String,
    },
    /// An operation that reaches memory of a rank on another node.
    #[error("{place}: rank {rank} on node {node} accesses the memory of rank {peer}, which is on node {other}")]
    CrossNodeAccess {
        /// `rank 3 / thread block 0 / operation 5 (put)`.
        place: String,
        /// The rank.
        rank: u32,
        /// Its node.
        node: u32,
        /// The other rank.
        peer: u32,
        /// That one's node.
        other: u32,
    },
    /// A message outside of the sizes that the plan is meant for.
    #[error("plan `{plan}` is for messages of {least} to {most} bytes, found {bytes} bytes")]
    MessageSize {
        /// The plan.
        plan: String,
        /// Bytes of a rank's input, in an all-gather of its output.
        bytes: u64,
        /// The plan's smallest message.
        least: u64,
        /// The plan's largest message.
        most: u64,
    },
    /// A count that does not give every rank an equal part.
    #[error("expected a multiple of {ranks} elements for {collective}, found {count}")]
    UnequalParts {
        /// Name of the collective.
        collective: &'static str,
        /// Elements of the larger buffer.
        count: u64,
        /// Number of ranks.
        ranks: u32,
    },
    /// A message that no memory holds.
    #[error("{count} elements of {dtype} exceed the address space")]
    TooLarge {
        /// Elements of the larger buffer.
        count: u64,
        /// Their type.
        dtype: DataType,
    },
    /// A reduction that the plan does not do.
    #[error("plan `{plan}` reduces with {fixed}, but the message requests {asked}")]
    FixedReduction {
        /// The plan.
        plan: String,
        /// Its reductions.
        fixed: String,
        /// What was asked for.
        asked: ReduceOp,
    },
    /// A type that cannot be combined as asked.
    #[error("elements of {dtype} cannot be accumulated as {accumulate}")]
    UnsupportedAccumulator {
        /// The elements' type.
        dtype: DataType,
        /// The accumulator that was asked for.
        accumulate: AccumType,
    },
    /// A buffer of another length.
    #[error("{buffer} of rank {rank} has {found} bytes, expected {expected} bytes")]
    BufferSize {
        /// The rank.
        rank: u32,
        /// `input`, `output` or `buffer`.
        buffer: &'static str,
        /// Bytes that the message needs.
        expected: u64,
        /// Bytes of the buffer.
        found: u64,
    },
    /// Another number of buffers than there are ranks.
    #[error("expected {expected} {buffer} buffers, one per rank, found {found}")]
    BufferCount {
        /// `input`, `output` or `in-place`.
        buffer: &'static str,
        /// Number of ranks.
        expected: u32,
        /// Number of buffers.
        found: usize,
    },
    /// Elements of another type.
    #[error("expected buffers of {expected} for this message, found {found}")]
    ElementType {
        /// Type of the message.
        expected: DataType,
        /// Type of the buffers.
        found: DataType,
    },
    /// Buffers on devices that were made in another world.
    #[error("expected buffers of {expected}, found buffers of {found}")]
    OtherWorld {
        /// The world of the run: its number in this process, its ranks and their devices.
        expected: String,
        /// The world of the buffers.
        found: String,
    },
    /// An in-place plan with two buffers, or the other way round.
    #[error("plan `{plan}` is {}, but was launched with {}", if *.in_place { "in place" } else { "out of place" }, if *.in_place { "separate inputs and outputs" } else { "one buffer per rank" })]
    BufferModeMismatch {
        /// The plan.
        plan: String,
        /// Whether the plan is in place.
        in_place: bool,
    },
    /// A plan that writes to an input that was handed in for reading.
    #[error("plan `{plan}` overwrites its inputs, but its inputs were passed as read-only")]
    ReadOnlyInput {
        /// The plan.
        plan: String,
    },
    /// More scratch than the world allows.
    #[error("plan `{plan}` needs {bytes} bytes of scratch for this message, the limit is {limit} bytes")]
    ScratchLimit {
        /// The plan.
        plan: String,
        /// Bytes of all ranks together; `u64::MAX` if that is not even a number of bytes.
        bytes: u64,
        /// What the world allows.
        limit: u64,
    },
    /// Memory that cannot be had.
    #[error("{bytes} bytes of {purpose} are required, but only {available} bytes are available")]
    OutOfMemory {
        /// What for.
        purpose: &'static str,
        /// Bytes of all ranks together.
        bytes: u64,
        /// What the system says it could give.
        available: u64,
    },
    /// More thread blocks than a device runs at once, so that some would wait for others that never start.
    #[error(
        "plan `{plan}` has {blocks} thread blocks of {threads} threads on {device}, where at most {fit} of them are \
         co-resident"
    )]
    NotCoResident {
        /// The plan.
        plan: String,
        /// The device.
        device: String,
        /// Thread blocks of all ranks on the device.
        blocks: u32,
        /// Threads of each.
        threads: u32,
        /// Thread blocks of so many threads that run at once.
        fit: u32,
    },
    /// A device that cannot reach another one's memory.
    #[error("{device} cannot access the memory of {peer}")]
    NoPeerAccess {
        /// The device.
        device: String,
        /// The other one.
        peer: String,
    },
    /// Memory of another process that cannot be mapped.
    #[cfg(feature = "cuda")]
    #[error("rank {rank} on {device} cannot map the memory of rank {peer} on {other}: {error}")]
    MapFailed {
        /// This rank.
        rank: u32,
        /// Its device.
        device: String,
        /// The other rank.
        peer: u32,
        /// That one's device.
        other: String,
        /// What the driver says.
        error: Box<DriverError>,
    },
    /// A tensor that cannot be used as it is.
    #[error("a tensor {found}, expected {expected}")]
    Tensor {
        /// What it is.
        found: String,
        /// What it must be.
        expected: String,
    },
    /// A buffer that only another process can read and write.
    #[error("rank {rank} does not belong to this process")]
    NotLocalRank {
        /// The rank.
        rank: u32,
    },
    /// A stream without a queue on a device.
    #[error("the stream does not include {device}, which has ranks of the launch")]
    StreamDeviceMismatch {
        /// The device.
        device: String,
    },
    /// A copy between host and device of another length than the device's memory.
    #[error("expected {expected} bytes of host memory for this device buffer, found {found} bytes")]
    DeviceCopy {
        /// Bytes of the device's memory.
        expected: u64,
        /// Bytes of the host's.
        found: u64,
    },
    /// No CUDA device can be used.
    #[cfg(feature = "cuda")]
    #[error(transparent)]
    NoDevice(#[from] CudaUnavailable),
    /// Something that cannot be recorded, asked for while a stream is captured.
    #[error("{what} while a stream is captured")]
    Capturing {
        /// What was asked for, or the driver's call that failed for that reason.
        what: String,
    },
    /// A call to the CUDA driver failed.
    #[cfg(feature = "cuda")]
    #[error(transparent)]
    Driver(Box<DriverError>),
    /// Device code could not be compiled at run time.
    #[cfg(feature = "cuda")]
    #[error(transparent)]
    Jit(Box<JitError>),
    /// A worker thread could not be started.
    #[error("cannot start a worker thread: {0}")]
    SpawnThread(String),
    /// A launch between processes that could not be finished.
    #[error(transparent)]
    Interrupted(Box<LaunchAborted>),
    /// A plan that does not wait for what a rank of another node sends.
    #[error(transparent)]
    LateData(Box<LateData>),
    /// Ranks that call different things at the same time.
    #[error("call {number} of the communicator differs: rank {rank} calls {call}, rank {peer} calls {other}")]
    CallMismatch {
        /// Which call, counted from 1.
        number: u64,
        /// This rank.
        rank: u32,
        /// What it calls.
        call: String,
        /// The other rank.
        peer: u32,
        /// What that calls.
        other: String,
    },
    /// A rank that is no longer there.
    #[error("lost rank {peer}: {why}")]
    RankLost {
        /// The rank.
        peer: u32,
        /// How this was noticed.
        why: String,
    },
    /// A group of which an earlier call failed.
    #[error("the communicator has failed: {why}")]
    CommunicatorFailed {
        /// What went wrong first.
        why: String,
    },
    /// Two threads that use one rank at a time.
    #[error("another thread is already making a call on this rank")]
    Busy,
    /// A rank handed in a buffer that this rank has given up.
    #[error("rank {peer} passes shared buffer {number}, which rank {rank} has dropped")]
    DroppedBuffer {
        /// This rank.
        rank: u32,
        /// The other rank.
        peer: u32,
        /// Number of the buffer, counted over the allocations of the group.
        number: u64,
    },
    /// What the ranks of a group tell each other did not get through.
    #[error(transparent)]
    Group(Box<mscclpp_bootstrap::Error>),
    /// The system refuses.
    #[error("cannot {what}: {why}")]
    System {
        /// What was tried.
        what: String,
        /// What the system says.
        why: String,
    },
    /// A fault of this crate.
    #[error("internal error in mscclpp-exec: {0}; please report it")]
    Internal(String),
}

impl std::fmt::Debug for Error {
    /// The message, for those who return the error from `main` or unwrap it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

#[cfg(feature = "cuda")]
impl From<DriverError> for Error {
    fn from(error: DriverError) -> Self {
        match error.is_of_a_capture() {
            true => Self::Capturing { what: error.to_string() },
            false => Self::Driver(Box::new(error)),
        }
    }
}

#[cfg(feature = "cuda")]
impl From<JitError> for Error {
    fn from(error: JitError) -> Self {
        Self::Jit(Box::new(error))
    }
}

impl Error {
    /// Why the group is finished, if that is the cause.
    pub(crate) fn group(&self) -> Option<&mscclpp_bootstrap::Error> {
        match self {
            Self::Group(error) => Some(error),
            Self::Interrupted(interrupted) => match &interrupted.cause {
                AbortCause::Group(error) => Some(error),
                _ => None,
            },
            _ => None,
        }
    }

    /// The rule that is broken.
    pub const fn code(&self) -> Code {
        match self {
            Self::Stalled(_) => Code::Stalled,
            Self::RankCountMismatch { .. } => Code::WrongNumberOfRanks,
            Self::InvalidPlan { .. } | Self::CrossNodeAccess { .. } => Code::MalformedPlan,
            Self::MessageSize { .. } => Code::MessageOutOfRange,
            Self::UnequalParts { .. } => Code::UnequalParts,
            Self::TooLarge { .. } => Code::MessageTooLarge,
            Self::FixedReduction { .. } => Code::FixedReduction,
            Self::UnsupportedAccumulator { .. } => Code::NoSuchReduction,
            Self::BufferSize { .. }
            | Self::BufferCount { .. }
            | Self::ElementType { .. }
            | Self::OtherWorld { .. }
            | Self::DeviceCopy { .. }
            | Self::Tensor { .. }
            | Self::NotLocalRank { .. }
            | Self::StreamDeviceMismatch { .. } => Code::WrongBuffers,
            Self::BufferModeMismatch { .. } => Code::WrongPlace,
            Self::ReadOnlyInput { .. } => Code::ReadOnlyInput,
            Self::ScratchLimit { .. } | Self::OutOfMemory { .. } | Self::SpawnThread(_) | Self::System { .. } => {
                Code::OutOfResources
            }
            Self::Interrupted(_) | Self::RankLost { .. } | Self::CommunicatorFailed { .. } | Self::Group(_) => {
                Code::LostRank
            }
            Self::LateData(_) => Code::OpenEnd,
            Self::CallMismatch { .. } | Self::DroppedBuffer { .. } | Self::Busy => Code::DifferentCalls,
            Self::NotCoResident { .. } => Code::NotResident,
            Self::NoPeerAccess { .. } => Code::NoPeerAccess,
            #[cfg(feature = "cuda")]
            Self::NoDevice(_) => Code::NoDevice,
            Self::Capturing { .. } => Code::Capturing,
            #[cfg(feature = "cuda")]
            Self::Driver(_) | Self::MapFailed { .. } => Code::DriverFailed,
            #[cfg(feature = "cuda")]
            Self::Jit(_) => Code::NotCompiled,
            Self::Internal(_) => Code::ExecutorFault,
        }
    }

    /// What to do about it.
    fn help(&self) -> Option<String> {
        Some(match self {
            Self::RankCountMismatch { expected, found, .. } => format!(
                "use an executor of {expected} ranks, or a \
                plan for {found} ranks"
            ),
            Self::CrossNodeAccess { .. } => {
                "use a port channel between nodes, or a plan that was compiled for the actual number of ranks per \
                 node"
                    .into()
            }
            Self::MessageSize { .. } => "use another plan, or disable this check with `Message::any_size`".into(),
            Self::UnequalParts { count, ranks, .. } => {
                let next = count.checked_next_multiple_of(u64::from(*ranks)).unwrap_or(0);
                format!("use {next} elements, the next multiple of {ranks}")
            }
            Self::FixedReduction { fixed, .. } => {
                format!(
                    "omit the reduction of the message to reduce with {fixed}, or use a plan of sums, which supports \
                     any reduction"
                )
            }
            Self::UnsupportedAccumulator { dtype, .. } if dtype.is_integer() => "accumulate integers as \
                `Native`"
                .into(),
            Self::UnsupportedAccumulator { .. } => "accumulate as `F64`".into(),
            Self::OtherWorld { .. } => "create the buffers with `PreparedPlan::buffers` or `PreparedPlan::bind` on \
                the same executor"
                .into(),
            Self::BufferModeMismatch { in_place: true, .. } => "launch with `launch_in_place`".into(),
            Self::BufferModeMismatch { .. } => "launch with inputs and outputs".into(),
            Self::ReadOnlyInput { .. } => "launch with `Buffers`, whose inputs may be overwritten".into(),
            Self::NotCoResident { .. } => {
                "use fewer ranks, or a plan with fewer thread blocks or threads per block".into()
            }
            Self::NoPeerAccess { .. } => {
                "use devices with peer access (`nvidia-smi topo -m`), or one device for all ranks".into()
            }
            #[cfg(feature = "cuda")]
            Self::MapFailed { .. } => {
                "make the devices of all processes visible to every process (`CUDA_VISIBLE_DEVICES`), and use devices \
                 for which `nvidia-smi topo -p2p r` reports OK"
                    .into()
            }
            #[cfg(feature = "cuda")]
            Self::Driver(error) if ["cuIpcGetMemHandle", "cuMemExportToShareableHandle"].contains(&error.call) => {
                "bind memory of `Executor::alloc` or of `cuMemAlloc`; memory of pools, or memory that is limited to \
                 one process, cannot be shared"
                    .into()
            }
            Self::StreamDeviceMismatch { .. } => "launch on a stream that `Executor::stream` returns".into(),
            Self::ScratchLimit { .. } => "send smaller messages, or raise `Options::scratch_limit`".into(),
            Self::OutOfMemory { .. } => "send smaller messages, or use fewer ranks".into(),
            Self::LateData(late) => format!(
                "let rank {} wait for a signal that rank {} sends over the same port channel after the put; a flush \
                 guarantees only that the source was read",
                late.rank, late.peer
            ),
            Self::CallMismatch { .. } => "make the same calls in the same order on all ranks".into(),
            Self::Busy => "use a separate communicator per thread, or make all calls from one thread".into(),
            Self::DroppedBuffer { .. } => "drop shared buffers at the same point of the sequence of calls on all \
                ranks"
                .into(),
            Self::Capturing { .. } => {
                "prepare the plan, allocate and bind the buffers before the capture; with more than 32 ranks, also \
                 launch once with these buffers"
                    .into()
            }
            #[cfg(feature = "cuda")]
            Self::Driver(error) if error.name == "CUDA_ERROR_OUT_OF_MEMORY" => {
                "send smaller messages, use fewer ranks, or free memory of the device".into()
            }
            Self::CommunicatorFailed { .. } | Self::RankLost { .. } => "create a communicator of the remaining ranks \
                with `shrink`"
                .into(),
            _ => return None,
        })
    }

    /// The error as a finding, with its rule and how to mend it.
    pub fn diagnostic(&self) -> Diagnostic {
        let mut diagnostic = match self {
            Self::Stalled(stall) => stall.diagnostic(Code::Stalled, None),
            Self::Interrupted(interrupted) => interrupted.diagnostic(),
            Self::InvalidPlan { place, what } => Diagnostic::new(self.code(), Site::Path(place.clone()), what.clone()),
            other => Diagnostic::new(self.code(), Site::None, other.to_string()),
        };
        if let Some(help) = self.help() {
            diagnostic = diagnostic.help(help);
        }
        diagnostic
    }
}

impl From<mscclpp_bootstrap::Error> for Error {
    fn from(error: mscclpp_bootstrap::Error) -> Self {
        Self::Group(Box::new(error))
    }
}
