//! The specification of a program: everything outside of its body.

use std::collections::BTreeMap;

use crate::collective::{Collective, CollectiveKind};
use crate::types::{Protocol, Replication};

/// How a program is built and when its plan may be selected.
///
/// It contains the attribute's arguments, and a caller of `name::compile` at run time starts from one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlgoSpec {
    /// The plan's name.
    pub name: String,
    /// The collective, its chunking and whether it is in place.
    pub collective: Collective,
    /// Number of ranks.
    pub num_ranks: u32,
    /// Ranks per node; equal to `num_ranks` on a single node.
    pub ranks_per_node: u32,
    /// Copies of the program, each of which processes its own part of every chunk.
    pub instances: u32,
    /// Whether scratch is sized for packets.
    pub protocol: Protocol,
    /// Whether neighboring operations are fused.
    pub fuse: bool,
    /// Whether block syncs are inserted between dependent operations of a block.
    pub auto_sync: bool,
    /// How instances divide the chunks.
    pub replication: Replication,
    /// Whether launches of all sizes share one scratch pool.
    pub reuse_resources: bool,
    /// CUDA threads per thread block, 1 to 1024.
    pub threads_per_block: u32,
    /// Whether launches alternate between two halves of scratch.
    pub double_scratch: bool,
    /// Granularity of chunk boundaries, in bytes; a power of two. Boundaries are those of elements in any case, and with
    /// packets multiples of 8 bytes.
    pub buffer_alignment: u32,
    /// Smallest message for which the plan is meant: bytes of the larger of a rank's input and output, inclusive.
    pub min_message_size: u64,
    /// Largest message for which the plan is meant: bytes of the larger of a rank's input and output, inclusive.
    pub max_message_size: u64,
    /// Labels for selectors.
    pub tags: BTreeMap<String, i64>,
}

impl AlgoSpec {
    /// Creates a specification with the defaults of the attribute.
    pub fn new(name: impl Into<String>, kind: CollectiveKind, num_ranks: u32) -> Self {
        Self {
            name: name.into(),
            collective: Collective::new(kind),
            num_ranks,
            ranks_per_node: num_ranks,
            instances: 1,
            protocol: Protocol::Simple,
            fuse: true,
            auto_sync: true,
            replication: Replication::Interleaved,
            reuse_resources: false,
            threads_per_block: 1024,
            double_scratch: false,
            buffer_alignment: kind.default_alignment(),
            min_message_size: 0,
            max_message_size: u64::MAX,
            tags: BTreeMap::new(),
        }
    }
}
