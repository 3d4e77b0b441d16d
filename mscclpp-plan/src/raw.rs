//! Plans as trees of Rust values, for tools that read, change or create them: nothing of what a value says is checked. Formats
//! and operations may be extended in any version; programs that only run plans need [`Plan`](super::Plan).

pub use super::op::{BufferRef, Count, Ids, LoopBody, Op, OpKind, Operand, Operands, Slice};
#[doc(hidden)]
pub use super::op::{Flow, Function, Grain, IdList, OpClass, Opcode, Packets, Side, Transfer};

use std::collections::{BTreeMap, BTreeSet};

use smallvec::SmallVec;

use crate::collective::{Collective, CollectiveKind};
use crate::origin::{Origin, Origins};
use crate::types::{BufferKind, ChannelKind, Protocol, ReduceOp};

/// A lowered plan as a tree of ranks, thread blocks and operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanTree {
    /// The plan's name.
    pub name: String,
    /// The collective, its chunking before replication, and whether it is in place.
    pub collective: Collective,
    /// Whether scratch is sized for packets.
    pub protocol: Protocol,
    /// Whether launches of all sizes share one scratch pool.
    pub reuse_resources: bool,
    /// CUDA threads per thread block.
    pub threads_per_block: u32,
    /// Whether launches alternate between two halves of scratch.
    pub double_scratch: bool,
    /// Granularity of chunk boundaries, in bytes.
    pub buffer_alignment: u32,
    /// Smallest message, inclusive: bytes of the larger of a rank's input and output.
    pub min_message_size: u64,
    /// Largest message, inclusive: bytes of the larger of a rank's input and output.
    pub max_message_size: u64,
    /// Ranks per node (for a plan read from JSON, which lacks it, the number of ranks).
    pub ranks_per_node: u32,
    /// Labels for selectors (empty for a plan read from JSON).
    pub tags: BTreeMap<String, i64>,
    /// One entry per rank, in order.
    pub ranks: Vec<RankPlan>,
    /// What the program states about its outputs in addition to the postcondition of its collective. The checks and
    /// result verification use it. Images and plan JSON keep it.
    pub expectations: Vec<Expectation>,
    /// Source locations of the operations.
    pub origins: Origins,
}

impl PlanTree {
    /// Returns whether the sizes of operations are counts that launches pass.
    pub fn is_counted(&self) -> bool {
        fn any(ops: &[Op]) -> bool {
            ops.iter().any(|op| op.kind.is_counted() || op.body.as_ref().is_some_and(|body| any(&body.ops)))
        }
        self.collective.kind == CollectiveKind::AllToAllV
            || self.ranks.iter().flat_map(|rank| &rank.blocks).any(|block| any(&block.ops))
    }

    /// Returns the reductions that the operations perform, each once, in the order of [`ReduceOp`].
    pub fn reductions(&self) -> Vec<ReduceOp> {
        fn visit(ops: &[Op], found: &mut BTreeSet<ReduceOp>) {
            for op in ops {
                found.extend(op.kind.is_reduce().then(|| op.reduce.unwrap_or_default()));
                visit(op.body.as_ref().map_or(&[], |body| &body.ops), found);
            }
        }
        let mut found = BTreeSet::new();
        self.ranks.iter().flat_map(|rank| &rank.blocks).for_each(|block| visit(&block.ops, &mut found));
        found.into_iter().collect()
    }
}

/// What chunks of an output must hold at the end, as stated by a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// The rank whose output it is.
    pub rank: u32,
    /// First chunk of the output.
    pub chunk: u32,
    /// Number of chunks.
    pub len: u32,
    /// Rank and first chunk of every input that the output contains: one for a copy, several for their reduction.
    pub inputs: Vec<(u32, u32)>,
    /// Source location of the statement.
    pub origin: Origin,
}

/// The resources and operations of one rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankPlan {
    /// Chunks of the input buffer.
    pub input_chunks: u32,
    /// Chunks of the output buffer.
    pub output_chunks: u32,
    /// Chunks of scratch.
    pub scratch_chunks: u32,
    /// Thread blocks, in order of their numbers.
    pub blocks: Vec<ThreadBlock>,
    /// Channel tables in the order in which the rank first used their kind. At most one of kind memory and one of kind
    /// port, then one for each switch channel.
    pub channels: Vec<ChannelTable>,
    /// Buffers of other ranks, in the order of first use.
    pub remote_buffers: Vec<RemoteBuffer>,
    /// Initial values of the semaphores.
    pub semaphores: Vec<i64>,
}

