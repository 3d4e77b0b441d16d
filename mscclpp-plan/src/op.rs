//! One operation of a plan.

use smallvec::SmallVec;

use crate::origin::Origin;
use crate::types::{BlockSync, BufferKind, ChannelKind, ReduceOp};

/// Declares [`OpKind`] with its plan names.
macro_rules! op_kinds {
    ($($(#[doc = $doc:literal])* $kind:ident = $name:literal,)*) => {
        /// Kind of an operation. `docs/plan-format.md` lists the operands, channels and attributes of each kind.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum OpKind { $($(#[doc = $doc])* $kind,)* }

        impl OpKind {
            /// All kinds, in the order of their discriminants.
            pub const ALL: &'static [Self] = &[$(Self::$kind,)*];

            /// Returns the name used in plan JSON and in messages.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)* }
            }

            /// Returns the kind with a name.
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$kind),)* _ => None }
            }
        }
    };
}

op_kinds! {
    /// Synchronizes all threads of the block.
    Nop = "nop",
    /// Synchronizes all threads of several blocks.
    Barrier = "barrier",
    /// Copies local data to a local buffer.
    Copy = "copy",
    /// Copies local plain data to packets in the rank's own scratch.
    CopyPackets = "cpkt",
    /// Copies packets in the rank's own scratch to local plain data.
    UnpackPackets = "upkt",
    /// Copies local data to a remote buffer.
    Put = "put",
    /// Port put followed by a signal.
    PutWithSignal = "pws",
    /// Port put followed by a signal and a flush.
    PutWithSignalAndFlush = "pwsf",
    /// Copies local plain data to packets in remote scratch.
    PutPackets = "ppkt",
    /// Copies packets in the rank's own scratch to packets in remote scratch.
    ReadPutPackets = "rppkt",
    /// Copies remote data to a local buffer.
    Get = "get",
    /// Reduces local sources into a local destination.
    Reduce = "re",
    /// `Reduce` whose result is also written to remote destinations.
    ReduceSend = "res",
    /// Reduces a local source with remote sources into a local destination.
    ReadReduce = "rre",
    /// `ReadReduce` whose result is also written to remote destinations.
    ReadReduceSend = "rres",
    /// Reduces a plain source with packets in the rank's own scratch into plain data.
    ReducePackets = "repkt",
    /// `ReducePackets` whose result is also written as packets to remote scratch.
    ReduceSendPackets = "respkt",
    /// `ReducePackets` whose result is also written as packets to the rank's own scratch.
    ReduceCopyPackets = "recpkt",
    /// `ReduceCopyPackets` whose result is also written as packets to remote scratch.
    ReduceCopySendPackets = "recspkt",
    /// Multicast load-reduce into a local destination.
    SwitchReduce = "glre",
    /// Multicast load-reduce, multicast store.
    SwitchReduceBroadcast = "glres",
    /// Multicast store of local data.
    SwitchBroadcast = "gstore",
    /// Multicast store of packets in the rank's own scratch.
    SwitchBroadcastPackets = "gstorepkt",
    /// Increments the peer's counter; publishes earlier writes.
    Signal = "signal",
    /// Waits for one signal; published writes become visible.
    Wait = "wait",
    /// A signal that publishes nothing.
    RelaxedSignal = "rlxsignal",
    /// A wait that makes no writes visible.
    RelaxedWait = "rlxwait",
    /// Waits until earlier port operations have read their sources.
    Flush = "flush",
    /// Takes one unit of a semaphore, waiting until one is available.
    SemaphoreAcquire = "sem_acquire",
    /// Returns one unit to a semaphore.
    SemaphoreRelease = "sem_release",
    /// Repeats its body over windows of the message.
    Pipeline = "pipeline",
}

impl OpKind {
    /// Returns the functions of the authoring API that record this kind, for messages.
    pub const fn functions(self) -> &'static str {
        use OpKind as K;
        match self {
            K::Nop => "a block sync",
            K::Barrier => "`barrier`",
            K::Copy => "`copy`",
            K::CopyPackets => "`copy_packets`",
            K::UnpackPackets => "`unpack_packets`",
            K::Put => "`put`",
            K::PutWithSignal => "`put_with_signal`",
            K::PutWithSignalAndFlush => "`put_with_signal_and_flush`",
            K::PutPackets => "`put_packets`",
            K::ReadPutPackets => "`read_put_packets`",
            K::Get => "`get`",
            K::Reduce | K::ReadReduce | K::SwitchReduce => "`reduce`",
            K::ReduceSend | K::ReadReduceSend => "`reduce` (fused with `put`)",
            K::ReducePackets => "`reduce_packets`",
            K::ReduceSendPackets => "`reduce_packets` (fused with `put_packets`)",
            K::ReduceCopyPackets => "`reduce_packets` (fused with `copy_packets`)",
            K::ReduceCopySendPackets => "`reduce_packets` (fused with `copy_packets` and `put_packets`)",
            K::SwitchReduceBroadcast => "`reduce` (fused with `broadcast`)",
            K::SwitchBroadcast => "`broadcast`",
            K::SwitchBroadcastPackets => "`broadcast_packets`",
            K::Signal => "`signal`",
            K::Wait => "`wait`",
            K::RelaxedSignal => "the relaxed `signal`",
            K::RelaxedWait => "the relaxed `wait`",
            K::Flush => "`flush`",
            K::SemaphoreAcquire => "`acquire`",
            K::SemaphoreRelease => "`release`",
            K::Pipeline => "`pipeline`",
        }
    }

    /// Returns whether this is one of the operations that carry a [`BlockSync`] while a program is lowered.
    pub const fn is_sync(self) -> bool {
        matches!(
            self,
            Self::Signal
                | Self::Wait
                | Self::RelaxedSignal
                | Self::RelaxedWait
                | Self::Flush
                | Self::SemaphoreAcquire
                | Self::SemaphoreRelease
        )
    }

    /// Returns whether this operation moves or combines data.
    pub const fn is_data(self) -> bool {
        !self.is_sync() && !matches!(self, Self::Nop | Self::Barrier | Self::Pipeline)
    }

    /// Returns whether this operation reduces.
    pub const fn is_reduce(self) -> bool {
        matches!(
            self,
            Self::Reduce
                | Self::ReduceSend
                | Self::ReadReduce
                | Self::ReadReduceSend
                | Self::ReducePackets
                | Self::ReduceSendPackets
                | Self::ReduceCopyPackets
                | Self::ReduceCopySendPackets
                | Self::SwitchReduce
                | Self::SwitchReduceBroadcast
        )
    }
}

