//! Over how many ranks a send-receive sends: plans send to the next rank, and from group to group, too.

use super::Dataflow;
use super::contents::Contents;
use super::values::Kind;
use crate::deadlock;
use crate::machine::AbstractMachine;
use crate::model::{Model, sizes};
use crate::pairing::{self, Pairs};
use crate::place::canonical_buffer;
use crate::shape;
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
    if plan.collective.kind != CollectiveKind::SendRecv || !shape::check(plan.into()).is_empty() {
        return None;
    }
    let pairs = Pairs::of(plan);
    if !pairing::check(plan.into(), &pairs).is_empty() {
        return None;
    }
    let model = Model::of(plan.into(), &pairs, sizes(plan.into())?.into_iter().next()?);
    let mut machine = AbstractMachine::new(&model);
    let mut dataflow = Dataflow::new(&model, None);
    machine.run(&mut dataflow);
    deadlock::check(&machine).is_none().then(|| distance(plan, &dataflow.contents))
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
