//! A plan as the workers read it: flat tables, every index resolved, nothing that depends on a message's size.

use mscclpp_core::plan::{OpKind, Plan};
use mscclpp_core::types::{ChannelKind, ReduceOp};

use crate::error::path;
use crate::layout::Shape;

/// A plan made ready for launches of any size.
pub(crate) struct ResolvedPlan {
    /// For names and source places.
    pub(crate) plan: Plan,
    pub(crate) shape: Shape,
    pub(crate) double_scratch: bool,
    pub(crate) reuse_resources: bool,
    pub(crate) reductions: Reductions,
    /// Whether an operation writes to an input.
    pub(crate) writes_input: bool,
    /// Whether plain data and whether packets go through scratch.
    pub(crate) plain_scratch: bool,
    /// Whether all of a plan's plain scratch traffic is inside of pipelines; the largest window, in bytes.
    pub(crate) windowed_scratch: Option<u64>,
    /// Thread blocks that have operations, by rank and block.
    pub(crate) agents: Vec<Block>,
    pub(crate) instrs: Vec<Instr>,
    pub(crate) operands: Vec<Operand>,
    /// Channels, semaphores and barriers of instructions, as indexes of the tables below.
    pub(crate) ids: Vec<u32>,
    pub(crate) channels: Vec<Channel>,
    pub(crate) semaphores: Vec<Semaphore>,
    pub(crate) barriers: Vec<Barrier>,
    /// Ranks that use port channels, ascending: each has a proxy.
    pub(crate) proxies: Vec<u32>,
    /// Positions of the loops among the instructions.
    pub(crate) loops: Vec<u32>,
}

/// How a plan reduces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reductions {
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
pub(crate) struct Block {
    pub(crate) rank: u32,
    pub(crate) block: u32,
    /// Range of [`ResolvedPlan::instrs`].
    pub(crate) start: u32,
    pub(crate) end: u32,
    /// Position of its rank in [`ResolvedPlan::proxies`], if it uses port channels.
    pub(crate) proxy: u32,
}

/// How an instruction is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opcode {
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

impl Opcode {
    /// Whether it goes through the proxy.
    pub(crate) fn is_port(self) -> bool {
        self.is_port_send() || self == Self::Flush
    }

    /// Whether the proxy sends data or signals for it.
    pub(crate) fn is_port_send(self) -> bool {
        matches!(self, Self::Port { .. } | Self::PortForward | Self::PortSignal)
    }
}

/// One operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instr {
    pub(crate) kind: OpKind,
    pub(crate) action: Opcode,
    pub(crate) reduce: ReduceOp,
    /// Flat index in its thread block.
    pub(crate) op: u32,
    /// First of [`ResolvedPlan::operands`]: sources, then destinations.
    pub(crate) operands: u32,
    pub(crate) srcs: u32,
    pub(crate) dsts: u32,
    /// First of [`ResolvedPlan::ids`].
    pub(crate) first_id: u32,
    pub(crate) ids: u32,
    /// The part of every reference: index and number of parts.
    pub(crate) slice: (u32, u32),
    /// Barriers: thread blocks that meet. Loops: chunks that it covers.
    pub(crate) count: u32,
    /// Loops: instructions of the body.
    pub(crate) body: u32,
    /// Loops: bytes of a window.
    pub(crate) unit: u64,
    /// Whether it accesses what another rank's caller has handed in.
    pub(crate) accesses_peer_buffers: bool,
    /// Whether no other rank touches what it accesses, in any way that matters.
    pub(crate) alone: bool,
}

impl Instr {
    /// An operation that does nothing.
    pub(crate) const NOTHING: Self = Self {
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
        count: 0,
        body: 0,
        unit: 0,
        accesses_peer_buffers: false,
        alone: false,
    };
}

/// The memory of a rank that an operand lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Space {
    Input = 0,
    Output = 1,
    /// Plain data in scratch.
    Scratch = 2,
    /// Packets in scratch. They have a memory of their own, so that stale data never looks like a packet.
    Packets = 3,
    /// The input and output as the own rank's caller handed them in, where others see a copy.
    OwnInput = 4,
    OwnOutput = 5,
}

impl Space {
    /// Whether it is a memory that the caller of a launch hands in.
    pub(crate) fn is_callers(self) -> bool {
        !matches!(self, Self::Scratch | Self::Packets)
    }

    /// What people call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Input | Self::OwnInput => "input",
            Self::Output | Self::OwnOutput => "output",
            Self::Scratch | Self::Packets => "scratch",
        }
    }
}

/// Number of [`Space`]s.
pub(crate) const SPACES: usize = 6;

/// A range of chunks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operand {
    pub(crate) rank: u32,
    pub(crate) index: u32,
    pub(crate) size: u32,
    pub(crate) space: Space,
}

/// A memory or port channel of a rank: the end that its rank waits at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Channel {
    pub(crate) rank: u32,
    pub(crate) kind: ChannelKind,
    /// Number on its rank.
    pub(crate) id: u32,
    pub(crate) peer: u32,
    /// The peer's channel that a signal on this one goes to, as index of [`ResolvedPlan::channels`]; [`UNPAIRED`] if the peer has
    /// no such channel.
    pub(crate) pair: u32,
}

/// The pair of a channel that has none.
pub(crate) const UNPAIRED: u32 = u32::MAX;

/// A semaphore of a rank. A unit can be taken while its value is positive, so one that starts at -1 needs two releases.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Semaphore {
    pub(crate) id: u32,
    pub(crate) initial: i64,
}

/// A barrier of a rank.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Barrier {
    pub(crate) id: u32,
}

impl ResolvedPlan {
    pub(crate) fn srcs(&self, instr: &Instr) -> &[Operand] {
        &self.operands[instr.operands as usize..][..instr.srcs as usize]
    }

    pub(crate) fn dsts(&self, instr: &Instr) -> &[Operand] {
        &self.operands[(instr.operands + instr.srcs) as usize..][..instr.dsts as usize]
    }

    /// `rank 3 / thread block 0 / operation 5 (put)`.
    pub(crate) fn path(&self, instr: u32) -> String {
        let code = self.agents.iter().find(|code| (code.start..code.end).contains(&instr));
        let (rank, block) = code.map_or((0, 0), |code| (code.rank, code.block));
        let Instr { op, kind, .. } = self.instrs[instr as usize];
        path(rank, block, op, kind)
    }

    pub(crate) fn ids(&self, instr: &Instr) -> &[u32] {
        &self.ids[instr.first_id as usize..][..instr.ids as usize]
    }
}