/// The buffer that an operand points into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BufferRef {
    /// A buffer of the executing rank.
    Local(BufferKind),
    /// A remote buffer. While lowering: rank-level number. In a plan: index into the thread block's table for the
    /// operation's channel kind.
    Remote(u32),
    /// A switch channel's window. While lowering: rank-level number. In a plan: index into the thread block's table.
    Switch(u32),
}

/// A range of chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Operand {
    /// The buffer.
    pub buffer: BufferRef,
    /// First chunk.
    pub index: u32,
    /// Number of chunks.
    pub size: u32,
}

impl Operand {
    /// Creates an operand in a buffer of the executing rank.
    pub const fn local(buffer: BufferKind, index: u32, size: u32) -> Self {
        Self { buffer: BufferRef::Local(buffer), index, size }
    }

    /// Returns the buffer, if it is the executing rank's own.
    pub const fn local_buffer(&self) -> Option<BufferKind> {
        match self.buffer {
            BufferRef::Local(buffer) => Some(buffer),
            _ => None,
        }
    }

    /// Returns whether this operand points into another rank's buffer.
    pub const fn is_remote(&self) -> bool {
        matches!(self.buffer, BufferRef::Remote(_))
    }
}

/// Operands of one side of an operation.
pub type Operands = SmallVec<[Operand; 1]>;

/// Channel indexes or semaphore numbers.
pub type Ids = SmallVec<[u32; 4]>;

/// The part `index` of `count` that one member of a thread-block group processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slice {
    /// The member's position.
    pub index: u32,
    /// Size of the group.
    pub count: u32,
}

/// The repeated part of a pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopBody {
    /// Window per iteration, in bytes.
    pub unit: u64,
    /// Chunks that the loop covers.
    pub num_chunks: u32,
    /// Operations of one iteration.
    pub ops: Vec<Op>,
}

/// One operation.
///
/// Order of operands, as in plan JSON. `srcs`: local sources (a reduction's accumulator first), then remote sources.
/// `dsts`: local destination, local packet destination (`recpkt`, `recspkt`), remote destinations. Switch operations:
/// `glre` reads a switch operand into a local one, `gstore` and `gstorepkt` read a local one into a switch operand,
/// `glres` has a switch operand on both sides.
#[derive(Debug, PartialEq, Eq)]
pub struct Op {
    /// Kind of the operation.
    pub kind: OpKind,
    /// Kind of the channels or remote buffers it uses; `None` if it uses none.
    pub channel: Option<ChannelKind>,
    /// The reduction, on reducing operations.
    pub reduce: Option<ReduceOp>,
    /// Where the block is additionally synchronized. Lowering turns this into `nop`s; always `None` in a plan.
    pub sync: BlockSync,
    /// The part of every operand that this block processes; `None` for whole operands.
    pub slice: Option<Slice>,
    /// Sources.
    pub srcs: Operands,
    /// Destinations.
    pub dsts: Operands,
    /// Channels (signal, wait, flush, get, port puts; while lowering on every channel operation), semaphores (acquire,
    /// release) or the one barrier number. Channels: while lowering rank-level numbers, in a plan indexes into the
    /// thread block's table. Semaphores and barriers: rank-level numbers.
    pub ids: Ids,
    /// Number of thread blocks of a barrier; 0 for other operations.
    pub num_blocks: u32,
    /// The repeated part, on pipelines.
    pub body: Option<Box<LoopBody>>,
    /// Source location of the call.
    pub origin: Origin,
}

impl Op {
    /// Creates an operation of a kind with empty fields.
    pub fn new(kind: OpKind, origin: Origin) -> Self {
        Self {
            kind,
            channel: None,
            reduce: None,
            sync: BlockSync::None,
            slice: None,
            srcs: Operands::new(),
            dsts: Operands::new(),
            ids: Ids::new(),
            num_blocks: 0,
            body: None,
            origin,
        }
    }
}

// Implemented manually because lists of plain numbers are copied as a whole here; the derived clone copies element by
// element, and lowering and checking clone tens of thousands of operations.
impl Clone for Op {
    fn clone(&self) -> Self {
        Self { srcs: copy(&self.srcs), dsts: copy(&self.dsts), ids: copy(&self.ids), body: self.body.clone(), ..*self }
    }
}

/// Copies a list of plain items, most of which have none or one.
pub(crate) fn copy<A: smallvec::Array<Item: Copy>>(list: &SmallVec<A>) -> SmallVec<A> {
    match list[..] {
        [] => SmallVec::new(),
        [only] => {
            let mut copy = SmallVec::new();
            copy.push(only);
            copy
        }
        _ => SmallVec::from_slice(list),
    }
}
