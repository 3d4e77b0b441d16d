//! One operation of a plan.

mod kinds;
mod properties;

use smallvec::SmallVec;

pub use kinds::{Flow, Function, OpClass, OpKind, Opcode, Transfer};
pub use properties::{Grain, IdList, Packets, Side};

use crate::origin::{ArgumentOrigin, Origin};
use crate::types::{BlockSync, BufferKind, ChannelKind, ReduceOp};

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
    /// The argument from which it comes.
    pub origin: ArgumentOrigin,
}

impl Operand {
    /// Creates an operand without source location.
    pub const fn new(buffer: BufferRef, index: u32, size: u32) -> Self {
        Self { buffer, index, size, origin: ArgumentOrigin::UNKNOWN }
    }

    /// Creates an operand in a buffer of the executing rank.
    pub const fn local(buffer: BufferKind, index: u32, size: u32) -> Self {
        Self::new(BufferRef::Local(buffer), index, size)
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

/// An entry of the table of counts of a launch: the number of elements that rank `sender` has for rank `receiver`. Row `sender` is
/// what that rank's caller passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Count {
    /// The rank that passes it, which is its row.
    pub sender: u32,
    /// Its position in the row.
    pub receiver: u32,
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
    /// The number of elements, of every operand from its beginning, that it processes; on counted data operations.
    pub count: Option<Count>,
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
            count: None,
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
