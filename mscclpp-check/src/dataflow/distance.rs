//! Over how many ranks a send-receive sends: plans send to the next rank, and from group to group, too.

use super::Dataflow;
use super::contents::Contents;
use super::values::Kind;
use crate::execute::{runs_to_its_end, with_first_model};
use crate::place::canonical_buffer;
use mscclpp_plan::collective::CollectiveKind;
use mscclpp_plan::raw::PlanTree;
use mscclpp_plan::types::BufferKind;

/// Returns over how many ranks a send-receive sends, as the checks determine it from the data that rank 0 has at the end;
/// `None` for other collectives, and for plans that do not run to their end.
///
/// # Cost
/// That of checking the plan.
///
/// # Panics
/// Never, whatever the plan contains.
pub fn send_distance(plan: &PlanTree) -> Option<u32> {
    if plan.collective.kind != CollectiveKind::SendRecv {
        return None;
    }
    with_first_model(plan.into(), |model| {
        let mut dataflow = Dataflow::new(model, None);
        runs_to_its_end(model, &mut dataflow).then(|| distance(plan, &dataflow.contents))
    })
}

/// Returns over how many ranks a send-receive sends, according to the data that rank 0 has received.
pub(super) fn distance(plan: &PlanTree, contents: &Contents) -> u32 {
    let ranks = plan.ranks.len() as u32;
    let (buffer, _) = canonical_buffer(plan, 0, BufferKind::Output, 0);
    let mut sender = None;
    contents.memories.read(super::memory_of(0, buffer, false), 0..1, |_, piece| {
        if let Some(Kind::Input(rank)) = piece.map(|piece| contents.values.kind(piece.node)) {
            sender = Some(rank);
        }
    });
    match sender {
        Some(rank) if rank != 0 && rank < ranks => ranks - rank,
        _ => 1,
    }
}
