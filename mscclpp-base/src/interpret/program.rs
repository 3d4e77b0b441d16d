//! A resolved plan: flat tables with every index resolved and nothing that depends on a message's size.

use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::plan::Plan;
use mscclpp_core::plan::raw::{Count, OpKind};
pub use mscclpp_core::plan::raw::{Opcode, Transfer};
use mscclpp_core::types::{ChannelKind, ReduceOp};

use super::table::Table;
use crate::error::path;
use crate::layout::Shape;

/// A plan resolved for launches of any size.
pub struct ResolvedPlan {
    /// For names and source locations.
    pub plan: Plan,
    pub shape: Shape,
    pub double_scratch: bool,
    /// Whether the sizes of operations are counts that launches pass.
    pub is_counted: bool,
    pub reuse_resources: bool,
    pub reductions: Reductions,
    /// Whether an operation writes to an input.
    pub writes_input: bool,
    /// By rank: whether an operation of any rank writes to its input or output.
    pub written: Box<[bool]>,
    /// Whether plain data is in scratch, and whether packets are.
    pub plain_scratch: bool,
    /// The largest window in bytes, if all of a plan's plain scratch accesses are inside of pipelines.
    pub windowed_scratch: Option<u64>,
    /// Thread blocks that have operations, by rank and block.
    pub agents: Vec<Block>,
    pub instrs: Table<Instr>,
    pub operands: Vec<Operand>,
    /// Channels, semaphores and barriers of instructions, as indices into the following tables.
    pub ids: Vec<u32>,
    pub channels: Table<Channel>,
    pub semaphores: Vec<Semaphore>,
    pub barriers: Vec<Barrier>,
    /// Ranks that use port channels, in ascending order: each has a proxy.
    pub proxies: Vec<u32>,
    /// Indices of the loops among the instructions.
    pub loops: Vec<u32>,
}

/// Reductions of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reductions {
    /// It does not reduce.
    None,
    /// By sums only, which the message can replace by any reduction; by `Avg` in a collective whose outputs are all reductions.
    Generic,
    /// By this reduction only.
    Fixed(ReduceOp),
    /// By several reductions, none of which is `Avg`.
    Mixed,
}

/// Operations of one thread block.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    pub rank: u32,
    pub block: u32,
    /// Range of [`ResolvedPlan::instrs`].
    pub start: u32,
    pub end: u32,
    /// Index of its rank in [`ResolvedPlan::proxies`], if it uses port channels.
    pub proxy: u32,
}

/// One instruction.
#[derive(Clone, Copy, Debug)]
pub struct Instr {
    pub kind: OpKind,
    pub action: Opcode,
    pub reduce: ReduceOp,
    /// Flat index of its operation in the thread block.
    pub op: u32,
    /// First of [`ResolvedPlan::operands`]: sources, then destinations.
    pub operands: u32,
    pub srcs: u32,
    pub dsts: u32,
    /// First of [`ResolvedPlan::ids`].
    pub first_id: u32,
    pub ids: u32,
    /// Slice of every operand: index and number of slices.
    pub slice: (u32, u32),
    /// The number of elements of a counted operation.
    pub counted: Option<Count>,
    /// For barriers, the number of participating thread blocks; for loops, the number of chunks that the loop covers.
    pub count: u32,
    /// For loops: number of instructions of the body.
    pub body: u32,
    /// For loops: bytes of a window.
    pub unit: u64,
    /// Whether it accesses a buffer of another rank's caller.
    pub accesses_peer_buffers: bool,
    /// Whether no other rank's access conflicts with its accesses.
    pub exclusive: bool,
}

impl Instr {
    /// An instruction that does nothing.
    pub const NOP: Self = Self {
        kind: OpKind::Nop,
        action: Opcode::Nop,
        reduce: ReduceOp::Sum,
        op: 0,
        operands: 0,
        srcs: 0,
        dsts: 0,
        first_id: 0,
        ids: 0,
        slice: (0, 1),
        counted: None,
        count: 0,
        body: 0,
        unit: 0,
        accesses_peer_buffers: false,
        exclusive: false,
    };
}

/// Memory of a rank that contains an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Space {
    Input = 0,
    Output = 1,
    /// Plain data in scratch.
    Scratch = 2,
    /// Packets in scratch. Their memory is separate from plain scratch, so that stale data never looks like a packet.
    Packets = 3,
    /// Input and output of this rank's caller, where other ranks access a copy.
    OwnInput = 4,
    OwnOutput = 5,
}

impl Space {
    /// Returns whether the caller of a launch provides this memory.
    pub fn is_callers(self) -> bool {
        !matches!(self, Self::Scratch | Self::Packets)
    }

    /// Returns its name for messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Input | Self::OwnInput => "input",
            Self::Output | Self::OwnOutput => "output",
            Self::Scratch | Self::Packets => "scratch",
        }
    }
}

/// Number of [`Space`]s.
pub const SPACES: usize = 6;

/// A range of chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    pub rank: u32,
    pub index: u32,
    pub size: u32,
    pub space: Space,
}

/// A memory or port channel of a rank: the end at which its rank waits.
#[derive(Clone, Copy, Debug)]
pub struct Channel {
    pub rank: u32,
    pub kind: ChannelKind,
    /// Number on its rank.
    pub id: u32,
    pub peer: u32,
    /// Channel of the peer to which a signal on this one goes, as an index into [`ResolvedPlan::channels`];
    /// [`UNPAIRED`] if the peer has no such channel.
    pub pair: u32,
}

/// The pair of a channel that has none.
pub const UNPAIRED: u32 = u32::MAX;

/// A semaphore of a rank. It can be acquired while its value is positive, so one that starts at -1 needs two releases.
#[derive(Clone, Copy, Debug)]
pub struct Semaphore {
    pub id: u32,
    pub initial: i64,
}

/// A barrier of a rank.
#[derive(Clone, Copy, Debug)]
pub struct Barrier {
    pub id: u32,
}

impl ResolvedPlan {
    /// Returns whether chunks of inputs and outputs begin where the counts before them end.
    pub fn is_packed(&self) -> bool {
        self.shape.collective.kind == CollectiveKind::AllToAllV
    }

    /// Returns the number of an operation's sources before the last one if it copies or packs one source to several
    /// destinations, and all of its sources are therefore equal; otherwise 0.
    pub fn repeated_srcs(&self, instr: &Instr) -> u32 {
        match self.srcs(instr) {
            [first, others @ ..]
                if matches!(instr.action, Opcode::Transfer(Transfer::Copy | Transfer::Pack))
                    && others.iter().all(|other| other == first) =>
            {
                others.len() as u32
            }
            _ => 0,
        }
    }

    pub fn srcs(&self, instr: &Instr) -> &[Operand] {
        &self.operands[instr.operands as usize..][..instr.srcs as usize]
    }

    pub fn dsts(&self, instr: &Instr) -> &[Operand] {
        &self.operands[(instr.operands + instr.srcs) as usize..][..instr.dsts as usize]
    }

    /// Returns `rank 3 / thread block 0 / operation 5 (put)`.
    pub fn path(&self, instr: u32) -> String {
        let code = self.agents.iter().find(|code| (code.start..code.end).contains(&instr));
        let (rank, block) = code.map_or((0, 0), |code| (code.rank, code.block));
        let Instr { op, kind, .. } = self.instrs[instr as usize];
        path(rank, block, op, kind)
    }

    pub fn ids(&self, instr: &Instr) -> &[u32] {
        &self.ids[instr.first_id as usize..][..instr.ids as usize]
    }
}
