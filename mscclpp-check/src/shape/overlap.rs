//! Operands of one operation that overlap.

use smallvec::SmallVec;

use super::operation::{Verdict, bad};
use crate::access::accesses;
use crate::place::{LocatedOp, canonical_buffer};
use mscclpp_plan::diag::Code;
use mscclpp_plan::raw::PlanTree;
use mscclpp_plan::types::{BufferKind, ChannelKind};

/// Maximum number of operands of an operation that are compared pairwise.
const MAX_PAIRED: usize = 12;

/// Checks that a written operand does not partly overlap any other operand: threads move elements unordered, so that a
/// thread has the same elements only of equal ranges. The pairs of a port operation are posted by different threads, so
/// nothing may overlap at all.
pub(super) fn check(plan: &PlanTree, at: &LocatedOp) -> Verdict {
    let op = at.op;
    // Most operations have one local operand and one in another rank's memory or in another buffer.
    if let ([src], [dst]) = (&op.srcs[..], &op.dsts[..]) {
        let in_place = plan.collective.in_place;
        let apart = |(a, b)| a != b && (!in_place || a == BufferKind::Scratch || b == BufferKind::Scratch);
        if src.is_remote() || dst.is_remote() || src.local_buffer().zip(dst.local_buffer()).is_some_and(apart) {
            return Ok(());
        }
    }
    let port = op.channel == Some(ChannelKind::Port);
    let mut all: SmallVec<[OperandAccess; MAX_PAIRED]> = SmallVec::new();
    accesses(plan, at, &mut |effect| {
        let (buffer, start) = canonical_buffer(plan, effect.owner, effect.buffer, effect.range.index);
        let end = u64::from(start) + u64::from(effect.range.size);
        let memory = (effect.owner, buffer, effect.packets);
        all.push(OperandAccess { memory, start: start.into(), end, writes: effect.write });
    });
    // With few operands, each written one is compared with all.
    let mut written = all.iter().enumerate().filter(|(_, access)| access.writes);
    let collides = |(i, one): (usize, &OperandAccess)| {
        let mut others = all.iter().enumerate().filter(|(j, other)| *j != i && other.memory == one.memory);
        others.any(|(_, other)| match (one.start, one.end) == (other.start, other.end) {
            true => port && other.writes,
            false => one.start < other.end && other.start < one.end,
        })
    };
    if all.len() <= MAX_PAIRED && !written.any(collides) {
        return Ok(());
    }
    all.sort_unstable();
    if port && let Some(pair) = all.windows(2).find(|pair| pair[0] == pair[1] && pair[0].writes) {
        return unordered(&pair[0], &pair[1]);
    }
    all.dedup_by(|new, old| {
        let same = (new.memory, new.start, new.end) == (old.memory, old.start, old.end);
        old.writes |= same && new.writes;
        same
    });
    // The operands with the largest end so far: of all, and of the written ones.
    let mut largest_ends: [Option<OperandAccess>; 2] = [None; 2];
    for new in all {
        let against = &largest_ends[usize::from(!new.writes)];
        if let Some(old) = against.filter(|old| old.memory == new.memory && new.start < old.end) {
            return unordered(&old, &new);
        }
        for (slot, counts) in largest_ends.iter_mut().zip([true, new.writes]) {
            if counts && slot.is_none_or(|old| old.memory != new.memory || old.end < new.end) {
                *slot = Some(new);
            }
        }
    }
    Ok(())
}

fn unordered(one: &OperandAccess, other: &OperandAccess) -> Verdict {
    let (owner, buffer, _) = one.memory;
    bad(Code::OverlappingCopy, format!("{one} and {other} of the {buffer} of rank {owner}, unordered"))
}

/// An operand's access: owner, buffer, whether packets; chunks; whether it is written. The sweep uses this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct OperandAccess {
    memory: (u32, BufferKind, bool),
    start: u64,
    end: u64,
    writes: bool,
}

impl std::fmt::Display for OperandAccess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let does = if self.writes { "writes" } else { "reads" };
        write!(f, "{does} chunks {}..{}", self.start, self.end)
    }
}
