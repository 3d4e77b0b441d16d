//! Reasons why a mutant may be equivalent to its original plan.

use mscclpp_core::plan::raw::{Op, OpKind, PlanTree};

use super::mutants::{Mutation, Operator, op_at};

/// Returns the reason, by the kind of change and the operations around it. It is a guess: only the fuzzer's result
/// shows that the mutant is equivalent.
pub(crate) fn of(plan: &PlanTree, mutation: &Mutation) -> String {
    use Operator as O;
    let at = mutation.at;
    let Some(op) = op_at(plan, at) else { return "a table that nothing uses".into() };
    let block = &plan.ranks[at.rank].blocks[at.block].ops;
    let (ops, index) = match at.inner {
        None => (block.as_slice(), at.index),
        Some(inner) => (block[at.index].body.as_ref().map_or(&[][..], |body| body.ops.as_slice()), inner),
    };
    let is_sync = |op: &Op| matches!(op.kind, OpKind::Nop | OpKind::Barrier);
    let behind = || ops[index + 1..].iter().any(|op| op.kind.is_data());
    let reason = match mutation.operator {
        O::DropSync => {
            // The operations between which the sync is.
            let before = ops[..index].iter().rev().take_while(|op| !is_sync(op));
            let after = ops[index + 1..].iter().take_while(|op| !is_sync(op));
            let (data_before, data_after) = (before.clone().any(is_data), after.clone().any(is_data));
            let (some_before, some_after) = (before.count() > 0, after.count() > 0);
            match (some_before && some_after, data_before, data_after) {
                (false, ..) if at.inner.is_none() => {
                    "a block sync at the edge of a block's program, or next to another one"
                }
                (_, true, true) => "a block sync between data operations that share nothing, or by equal threads",
                (_, false, false) => "a block sync between control operations",
                (_, true, false) => "a block sync in front of a signal that tells of nothing before it",
                (_, false, true) => "a block sync behind a wait for which nothing behind it needs to wait",
            }
        }
        O::Swap => {
            let next = &ops[index + 1];
            match (is_sync(op) || is_sync(next), op.kind.is_data(), next.kind.is_data()) {
                (true, true, _) | (true, _, true) => "a data operation on the other side of a block sync",
                (true, ..) => "a control operation on the other side of a block sync",
                (_, true, true) => "data operations in another order",
                (_, false, false) => "control operations in another order",
                _ => "a control operation on the other side of a data operation of other threads",
            }
        }
        O::Duplicate if op.kind == OpKind::Flush => "a flush that finds nothing to wait for",
        O::Duplicate => "data moved twice to where it is anyway",
        O::Weaken if behind() => "a relaxed handshake that tells what is over",
        O::Weaken => "a relaxed closing handshake",
        O::Buffer if plan.collective.in_place => "in place, input and output are one memory",
        O::Buffer => "the same data from other memory",
        O::Group | O::Size => "more data moved than is needed",
        O::Drop | O::Channel | O::Flush if matches!(op.kind, OpKind::Flush | OpKind::PutWithSignalAndFlush) => {
            "a flush whose work an acknowledgement does as well"
        }
        O::Drop => "data that is there already",
        O::Split | O::Merge => "loops of equal windows, in which nothing depends on what comes between",
        O::MoveOut | O::MoveIn | O::Rotate => {
            "an operation that may be done in another iteration, or for the whole range"
        }
        O::Peel => "data moved as a whole beside its windows",
        O::LoopOrder => "loops that do not depend on each other",
        O::Span | O::Loop => "windows of another size, as many as before or without anybody who counts them",
        O::Peer | O::Index | O::Channel => "the same data at another place",
        _ => "counts that nothing depends on",
    };
    reason.to_owned()
}

fn is_data(op: &Op) -> bool {
    op.kind.is_data()
}
