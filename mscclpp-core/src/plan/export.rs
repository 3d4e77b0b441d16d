//! Plans for the reference executor: within its arrays, and using only what it gets right.
//!
//! MSCCL++'s executor copies plans into arrays of fixed size without looking, so a plan that exceeds one overwrites what
//! lies behind it. Long operations are split here into several that do the same; what cannot be split is refused.

mod limits;
mod split;

use super::{PlanTree, json};
use crate::collective::CollectiveKind;
use crate::diag::{Diagnostics, Site};
use crate::origin::Origin;

/// What the reference executor has room for.
pub mod room {
    /// Operations of a thread block, those of pipelines' bodies included.
    pub const OPS: usize = 64;
    /// Channels of a kind in a thread block.
    pub const CHANNELS: usize = 16;
    /// Remote buffers of a kind in a thread block.
    pub const REMOTE_BUFFERS: usize = 16;
    /// Channels, or references to other ranks on one side, of an operation.
    pub const PER_OP: usize = 8;
    /// References on one side of an operation.
    pub const REFS: usize = 10;
    /// Barriers of a rank.
    pub const BARRIERS: u32 = 16;
    /// Semaphores of an operation.
    pub const SEMAPHORES: usize = 16;
    /// Threads of a thread block.
    pub const THREADS: u32 = 1024;
    /// Iterations of a pipeline.
    pub const ITERATIONS: u64 = 65535;
    /// Bytes from the start of a buffer to the end of a chunk, and of a pipeline's unit.
    pub const BYTES: u64 = u32::MAX as u64;
}

/// The plan as the reference executor can run it: what `plan export --target mscclpp` writes.
///
/// - Operations with too many channels, references or semaphores become several, as do memory puts that mix source
///   buffers, of which the reference takes the first for all.
/// - What its format has no key for is left out: tags, ranks per node, the chunk factor, and the root of a broadcast or
///   reduce, which becomes `custom`.
/// - A plan without a largest message size gets the one up to which byte offsets fit into 32 bits.
///
/// # Errors
/// [`OverReferenceLimit`](crate::diag::Code::OverReferenceLimit) with count and limit for what is still too large, and
/// [`NotInReference`](crate::diag::Code::NotInReference) for what the reference refuses, ignores or does wrongly.
pub fn for_reference(plan: &PlanTree) -> Result<PlanTree, Diagnostics> {
    let mut plan = plan.clone();
    plan.tags.clear();
    plan.ranks_per_node = plan.ranks.len() as u32;
    let counts = plan.ranks.first().map_or((0, 0), |rank| (rank.input_chunks, rank.output_chunks));
    if matches!(plan.collective.kind, CollectiveKind::Broadcast | CollectiveKind::Reduce) {
        plan.collective.kind = CollectiveKind::Custom { input: counts.0, output: counts.1 };
        plan.collective.root = 0;
    }
    plan.collective.chunk_factor = json::chunk_factor(plan.collective.kind, counts, plan.ranks_per_node);
    for block in plan.ranks.iter_mut().flat_map(|rank| &mut rank.blocks) {
        split::ops(&mut block.ops);
    }
    let (found, largest) = limits::check(&plan);
    plan.max_message_size = plan.max_message_size.min(largest);
    found.into_result(plan)
}

/// Where an operation is: its source if that is known, else its path.
fn site(plan: &PlanTree, path: String, origin: Origin) -> Site {
    plan.origins.get(origin).map_or(Site::Path(path), |place| Site::Source(place.clone()))
}

#[cfg(test)]
mod tests;
