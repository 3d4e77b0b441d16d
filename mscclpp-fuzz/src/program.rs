//! A scaled-down plan: every operand is a range of cells, every channel a number.

use mscclpp_core::plan::raw::OpKind;

use super::scale::Scale;

/// A plan at one scale.
pub(super) struct Program {
    /// Thread blocks that have operations.
    pub(super) blocks: Vec<Block>,
    pub(super) ranks: Vec<Rank>,
    /// Cells of all buffers.
    pub(super) cells: usize,
    pub(super) ends: Vec<End>,
    /// Initial values.
    pub(super) semaphores: Vec<i64>,
    pub(super) barriers: usize,
    /// Agents: threads of blocks, then two for each port channel, then callers.
    pub(super) agents: Vec<AgentKind>,
    /// The first caller.
    pub(super) first_caller: u32,
    /// Whether scratch holds both plain data and packets, which then can overwrite each other.
    pub(super) mixed: bool,
    /// Cells of inputs and outputs that the message does not fill; empty if it fills all.
    pub(super) padding: Vec<bool>,
}

impl Program {
    /// Returns whether a cell is past the end of a caller's buffer, where zero is read and what is written is discarded.
    pub(super) fn is_padding(&self, cell: u32) -> bool {
        self.padding.get(cell as usize).copied().unwrap_or(false)
    }
}

/// The plan at one size.
pub(super) struct Sized {
    pub(super) scale: Scale,
    pub(super) program: Program,
}

/// Returns the size of a launch; the first launch has number 1.
pub(super) fn of_launch(sizes: &[Sized], launch: u32) -> &Sized {
    &sizes[launch.saturating_sub(1) as usize % sizes.len()]
}

/// The kind of an agent.
#[derive(Clone, Copy, Debug)]
pub(super) enum AgentKind {
    /// A thread of a block.
    Thread { block: u32, thread: u32 },
    /// Reads the sources of a port channel.
    Port { end: u32 },
    /// Delivers the data of a port channel to the peer, and its signals.
    Wire { end: u32 },
    /// Runs between the launches of a rank.
    Caller { rank: u32 },
}

/// The memory of a rank.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rank {
    /// First cells of input and output, as in-place calls have them.
    pub(super) input: u32,
    pub(super) output: u32,
    /// Chunks.
    pub(super) inputs: u32,
    pub(super) outputs: u32,
    /// The range of cells of all its memory.
    pub(super) memory: (u32, u32),
    /// Blocks that have operations.
    pub(super) blocks: u32,
}

/// A thread block.
pub(super) struct Block {
    pub(super) rank: u32,
    pub(super) number: u32,
    /// Its first thread among the agents.
    pub(super) first: u32,
    pub(super) threads: u32,
    pub(super) instrs: Vec<Instr>,
}

/// A channel of a rank.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    pub(super) rank: u32,
    /// The end that receives the signals of this one; none if the peer has no such channel.
    pub(super) pair: Option<u32>,
    /// The agent that reads its sources, if it is a port channel. The next agent is its wire.
    pub(super) port: Option<u32>,
}

/// One instruction of a block's program.
pub(super) struct Instr {
    pub(super) kind: OpKind,
    /// Position in the block, and in the pipeline there.
    pub(super) place: (u32, Option<u32>),
    pub(super) opcode: Opcode,
}

pub(super) enum Opcode {
    /// All threads of the block synchronize.
    Sync,
    /// All threads of several blocks synchronize.
    Barrier {
        id: u32,
        blocks: u32,
    },
    /// Moves elements from the sources to the destinations.
    Move(Move),
    /// Thread i posts the i-th trigger to a port.
    Push(Vec<Trigger>),
    Signal {
        ends: Vec<u32>,
        relaxed: bool,
    },
    Wait {
        ends: Vec<u32>,
        relaxed: bool,
    },
    Flush {
        ends: Vec<u32>,
    },
    Acquire {
        semaphores: Vec<u32>,
    },
    Release {
        semaphores: Vec<u32>,
    },
    /// Executes the following instructions up to `end` in windows of the given number of cells.
    Loop {
        window: u64,
        trips: u64,
        end: u32,
    },
    /// Jumps to the loop that began there.
    Again {
        start: u32,
    },
}

/// All sources combined into all destinations, element by element. Without destinations: waits for its packets.
pub(super) struct Move {
    pub(super) srcs: Vec<Operand>,
    pub(super) dsts: Vec<Operand>,
    /// First cell and number of cells of the slice.
    pub(super) start: u64,
    pub(super) len: u64,
    pub(super) grain: Grain,
    /// Packets are moved without reading their flags.
    pub(super) raw: bool,
    /// Rows are normalized: the sum of the sources is replaced.
    pub(super) norm: bool,
}

/// Elements that a thread processes at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grain {
    Vector,
    Cell,
    /// Cells, assigned to every second thread.
    Multicast,
    /// Rows of a vector each, which another thread reads and writes than reads and writes a vector.
    Row,
}

/// A range of cells of a buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operand {
    pub(super) base: u32,
    pub(super) packets: bool,
    /// Offset that is added in even launches.
    pub(super) half: u32,
}

/// A trigger of a port.
pub(super) struct Trigger {
    pub(super) end: u32,
    pub(super) transfer: Option<Move>,
    pub(super) signal: bool,
    /// Whether the thread waits until the sources are read.
    pub(super) flush: bool,
}

impl Move {
    /// Returns the window of an iteration: first cell and number of cells.
    pub(super) fn window(&self, iteration: Option<(u64, u64)>) -> (u64, u64) {
        match iteration {
            None => (self.start, self.len),
            Some((iteration, window)) => {
                let skip = iteration.saturating_mul(window).min(self.len);
                (self.start + skip, (self.len - skip).min(window))
            }
        }
    }
}

impl Operand {
    /// Returns the cell of an element in a launch.
    pub(super) fn cell(&self, at: u64, launch: u32) -> u32 {
        let half = if launch.is_multiple_of(2) { self.half } else { 0 };
        self.base + half + if self.packets { 2 * at as u32 } else { at as u32 }
    }
}

impl Program {
    /// Returns a path such as `rank 3 / thread block 0 / operation 5 (put)`.
    pub(super) fn path(&self, block: u32, instr: u32) -> String {
        let block = &self.blocks[block as usize];
        let path = format!("rank {} / thread block {}", block.rank, block.number);
        match block.instrs.get(instr as usize) {
            None => path,
            Some(Instr { kind, place: (op, None), .. }) => format!("{path} / operation {op} ({})", kind.name()),
            Some(Instr { kind, place: (op, Some(inner)), .. }) => {
                format!("{path} / operation {op} (pipeline) / operation {inner} ({})", kind.name())
            }
        }
    }
}