/// Channels of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChannelTable {
    /// Memory channels: the peer of each.
    Memory(Vec<u32>),
    /// Port channels: the peer of each.
    Port(Vec<u32>),
    /// Switch channels over one buffer kind: the member ranks of each.
    Switch {
        /// The buffer that the group shares.
        buffer: BufferKind,
        /// Member ranks, one list per channel.
        groups: Vec<Vec<u32>>,
    },
}

/// Another rank's buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteBuffer {
    /// The owner.
    pub rank: u32,
    /// Which of its buffers.
    pub buffer: BufferKind,
    /// Whether memory channels use it.
    pub memory: bool,
    /// Whether port channels use it.
    pub port: bool,
}

/// Tables of rank-level numbers of a thread block, one per kind. Most blocks have a single short one, which needs no
/// heap allocation.
pub type BlockTables = SmallVec<[(ChannelKind, BlockTable); 1]>;

/// Rank-level numbers in a thread block's table. As many as a node has peers fit without a heap allocation.
pub type BlockTable = SmallVec<[u32; 8]>;

/// One thread block: its operations and the tables that its operations' indexes go through.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ThreadBlock {
    /// Operations, executed in order.
    pub ops: Vec<Op>,
    /// Per channel kind, in the order of first use: rank-level channel numbers. An operation's channel index points here.
    pub channels: BlockTables,
    /// Per access kind, in the order of first use: rank-level remote buffer numbers. A remote operand points here.
    pub remote_buffers: BlockTables,
}

impl RankPlan {
    /// Returns the number of chunks of a buffer.
    pub fn chunks(&self, buffer: BufferKind) -> u32 {
        match buffer {
            BufferKind::Input => self.input_chunks,
            BufferKind::Output => self.output_chunks,
            BufferKind::Scratch => self.scratch_chunks,
        }
    }

    /// Returns the peers of the memory or port channels; empty for switch channels.
    pub fn peers(&self, kind: ChannelKind) -> &[u32] {
        self.channels
            .iter()
            .find_map(|table| match (table, kind) {
                (ChannelTable::Memory(peers), ChannelKind::Memory) => Some(peers.as_slice()),
                (ChannelTable::Port(peers), ChannelKind::Port) => Some(peers.as_slice()),
                _ => None,
            })
            .unwrap_or_default()
    }

    /// Returns the switch channels, flattened in order: buffer and members of each.
    pub fn switch_channels(&self) -> impl Iterator<Item = (BufferKind, &[u32])> {
        self.channels.iter().flat_map(|table| {
            let (buffer, groups) = match table {
                ChannelTable::Switch { buffer, groups } => (*buffer, groups.as_slice()),
                _ => (BufferKind::Input, &[][..]),
            };
            groups.iter().map(move |group| (buffer, group.as_slice()))
        })
    }
}

// Implemented manually, as for operations: lists of plain numbers are copied as a whole.
impl Clone for ThreadBlock {
    fn clone(&self) -> Self {
        let copy = |tables: &BlockTables| tables.iter().map(|(kind, ids)| (*kind, super::op::copy(ids))).collect();
        Self { ops: self.ops.clone(), channels: copy(&self.channels), remote_buffers: copy(&self.remote_buffers) }
    }
}

impl ThreadBlock {
    /// Returns the rank-level numbers of this block's channels of a kind.
    pub fn channels(&self, kind: ChannelKind) -> &[u32] {
        table(&self.channels, kind)
    }

    /// Returns the rank-level numbers of this block's remote buffers accessed through a channel kind.
    pub fn remote_buffers(&self, kind: ChannelKind) -> &[u32] {
        table(&self.remote_buffers, kind)
    }
}

fn table(tables: &[(ChannelKind, BlockTable)], kind: ChannelKind) -> &[u32] {
    tables.iter().find(|(k, _)| *k == kind).map_or(&[], |(_, ids)| ids.as_slice())
}
