//! Plans for the reference executor: within its arrays, and using only what it gets right.
//!
//! MSCCL++'s executor copies plans into arrays of fixed size without looking, so a plan that exceeds one overwrites what
//! lies behind it. Long operations are split here into several that do the same; what cannot be split is refused.

mod split;

use super::{PlanTree, json};
use crate::check::limits::{DeviceProfile, largest_message, limits};
use crate::check::reference;
use crate::collective::CollectiveKind;
use crate::diag::{Diagnostic, Diagnostics};

/// The plan as the reference executor can run it: what `plan export --target mscclpp` writes.
///
/// - Operations with too many channels, references or semaphores become several, as do memory puts that mix source
///   buffers, of which the reference takes the first for all.
/// - What its format has no key for is left out: tags, expectations, ranks per node, the chunk factor, and the root of a broadcast or
///   reduce, which becomes `custom`.
/// - A plan without a largest message size gets the one up to which byte offsets fit into 32 bits.
///
/// # Errors
/// [`OverLimit`](crate::diag::Code::OverLimit) with count and limit for what is still too large, and
/// [`NotInReference`](crate::diag::Code::NotInReference) for what the reference refuses, ignores or does wrongly.
pub fn for_reference(plan: &PlanTree) -> Result<PlanTree, Diagnostics> {
    let mut plan = plan.clone();
    plan.tags.clear();
    plan.expectations.clear();
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
    let mut found = reference::faults(&plan);
    found.extend(limits(&plan, &DeviceProfile::REFERENCE));
    plan.max_message_size = plan.max_message_size.min(largest_message(&plan, &DeviceProfile::REFERENCE));
    found.into_result(plan)
}

/// What a plan that the reference executor can run does right up to some size of messages only, with the size; and where it
/// relies on launch barriers, which that executor does not have.
///
/// # Cost
/// That of a check, and with `reuse_resources` and pipelines over scratch of another one.
pub fn warnings_for_reference(plan: &PlanTree) -> Vec<Diagnostic> {
    reference::warnings(plan)
}

#[cfg(test)]
mod tests;
