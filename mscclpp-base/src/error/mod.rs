//! Errors of preparing and launching plans.

#[cfg(feature = "process")]
mod aborted;
pub mod channel;
mod counts;
mod diagnostic;
pub mod driver;
pub mod jit;
mod late;
mod properties;
mod rows;
mod stall;
pub mod unavailable;

#[cfg(feature = "process")]
pub use aborted::LaunchAborted;
pub use counts::{CountLimit, CountOverflow, Refusal};
pub use late::LateData;
pub use mscclpp_core::diag::{ErrorKind, RootCause};
pub use rows::RowsError;
pub use stall::path;
pub use stall::{BlockedThreadBlock, Stall, UnblockedBy, WaitsFor};

use std::time::Duration;

use mscclpp_core::types::ReduceOp;
use thiserror::Error;

use self::{channel::ChannelError, driver::DriverError, jit::JitError, unavailable::CudaUnavailable};
use crate::dtype::DataType;
use crate::numeric::AccumType;
use crate::system::{AvailableMemory, ExceededLimit};

/// Why a plan could not be prepared or did not finish.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Error {
    /// No thread block can make progress.
    #[error(transparent)]
    Stalled(Box<Stall>),
    /// The plan and the executor have different numbers of ranks.
    #[error("plan `{plan}` is for {expected} ranks, found an executor of {found} ranks")]
    RankCountMismatch {
        /// The plan.
        plan: String,
        /// Number of ranks of the plan.
        expected: u32,
        /// Number of ranks of the executor.
        found: u32,
    },
    /// The plan cannot be executed: an index is out of range, or an operation lacks an operand.
    #[error("{path}: {what}")]
    InvalidPlan {
        /// `rank 3 / thread block 0 / operation 5 (put)`.
        path: String,
        /// What is wrong there.
        what: String,
    },
    /// An operation accesses memory of a rank on another node.
    #[error("{path}: rank {rank} on node {node} accesses the memory of rank {peer}, which is on node {peer_node}")]
    CrossNodeAccess {
        /// `rank 3 / thread block 0 / operation 5 (put)`.
        path: String,
        /// The rank.
        rank: u32,
        /// Its node.
        node: u32,
        /// The other rank.
        peer: u32,
        /// Node of the other rank.
        peer_node: u32,
    },
    /// The message is outside of the sizes that the plan supports.
    #[error("plan `{plan}` is for messages of {min} to {max} bytes, found {bytes} bytes")]
    MessageSize {
        /// The plan.
        plan: String,
        /// Bytes of the larger of a rank's input and output.
        bytes: u64,
        /// The plan's smallest message.
        min: u64,
        /// The plan's largest message.
        max: u64,
    },
    /// The count cannot be divided evenly among the ranks.
    #[error("expected a multiple of {num_ranks} elements for {collective}, found {count}")]
    IndivisibleCount {
        /// Name of the collective.
        collective: &'static str,
        /// Elements of the larger buffer.
        count: u64,
        /// Number of ranks.
        num_ranks: u32,
    },
    /// The plan takes dividing counts only, and the count is not one.
    #[error("expected a multiple of {multiple} elements for a plan that takes dividing counts only, found {count}")]
    NotDividing {
        /// Elements of the larger buffer.
        count: u64,
        /// Elements of all chunks of one alignment unit each.
        multiple: u64,
    },
    /// The message exceeds the address space.
    #[error("{count} elements of {dtype} exceed the address space")]
    TooLarge {
        /// Elements of the larger buffer.
        count: u64,
        /// Their type.
        dtype: DataType,
    },
    /// The plan does not implement the requested reduction.
    #[error("plan `{plan}` reduces with {fixed}, but the message requests {requested}")]
    FixedReduction {
        /// The plan.
        plan: String,
        /// Its reductions.
        fixed: String,
        /// The requested reduction.
        requested: ReduceOp,
    },
    /// The data type cannot be combined in the requested accumulator type.
    #[error("elements of {dtype} cannot be accumulated as {accumulate}")]
    UnsupportedAccumulator {
        /// The elements' type.
        dtype: DataType,
        /// The requested accumulator type.
        accumulate: AccumType,
    },
    /// Counts exceed what the launch has room for. All ranks return the same, no data was moved, and the next launch may follow.
    #[error(transparent)]
    CountOverflow(CountOverflow),
    /// A row of counts does not have an entry for every rank.
    #[error("rank {rank} passes {found} counts, expected {expected}, one for each rank")]
    CountRow {
        /// The rank.
        rank: u32,
        /// Number of ranks.
        expected: u32,
        /// Entries of the row.
        found: usize,
    },
    /// Counts are passed to a plan that has none, or none to a plan that has them.
    #[error(
        "plan `{plan}` {}",
        if *counted { "takes counts: call `launch_counted`" } else { "has no counts: call `launch`" }
    )]
    CountMode {
        /// The plan.
        plan: String,
        /// Whether the plan takes counts.
        counted: bool,
    },
    /// A message of rows, or an operand of its row norm, is wrong.
    #[error(transparent)]
    Rows(#[from] RowsError),
    /// A buffer has the wrong length.
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
    /// The number of buffers differs from the number of ranks.
    #[error("expected {expected} {buffer} buffers, one per rank, found {found}")]
    BufferCount {
        /// `input`, `output` or `in-place`.
        buffer: &'static str,
        /// Number of ranks.
        expected: u32,
        /// Number of buffers.
        found: usize,
    },
    /// The elements have the wrong type.
    #[error("expected buffers of {expected} for this message, found {found}")]
    ElementType {
        /// Type of the message.
        expected: DataType,
        /// Type of the buffers.
        found: DataType,
    },
    /// The buffers were created on devices of another executor.
    #[error("expected buffers of {expected}, found buffers of {found}")]
    ForeignBuffers {
        /// Executor of the prepared plan: its number in this process, its ranks and their devices.
        expected: String,
        /// Executor of the buffers.
        found: String,
    },
    /// An in-place plan was launched with two buffers, or an out-of-place plan with one.
    #[error("plan `{plan}` is {}, but was launched with {}", if *.in_place { "in place" } else { "out of place" }, if *.in_place { "separate inputs and outputs" } else { "one buffer per rank" })]
    BufferModeMismatch {
        /// The plan.
        plan: String,
        /// Whether the plan is in place.
        in_place: bool,
    },
    /// The plan writes to an input that was passed as read-only.
    #[error("plan `{plan}` overwrites its inputs, but its inputs were passed as read-only")]
    ReadOnlyInput {
        /// The plan.
        plan: String,
    },
    /// The plan needs more scratch than the executor allows.
    #[error("plan `{plan}` needs {bytes} bytes of scratch for this message, the limit is {limit} bytes")]
    ScratchLimit {
        /// The plan.
        plan: String,
        /// Bytes of all ranks together; `u64::MAX` if the number overflows.
        bytes: u64,
        /// Limit of the executor.
        limit: u64,
    },
    /// Memory could not be allocated.
    #[error("{bytes} bytes of {purpose} are required, but {}", available_text(.available.as_ref()))]
    OutOfMemory {
        /// Purpose of the memory.
        purpose: &'static str,
        /// Bytes of all ranks together.
        bytes: u64,
        /// Available memory; `None` if the system refused the request and reports as much as is required, or nothing.
        available: Option<AvailableMemory>,
    },
    /// A limit of the system other than its memory was reached.
    #[error("cannot {what}: {limit}")]
    LimitExceeded {
        /// The failed operation.
        what: String,
        /// The limit.
        limit: ExceededLimit,
    },
    /// The plan has more thread blocks than a device runs at once, so that some would wait for others that never start.
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
        /// Number of thread blocks of this size that run at once.
        fit: u32,
    },
    /// A device cannot access the memory of another one.
    #[error("{device} cannot access the memory of {peer}")]
    NoPeerAccess {
        /// The device.
        device: String,
        /// The other device.
        peer: String,
    },
    /// Memory of another process cannot be mapped.
    #[error("rank {rank} on {device} cannot map the memory of rank {peer} on {peer_device}: {error}")]
    MapFailed {
        /// This rank.
        rank: u32,
        /// Its device.
        device: String,
        /// The other rank.
        peer: u32,
        /// Device of the other rank.
        peer_device: String,
        /// Error of the driver.
        error: Box<DriverError>,
    },
    /// A tensor has an unsupported property.
    #[error("a tensor {found}, expected {expected}")]
    Tensor {
        /// The found property.
        found: String,
        /// The expected property.
        expected: String,
    },
    /// Only another process can access the buffer.
    #[error("rank {rank} does not belong to this process")]
    NotLocalRank {
        /// The rank.
        rank: u32,
    },
    /// The stream has no queue on a device with memory or ranks of the call.
    #[error("the stream does not include {device}, on which memory or ranks of the call are")]
    StreamDeviceMismatch {
        /// The device.
        device: String,
    },
    /// A copy between host and device has another length than the device memory.
    #[error("expected {expected} bytes of host memory for this device buffer, found {found} bytes")]
    DeviceCopy {
        /// Bytes of the device memory.
        expected: u64,
        /// Bytes of the host memory.
        found: u64,
    },
    /// No CUDA device can be used.
    #[error(transparent)]
    NoDevice(#[from] CudaUnavailable),
    /// An operation that cannot be captured was requested while a stream is captured.
    #[error("{what} while a stream is captured; end the capture first, or make the call once before it")]
    Capturing {
        /// The requested operation, or the driver's call that failed for that reason.
        what: String,
    },
    /// A call to the CUDA driver failed.
    #[error(transparent)]
    Driver(Box<DriverError>),
    /// Device code could not be compiled at run time.
    #[error(transparent)]
    Jit(Box<JitError>),
    /// A worker thread could not be started.
    #[error("cannot start a worker thread: {0}")]
    SpawnThread(String),
    /// A launch across processes was aborted.
    #[cfg(feature = "process")]
    #[error(transparent)]
    Interrupted(Box<LaunchAborted>),
    /// The plan does not wait for data that a rank of another node sends.
    #[error(transparent)]
    LateData(Box<LateData>),
    /// Another rank cannot allocate the memory of its part of a call. The communicator has not failed.
    #[error("rank {peer} cannot allocate its part of {call}; its own error says why")]
    PeerOutOfMemory {
        /// The rank.
        peer: u32,
        /// The call.
        call: String,
    },
    /// Another rank failed in a call, or sent what this one cannot use.
    #[error("rank {peer} failed: {reason}")]
    RankLost {
        /// The rank.
        peer: u32,
        /// How this was noticed.
        reason: String,
    },
    /// Two threads use one rank at the same time.
    #[error("another thread is already making a call on this rank")]
    Busy,
    /// Another thread used the rank for as long as the timeout.
    #[error(
        "another thread of rank {rank} was in a call of the same communicator for {:.1} s, as long as the timeout",
        waited.as_secs_f64()
    )]
    BusyTimeout {
        /// This rank.
        rank: u32,
        /// How long this thread waited for the other one.
        waited: Duration,
    },
    /// A rank passed a buffer that this rank has dropped.
    #[error("rank {peer} passes shared buffer {number}, which rank {rank} has dropped")]
    DroppedBuffer {
        /// This rank.
        rank: u32,
        /// The other rank.
        peer: u32,
        /// Number of the buffer among the allocations of the communicator.
        number: u64,
    },
    /// The communicator has failed, with one cause on all ranks: ranks did not join, were lost, were late, made different calls,
    /// or differ in their configuration. Later calls return it again.
    #[cfg(feature = "process")]
    #[error(transparent)]
    Bootstrap(Box<mscclpp_bootstrap::Error>),
    /// No algorithm serves a call.
    #[error("rank {rank}: {message}")]
    Select {
        /// This rank.
        rank: u32,
        /// Why not; it names the request.
        message: String,
    },
    /// The selected algorithm has no plan for a call.
    #[error("rank {rank}, {request}: {message}")]
    NoPlan {
        /// This rank.
        rank: u32,
        /// The request, in words.
        request: String,
        /// Why not.
        message: String,
    },
    /// The selector of the program returned an error, or panicked.
    #[error("rank {rank}, {request}: the selector failed: {message}")]
    Selector {
        /// This rank.
        rank: u32,
        /// The request, in words.
        request: String,
        /// The message of its error.
        message: String,
    },
    /// The function of a native algorithm returned an error.
    #[error("rank {rank}, {request}: {message}")]
    NativeAlgorithm {
        /// This rank.
        rank: u32,
        /// The request, in words.
        request: String,
        /// The algorithm, and the message of its error.
        message: String,
    },
    /// The tuning table that the environment names cannot be read.
    #[error("{0}")]
    TuningTable(String),
    /// The environment names plans or an order of reduction that do not exist.
    #[error("{0}")]
    Environment(String),
    /// A slice whose length does not match the other one's, or the number of ranks.
    #[error("{call} of rank {rank}: {what} has {found} elements, expected {expected}")]
    Length {
        /// The call: `all_gather`.
        call: &'static str,
        /// This rank.
        rank: u32,
        /// The slice.
        what: &'static str,
        /// The length that it should have.
        expected: String,
        /// Its length.
        found: usize,
    },
    /// A root that is no rank of the communicator.
    #[error("{call} of rank {rank}: expected a root of 0 to {}, found {root}", num_ranks - 1)]
    Root {
        /// The call.
        call: &'static str,
        /// This rank.
        rank: u32,
        /// The given root.
        root: u32,
        /// Number of ranks.
        num_ranks: u32,
    },
    /// A peer that is no other rank of the communicator.
    #[error(
        "{call} of rank {rank}: expected another rank of 0 to {}, found {peer}{}", num_ranks - 1,
        if peer == rank { "; within a group a rank may send to itself" } else { "" }
    )]
    Peer {
        /// The call.
        call: &'static str,
        /// This rank.
        rank: u32,
        /// The given peer.
        peer: u32,
        /// Number of ranks.
        num_ranks: u32,
    },
    /// What a rank sends to itself within a group, which is not what it receives from itself.
    #[error("group of rank {rank}: {first} with the rank itself, expected the same of the other side, found {second}")]
    OwnTransfer {
        /// This rank.
        rank: u32,
        /// One call: `send of 4 f32`.
        first: String,
        /// What stands against it.
        second: String,
    },
    /// A transfer between two ranks that failed.
    #[error(
        "{call} of rank {rank} with rank {peer} (ranks 0 and 1 of their own communicator are ranks {} and {}): {source}{}",
        rank.min(peer), rank.max(peer), NotReceived::new(*rank, *peer, *is_send_on_stream, source)
    )]
    Transfer {
        /// The call.
        call: &'static str,
        /// This rank.
        rank: u32,
        /// The other rank.
        peer: u32,
        /// Whether it sends device memory: unless it is buffered, it occupies its stream until it is received.
        is_send_on_stream: bool,
        /// The failure in the communicator of the two ranks.
        source: Box<Error>,
    },
    /// Device memory of a caller's that the ranks cannot share: `OnStream::register` and
    /// `PreparedPlan::bind` need memory of one allocation that other processes can map.
    #[error("device memory cannot be shared, because of rank {rank}: {reason}")]
    NotShareable {
        /// The rank that cannot share its memory, or cannot map that of another rank.
        rank: u32,
        /// Why.
        reason: String,
    },
    /// Channels of user-supplied kernels.
    #[error(transparent)]
    KernelChannel(Box<ChannelError>),
    /// A rank without memory for the elements that the other ranks send it.
    #[error("{call}: rank {rank} has no memory for the {count} elements of {bytes} bytes that other ranks send it")]
    ReceiveMemory {
        /// The call.
        call: &'static str,
        /// The rank.
        rank: u32,
        /// Elements that the other ranks send it.
        count: u64,
        /// Bytes of an element.
        bytes: usize,
    },
    /// A rank sends another number of elements to a rank than that one expects.
    #[error("{call}: rank {peer} sent {sent} bytes to rank {rank}, which expected {expected}")]
    PartLength {
        /// The call.
        call: &'static str,
        /// The rank that receives.
        rank: u32,
        /// The rank that sends.
        peer: u32,
        /// Bytes that it sends.
        sent: u64,
        /// Bytes that the other rank expects.
        expected: u64,
    },
    /// A function given to `Communicator::start` panicked.
    #[error("a call that rank {rank} started panicked: {message}")]
    Panicked {
        /// This rank.
        rank: u32,
        /// The message of the panic.
        message: String,
    },
    /// A system call failed.
    #[error("cannot {what}: {reason}")]
    System {
        /// The failed operation.
        what: String,
        /// Error of the system.
        reason: String,
    },
    /// A defect of this crate.
    #[error("internal error in mscclpp-exec: {0}; please report it")]
    Internal(String),
}

