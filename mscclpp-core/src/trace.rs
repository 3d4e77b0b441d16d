//! A recorded program: the input of lowering.

use crate::origin::Origins;
use crate::plan::{ChannelTable, Expectation, Op, RemoteBuffer};
use crate::spec::AlgoSpec;

/// A recorded program. Equal traces lower to equal plans; source locations are ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The specification by which it is built.
    pub spec: AlgoSpec,
    /// Per rank, the tables to which its operations refer.
    pub ranks: Vec<RankTables>,
    /// Every operation, in the order in which it was recorded. Operands and channels have rank-level numbers.
    pub ops: Vec<TracedOp>,
    /// Headers of the pipelined loops.
    pub loops: Vec<LoopHeader>,
    /// The expectations of the program.
    pub expectations: Vec<Expectation>,
    /// The source locations of the operations.
    pub origins: Origins,
}

/// The declarations of a rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankTables {
    /// Chunks of the input buffer, before replication.
    pub input_chunks: u32,
    /// Chunks of the output buffer, before replication.
    pub output_chunks: u32,
    /// Chunks of scratch allocated, before replication.
    pub scratch_chunks: u32,
    /// Channels, as in [`RankPlan::channels`](crate::plan::RankPlan::channels).
    pub channels: Vec<ChannelTable>,
    /// Remote buffers in the order of first use.
    pub remote_buffers: Vec<RemoteBuffer>,
    /// Initial values of the semaphores.
    pub semaphores: Vec<i64>,
    /// Thread blocks: one more than the highest number used, 0 if none.
    pub num_blocks: u32,
    /// Every distinct list of thread blocks that execute a barrier, sorted; the position is the barrier's number.
    pub barriers: Vec<Vec<u32>>,
}

/// One recorded operation, with its rank and thread block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedOp {
    /// The rank.
    pub rank: u32,
    /// The thread block.
    pub block: u32,
    /// Index into [`Trace::loops`] when recorded inside a pipelined loop.
    pub in_loop: Option<u32>,
    /// The operation.
    pub op: Op,
}

/// A pipelined loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopHeader {
    /// Window per iteration, in bytes.
    pub unit: u64,
    /// Chunks that the loop covers.
    pub num_chunks: u32,
}
