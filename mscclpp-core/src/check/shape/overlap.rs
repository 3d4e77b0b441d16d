//! Ranges of one operation that overlap.

use smallvec::SmallVec;

use super::operation::{Verdict, bad};
use crate::check::access::accesses;
use crate::check::place::{LocatedOp, canonical_buffer};
use crate::diag::Code;
use crate::plan::PlanTree;
use crate::types::{BufferKind, ChannelKind};

/// Ranges of an operation that are compared one by one.
const MOST_PAIRED: usize = 12;

/// What an operation writes overlaps nothing else of it partly: threads move elements in no order, so that only of equal
/// ranges each thread has the same elements. Ports are given their pairs by different threads, so nothing may overlap at all.
pub(super) fn check(plan: &PlanTree, at: &LocatedOp) -> Verdict {
    let op = at.op;
    // What has a single reference here and a single one on another rank, or in another buffer, is most of most plans.
    if let ([src], [dst]) = (&op.srcs[..], &op.dsts[..]) {
        let in_place = plan.collective.in_place;
        let apart = |(a, b)| a != b && (!in_place || a == BufferKind::Scratch || b == BufferKind::Scratch);
        if src.is_remote() || dst.is_remote() || src.local_buffer().zip(dst.local_buffer()).is_some_and(apart) {
            return Ok(());
        }
    }
    let port = op.channel == Some(ChannelKind::Port);
    let mut all: SmallVec<[Touched; MOST_PAIRED]> = SmallVec::new();
    accesses(plan, at, &mut |effect| {
        let (buffer, start) = canonical_buffer(plan, effect.owner, effect.buffer, effect.range.index);
        let end = u64::from(start) + u64::from(effect.range.size);
        let memory = (effect.owner, buffer, effect.packets);
        all.push(Touched { memory, start: start.into(), end, writes: effect.write });
    });
    // Of few, each written one is held against all.
    let mut written = all.iter().enumerate().filter(|(_, touched)| touched.writes);
    let collides = |(i, one): (usize, &Touched)| {
        let mut others = all.iter().enumerate().filter(|(j, other)| *j != i && other.memory == one.memory);
        others.any(|(_, other)| match (one.start, one.end) == (other.start, other.end) {
            true => port && other.writes,
            false => one.start < other.end && other.start < one.end,
        })
    };
    if all.len() <= MOST_PAIRED && !written.any(collides) {
        return Ok(());
    }
    all.sort_unstable();
    if port && let Some(pair) = all.windows(2).find(|pair| pair[0] == pair[1] && pair[0].writes) {
        return in_no_order(&pair[0], &pair[1]);
    }
    all.dedup_by(|new, old| {
        let same = (new.memory, new.start, new.end) == (old.memory, old.start, old.end);
        old.writes |= same && new.writes;
        same
    });
    // Of what has been met, what reaches farthest: of all, and of the writes.
    let mut farthest: [Option<Touched>; 2] = [None; 2];
    for new in all {
        let against = &farthest[usize::from(!new.writes)];
        if let Some(old) = against.filter(|old| old.memory == new.memory && new.start < old.end) {
            return in_no_order(&old, &new);
        }
        for (slot, counts) in farthest.iter_mut().zip([true, new.writes]) {
            if counts && slot.is_none_or(|old| old.memory != new.memory || old.end < new.end) {
                *slot = Some(new);
            }
        }
    }
    Ok(())
}

fn in_no_order(one: &Touched, other: &Touched) -> Verdict {
    let (owner, buffer, _) = one.memory;
    bad(Code::OverlappingCopy, format!("{one} and {other} of the {buffer} of rank {owner}, unordered"))
}

/// What an operation touches: owner, buffer, whether packets; chunks; whether it writes. The order is that of the sweep.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Touched {
    memory: (u32, BufferKind, bool),
    start: u64,
    end: u64,
    writes: bool,
}

impl std::fmt::Display for Touched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let does = if self.writes { "writes" } else { "reads" };
        write!(f, "{does} chunks {}..{}", self.start, self.end)
    }
}
