//! Transfers that change nothing: the destination holds the same data already. They are no mistake, and cost time.

use super::Dataflow;
use super::values::{Node, UNKNOWN};
use crate::execute::{runs_to_its_end, with_first_model};
use crate::machine::Observer;
use crate::model::{Model, memory_number};
use crate::place::LocatedOp;
use crate::view::View;
use mscclpp_plan::diag::{Code, Diagnostic};
use mscclpp_plan::raw::{Function, OpKind, PlanTree};

/// Maximum number of operations of a plan that is examined, since it is executed once more.
const MAX_OPERATIONS: usize = 1 << 12;

/// Returns a warning about the first transfer that changes nothing, with the number of further ones.
pub(crate) fn redundant_transfer(plan: &PlanTree) -> Option<Diagnostic> {
    let view = View::from(plan);
    if view.operations() > MAX_OPERATIONS {
        return None;
    }
    with_first_model(view, |model| {
        let mut transfers = Transfers { dataflow: Dataflow::new(model, None), first: None, more: 0 };
        if !runs_to_its_end(model, &mut transfers) {
            return None;
        }
        let (at, destination) = transfers.first?;
        let more = match transfers.more {
            0 => String::new(),
            more => format!(" (and {more} similar)"),
        };
        let message = format!(
            "{} ({}) writes to {destination} the data that is there already{more}",
            at.display_name(plan),
            at.agent()
        );
        let finding = Diagnostic::new(Code::RedundantTransfer, at.site(plan), message);
        Some(finding.help("remove the transfer, or allow `redundant_transfer`"))
    })
}

/// Observes the data at the destinations of transfers, before and after each.
struct Transfers<'p> {
    dataflow: Dataflow<'p>,
    first: Option<(LocatedOp<'p>, String)>,
    more: u64,
}

impl Transfers<'_> {
    /// Returns the values at the destinations of a step; `None` if a part of them is not initialized, or in packets,
    /// which every launch writes anew.
    fn destinations(&self, model: &Model, step: usize) -> Option<Vec<(Node, u64, u64)>> {
        let (mut values, mut known) = (Vec::new(), true);
        for effect in model.effects(step).iter().filter(|effect| effect.write) {
            known &= !effect.packets();
            let memory = memory_number(effect.owner, effect.memory);
            self.dataflow.contents.memories.read(memory, model.range(effect), |_, piece| match piece {
                Some(piece) if piece.node != UNKNOWN => values.push((piece.node, piece.at, piece.len)),
                _ => known = false,
            });
        }
        (known && !values.is_empty()).then_some(values)
    }
}

impl<'p> Observer<'p> for Transfers<'p> {
    fn on_step(&mut self, model: &Model<'p>, agent: usize, step: usize) {
        let kind = model.step_at(step).kind;
        // The packets of all ranks are unpacked by one operation, the rank's own included.
        let is_transfer = kind.function() == Some(Function::Copy) && kind != OpKind::UnpackPackets;
        let is_transfer = is_transfer && !self.dataflow.contents.is_spent();
        let before = if is_transfer { self.destinations(model, step) } else { None };
        self.dataflow.on_step(model, agent, step);
        if before.is_none() || before != self.destinations(model, step) {
            return;
        }
        if self.first.is_some() {
            self.more += 1;
        } else if let Some(effect) = model.effects(step).iter().find(|effect| effect.write) {
            let chunk = model.range(effect).start / model.size.chunk().max(1);
            let destination = format!("{} chunk {chunk} of rank {}", effect.memory.buffer(), effect.owner);
            self.first = Some((model.placed(agent, step), destination));
        }
    }

    fn on_barrier(&mut self, _: u32, _: &[usize]) {}
}
