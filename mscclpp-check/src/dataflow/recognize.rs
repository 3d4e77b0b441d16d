//! Recognition of the collective that a plan with wrong results computes.

use super::Dataflow;
use super::distance::distance;
use mscclpp_plan::collective::{ChunkCounts, Collective, CollectiveKind, OutputContent, Postcondition};

/// Maximum number of ranks that are tried as the root.
const MAX_ROOTS: u32 = 64;

/// Returns a description of a collective other than the plan's of which all outputs are right, such as `an all-gather`.
pub(super) fn other_collective(dataflow: &Dataflow) -> Option<String> {
    use CollectiveKind as K;
    let plan = dataflow.plan;
    let (ranks, own) = (plan.ranks.len() as u32, plan.collective.kind);
    if ranks < 2 || !plan.expectations.is_empty() || matches!(own, K::Custom { .. } | K::Test { .. }) {
        return None;
    }
    // Not those that require a part of what an all-reduce does: of an all-reduce with a mistake, the part may be right.
    let kinds = [K::AllReduce, K::AllGather, K::AllToAll, K::SendRecv, K::Broadcast];
    let is_rooted = |kind| kind == K::Broadcast;
    let roots = |kind| if is_rooted(kind) { ranks.min(MAX_ROOTS) } else { 1 };
    let mut others = kinds.into_iter().flat_map(|kind| (0..roots(kind)).map(move |root| (kind, root)));
    let (kind, root) = others.find(|(kind, root)| *kind != own && computes(dataflow, *kind, *root))?;
    let name = described(kind);
    Some(if is_rooted(kind) { format!("{name} with root {root}") } else { name.to_owned() })
}

/// Returns the name of a collective with its article.
pub(super) fn described(kind: CollectiveKind) -> &'static str {
    use CollectiveKind as K;
    match kind {
        K::AllReduce => "an all-reduce",
        K::AllGather => "an all-gather",
        K::ReduceScatter => "a reduce-scatter",
        K::AllToAll => "an all-to-all",
        K::AllToAllV => "an all-to-all-v",
        K::SendRecv => "a send-receive",
        K::Broadcast => "a broadcast",
        K::Reduce => "a reduce",
        K::Custom { .. } => "a custom collective",
        K::Test { .. } => "a test",
    }
}

/// Returns whether the outputs are those of a collective.
fn computes(dataflow: &Dataflow, kind: CollectiveKind, root: u32) -> bool {
    let plan = dataflow.plan;
    let Some(first) = plan.ranks.first() else { return false };
    let (ranks, input, output) = (plan.ranks.len() as u32, first.input_chunks, first.output_chunks);
    let distance = distance(plan, &dataflow.contents);
    let extent = ChunkCounts { num_ranks: ranks, input, output, distance };
    let collective = Collective { kind, root, ..plan.collective };
    let has_parts = matches!(kind, CollectiveKind::AllGather | CollectiveKind::AllToAll);
    if has_parts && !output.is_multiple_of(ranks) {
        return false;
    }
    let stated = (0..ranks).flat_map(|rank| collective.postconditions(extent, rank).map(move |one| (rank, one)));
    if dataflow.output_checker().all_hold(stated) {
        return true;
    }
    // In buffers of equal length every rank may have its part where the others receive it.
    let len = output / ranks;
    let gathered = (0..ranks).flat_map(|rank| (0..ranks).map(move |from| (rank, from * len, from)));
    let gathered = gathered.map(|(rank, chunk, from)| {
        (rank, Postcondition { chunk, len, content: OutputContent::Input { rank: from, chunk } })
    });
    kind == CollectiveKind::AllGather && input == output && dataflow.output_checker().all_hold(gathered)
}
