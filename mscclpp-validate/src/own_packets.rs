//! Reads back which packets of ranks to themselves an executor has elided: finds the operations that are not executed, and writes
//! the plan without them, with reductions of what they packed.

use std::borrow::Cow;
use std::collections::BTreeSet;

use mscclpp_core::check::check;
use mscclpp_core::plan::raw::{Op, OpKind, Operand, Packets, PlanTree};

use super::{ValidationError, rejected, results};
use mscclpp_base::error::path;
use mscclpp_base::interpret::{Block, ResolvedPlan, Space};

/// Returns the plan without the elided operations, and numbers the operations of the resolved plan as there.
///
/// # Errors
/// [`ValidationError::Changed`] if a reduction combines its sources in another order.
pub(super) fn without_own_packets<'p>(
    plan: &'p PlanTree,
    program: &mut ResolvedPlan,
) -> Result<Cow<'p, PlanTree>, ValidationError> {
    let mut executed = Cow::Borrowed(plan);
    for code in program.agents.clone() {
        let ops = plan.ranks.get(code.rank as usize).and_then(|rank| rank.blocks.get(code.block as usize));
        let Some(ops) = ops.map(|block| &block.ops) else { continue };
        // Operations are numbered with those of loops.
        if ops.iter().any(|op| op.body.is_some()) {
            check_orders(program, &code, |_| None)?;
            continue;
        }
        let known: BTreeSet<u32> = (code.start..code.end).map(|at| program.instrs[at as usize].op).collect();
        // Block syncs between them, too.
        let is_elided = |number: u32| {
            let kind = ops.get(number as usize).map(|op| op.kind);
            !known.contains(&number) && matches!(kind, Some(OpKind::CopyPackets | OpKind::UnpackPackets | OpKind::Nop))
        };
        let sources = |number: u32| ops.get(number as usize).and_then(|op| sources(ops, number, op, &is_elided));
        check_orders(program, &code, |number| sources(number).map(|(_, position)| position))?;
        let elided: Vec<u32> = (0..ops.len() as u32).filter(|&number| is_elided(number)).collect();
        if elided.iter().all(|&number| ops[number as usize].kind == OpKind::Nop) {
            continue;
        }
        let changed = (0..).zip(ops).filter(|&(number, _)| !is_elided(number)).map(|(number, op)| {
            let mut op = op.clone();
            if let Some((srcs, _)) = sources(number) {
                op.srcs = srcs.into_iter().collect();
            }
            op
        });
        executed.to_mut().ranks[code.rank as usize].blocks[code.block as usize].ops = changed.collect();
        for instr in &mut program.instrs[code.start as usize..code.end as usize] {
            instr.op -= elided.partition_point(|&number| number < instr.op) as u32;
        }
    }
    Ok(executed)
}

/// Fails unless the checker accepts the plan without the elided operations, and its results are those of the plan.
pub(super) fn prove(plan: &PlanTree, executed: &PlanTree) -> Result<(), ValidationError> {
    if plan == executed {
        return Ok(());
    }
    rejected(check(executed))?;
    results::compare(plan, executed)
}

/// Returns the sources of a reduction of packets in the plan's order, the plain one first, and the position at which the plain one
/// is combined. A source that an elided operation has written is the source of that operation.
fn sources(ops: &[Op], number: u32, op: &Op, is_elided: &dyn Fn(u32) -> bool) -> Option<(Vec<Operand>, usize)> {
    if !op.kind.is_reduce() || op.kind.srcs().packets != Packets::Rest {
        return None;
    }
    let (plain, packets) = op.srcs.split_first()?;
    let before = || (0..number).rev().filter(|&other| is_elided(other)).map(|other| &ops[other as usize]);
    let writer = |kind: OpKind, to: &Operand| {
        before().find(|other| other.kind == kind && other.slice == op.slice && other.dsts[..] == [*to])
    };
    // Packets first, as executors combine them.
    let mut sources: Vec<(Operand, bool)> = packets.iter().map(|&packets| (packets, true)).collect();
    sources.push(match writer(OpKind::UnpackPackets, plain) {
        Some(unpack) => (unpack.srcs[0], true),
        None => (*plain, false),
    });
    for source in &mut sources {
        if let Some(pack) = writer(OpKind::CopyPackets, &source.0).filter(|_| source.1) {
            *source = (pack.srcs[0], false);
        }
    }
    let position = sources.iter().position(|(_, is_packets)| !is_packets)?;
    let (plain, _) = sources.remove(position);
    Some((std::iter::once(plain).chain(sources.into_iter().map(|(source, _)| source)).collect(), position))
}

/// Fails unless each reduction of packets combines its plain source at the position that the plan demands, by default the last one.
fn check_orders(
    program: &ResolvedPlan,
    code: &Block,
    position: impl Fn(u32) -> Option<usize>,
) -> Result<(), ValidationError> {
    for at in code.start..code.end {
        let instr = &program.instrs[at as usize];
        let srcs = program.srcs(instr);
        if !instr.kind.is_reduce() || srcs.iter().all(|src| src.space != Space::Packets) {
            continue;
        }
        let expected = position(instr.op).unwrap_or(srcs.len().saturating_sub(1));
        let plain: Vec<usize> = (0..srcs.len()).filter(|&number| srcs[number].space != Space::Packets).collect();
        if plain != [expected] {
            let what = format!("combines its plain sources at the positions {plain:?}, expected {expected}");
            return Err(ValidationError::changed(path(code.rank, code.block, instr.op, instr.kind), what));
        }
    }
    Ok(())
}

/// Returns the sources of an instruction in the order in which plans list them: of a reduction of packets the plain one first.
pub(super) fn listed(kind: OpKind, srcs: &[mscclpp_base::interpret::Operand]) -> Vec<mscclpp_base::interpret::Operand> {
    let mut listed = srcs.to_vec();
    if kind.is_reduce() && kind.srcs().packets == Packets::Rest {
        listed.sort_by_key(|src| src.space == Space::Packets);
    }
    listed
}
