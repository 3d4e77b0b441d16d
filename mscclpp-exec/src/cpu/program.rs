//! A plan as the workers read it: flat tables, every index resolved, nothing that depends on a message's size.

use mscclpp_core::plan::{OpKind, Plan};
use mscclpp_core::vocab::{ChannelKind, ReduceOp};

use crate::error::path;
use crate::layout::Shape;

/// A plan made ready for launches of any size.
pub(super) struct Program {
    /// For names and source places.
    pub(super) plan: Plan,
    pub(super) shape: Shape,
    pub(super) double_scratch: bool,
    pub(super) reuse_resources: bool,
    pub(super) reductions: Reductions,
    /// Whether an operation writes to an input.
    pub(super) writes_input: bool,
    /// Whether plain data and whether packets go through scratch.
    pub(super) plain_scratch: bool,
    /// Whether all of a plan's plain scratch traffic is inside of pipelines; the largest window, in bytes.
    pub(super) windowed_scratch: Option<u64>,
    /// Thread blocks that have operations, by rank and block.
    pub(super) agents: Vec<Code>,
    pub(super) instrs: Vec<Instr>,
    pub(super) operands: Vec<Operand>,
    /// Channels, semaphores and barriers of instructions, as indexes of the tables below.
    pub(super) ids: Vec<u32>,
    pub(super) channels: Vec<Channel>,
    pub(super) semaphores: Vec<Semaphore>,
    pub(super) barriers: Vec<Barrier>,
    /// Ranks that use port channels, ascending: each has a proxy.
    pub(super) proxies: Vec<u32>,
    /// Positions of the loops among the instructions.
    pub(super) loops: Vec<u32>,
}

/// How a plan reduces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reductions {
    /// Not at all.
    None,
    /// Sums only: any operation may stand for them.
    Generic,
    /// This operation only.
    Fixed(ReduceOp),
    /// Several operations; none of them `Avg`.
    Mixed,
}

/// The operations of one thread block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Code {
    pub(super) rank: u32,
    pub(super) block: u32,
    /// Range of [`Program::instrs`].
    pub(super) start: u32,
    pub(super) end: u32,
    /// Position of its rank in [`Program::proxies`], if it uses port channels.
    pub(super) proxy: u32,
}

/// How an instruction is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Nop,
    /// Plain source i to plain destination i.
    Copy,
    /// Plain source i to packets i.
    Pack,
    /// Packets i to plain destination i.
    Unpack,
    /// The packets of one source to every destination.
    Forward,
    /// Packet sources from left to right, then plain ones, into all destinations. One plain source: a broadcast.
    Reduce,
    /// Through the proxy: source i to destination i, plain or packets, then as asked.
    Port {
        signal: bool,
        flush: bool,
    },
    /// Through the proxy, as soon as all packets of the source are there: to every destination.
    PortForward,
    Signal {
        relaxed: bool,
    },
    PortSignal,
    Wait {
        relaxed: bool,
    },
    Flush,
    Acquire,
    Release,
    Barrier,
    Loop,
}

/// One operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Instr {
    pub(super) kind: OpKind,
    pub(super) action: Action,
    pub(super) reduce: ReduceOp,
    /// Flat index in its thread block.
    pub(super) op: u32,
    /// First of [`Program::operands`]: sources, then destinations.
    pub(super) operands: u32,
    pub(super) srcs: u32,
    pub(super) dsts: u32,
    /// First of [`Program::ids`].
    pub(super) first_id: u32,
    pub(super) ids: u32,
    /// The part of every reference: index and number of parts.
    pub(super) slice: (u32, u32),
    /// Barriers: thread blocks that meet. Loops: chunks that it covers.
    pub(super) count: u32,
    /// Loops: instructions of the body.
    pub(super) body: u32,
    /// Loops: bytes of a window.
    pub(super) unit: u64,
}

impl Instr {
    /// An operation that does nothing.
    pub(super) const NOTHING: Self = Self {
        kind: OpKind::Nop,
        action: Action::Nop,
        reduce: ReduceOp::Sum,
        op: 0,
        operands: 0,
        srcs: 0,
        dsts: 0,
        first_id: 0,
        ids: 0,
        slice: (0, 1),
        count: 0,
        body: 0,
        unit: 0,
    };
}

/// The memory of a rank that an operand lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Space {
    Input = 0,
    Output = 1,
    /// Plain data in scratch.
    Scratch = 2,
    /// Packets in scratch. They have a memory of their own, so that stale data never looks like a packet.
    Packets = 3,
}

/// Number of [`Space`]s.
pub(super) const SPACES: usize = 4;

/// A range of chunks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operand {
    pub(super) rank: u32,
    pub(super) index: u32,
    pub(super) size: u32,
    pub(super) space: Space,
}

/// A memory or port channel of a rank: the end that its rank waits at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Channel {
    pub(super) rank: u32,
    pub(super) kind: ChannelKind,
    /// Number on its rank.
    pub(super) id: u32,
    pub(super) peer: u32,
    /// The peer's channel that a signal on this one goes to, as index of [`Program::channels`]; [`NOWHERE`] if the peer has
    /// no such channel.
    pub(super) pair: u32,
}

/// The pair of a channel that has none.
pub(super) const NOWHERE: u32 = u32::MAX;

/// A semaphore of a rank. A unit can be taken while its value is positive, so one that starts at -1 needs two releases.
#[derive(Clone, Copy, Debug)]
pub(super) struct Semaphore {
    pub(super) id: u32,
    pub(super) initial: i64,
}

/// A barrier of a rank.
#[derive(Clone, Copy, Debug)]
pub(super) struct Barrier {
    pub(super) id: u32,
}

impl Program {
    pub(super) fn srcs(&self, instr: &Instr) -> &[Operand] {
        &self.operands[instr.operands as usize..][..instr.srcs as usize]
    }

    pub(super) fn dsts(&self, instr: &Instr) -> &[Operand] {
        &self.operands[(instr.operands + instr.srcs) as usize..][..instr.dsts as usize]
    }

    /// `rank 3 / thread block 0 / operation 5 (put)`.
    pub(super) fn path(&self, instr: u32) -> String {
        let code = self.agents.iter().find(|code| (code.start..code.end).contains(&instr));
        let (rank, block) = code.map_or((0, 0), |code| (code.rank, code.block));
        let Instr { op, kind, .. } = self.instrs[instr as usize];
        path(rank, block, op, kind)
    }

    pub(super) fn ids(&self, instr: &Instr) -> &[u32] {
        &self.ids[instr.first_id as usize..][..instr.ids as usize]
    }
}
