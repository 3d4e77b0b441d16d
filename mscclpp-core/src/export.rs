//! Exports plans for the reference executor: within the sizes of its arrays, and without the features that it gets
//! wrong.
//!
//! MSCCL++'s executor copies plans into arrays of fixed size without a bounds check, so a plan that exceeds an array
//! overwrites the memory after it. Long operations are split here into equivalent shorter ones; what cannot be split is
//! rejected.

mod split;

use crate::check::limits::{DeviceProfile, check_limits, max_message_size};
use crate::check::reference;
use crate::collective::CollectiveKind;
use crate::diag::{Diagnostic, Diagnostics};
use crate::plan::{PlanTree, json};

/// Returns the plan as the reference executor can run it; `plan export --target mscclpp` writes this form.
///
/// - Operations with too many channels, operands or semaphores are split, and so are memory puts that mix source
///   buffers: the reference executor uses the first buffer for all of them.
/// - What its format has no key for is omitted: tags, expectations, ranks per node, the chunk factor, whether it takes dividing counts only (the reference
///   executor takes no others), and the root of a
///   broadcast or reduce, which becomes `custom`.
/// - A plan without a largest message size gets the largest one whose byte offsets fit into 32 bits.
///
/// # Errors
/// [`OverLimit`](crate::diag::Code::OverLimit) with count and limit for each size that is still too large, and
/// [`NotInReference`](crate::diag::Code::NotInReference) for what the reference executor rejects, ignores or gets
/// wrong.
pub fn for_reference(plan: &PlanTree) -> Result<PlanTree, Diagnostics> {
    let mut plan = plan.clone();
    plan.tags.clear();
    plan.expectations.clear();
    plan.collective.dividing = false;
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
    found.extend(check_limits(&plan, &DeviceProfile::REFERENCE));
    plan.max_message_size = plan.max_message_size.min(max_message_size(&plan, &DeviceProfile::REFERENCE));
    found.into_result(plan)
}

/// Returns warnings about an exported plan: what the reference executor gets right only up to some message size, with
/// that size, and where the plan relies on launch barriers, which that executor does not have.
///
/// # Cost
/// That of a check; with `reuse_resources` and pipelines over scratch, that of a second check.
pub fn warnings_for_reference(plan: &PlanTree) -> Vec<Diagnostic> {
    reference::warnings(plan)
}

#[cfg(test)]
mod tests;