fn available_text(available: Option<&AvailableMemory>) -> String {
    available.map_or_else(|| "the system has refused them".to_owned(), |available| format!("only {available}"))
}

/// What a message says about a send that was not received in time: two ranks that both send first wait for each other.
struct NotReceived {
    rank: u32,
    peer: u32,
    is_send: bool,
}

impl NotReceived {
    /// `is_send`: whether the transfer sends on a stream; `source`: why it failed.
    fn new(rank: u32, peer: u32, is_send: bool, source: &Error) -> Self {
        let is_late = matches!(source.kind(), ErrorKind::Timeout | ErrorKind::Stalled);
        Self { rank, peer, is_send: is_send && is_late }
    }
}

impl std::fmt::Display for NotReceived {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { rank, peer, is_send } = *self;
        if !is_send {
            return Ok(());
        }
        write!(
            f,
            "; rank {peer} did not receive it in time: if it is in a send to rank {rank}, both wait for each other, because sends \
             that exceed the buffer of 4 MiB occupy their streams until they are received"
        )
    }
}

impl std::fmt::Debug for Error {
    /// Writes the message, for programs that return the error from `main` or unwrap it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl From<DriverError> for Error {
    fn from(error: DriverError) -> Self {
        match error.is_capture_error() {
            true => Self::Capturing { what: error.to_string() },
            false => Self::Driver(Box::new(error)),
        }
    }
}

impl From<JitError> for Error {
    fn from(error: JitError) -> Self {
        Self::Jit(Box::new(error))
    }
}

#[cfg(feature = "process")]
impl From<mscclpp_bootstrap::Error> for Error {
    fn from(error: mscclpp_bootstrap::Error) -> Self {
        Self::Bootstrap(Box::new(error))
    }
}
