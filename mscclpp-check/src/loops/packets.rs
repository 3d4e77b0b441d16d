//! Packets for which thread blocks wait, as far as that is the same at every size.
//!
//! A read of packets waits for their writes. In the full model it waits per byte; here a read waits for *every*
//! operation that writes a part of what it reads, at any size: for more than it has to, so that a plan that runs to its
//! end here always does. (The race rule rejects packets that are written twice in a launch.)
//!
//! 1. An operation outside of loops has written its packets once it is complete, and one in a loop has once the loop is
//!    complete. Packets are never removed.
//! 2. Two operations in loops of equal unit and rate whose ranges have equal bounds and the same slice are in step:
//!    what iteration i reads, iteration i has written. The windows in between are counted.
//! 3. Two other operations in loops overlap in ways that depend on the size; such plans are rejected.
//! 4. What a read waits for covers its range at every size: a range of the same bounds and slice does, and so do ranges
//!    of whole chunks, and slices of which all members write. Anything else is rejected.
//!
//! A port that puts packets does not wait for them, as the race rule proves that they have been written.

use std::collections::BTreeMap;

use super::Obstacle;
use super::rolled::Action;
use crate::access::accesses;
use crate::place::{LocatedOp, each};
use crate::rates::Rate;
use crate::view::View;
use mscclpp_plan::raw::{PlanTree, Slice};
use mscclpp_plan::types::ChannelKind;

/// Dependencies by packets, as additions to a rolled plan.
#[derive(Default)]
pub(super) struct Links {
    pub(super) has_packets: bool,
    /// Number of counters of windows.
    pub(super) windows: u32,
    /// By operation, what it waits for.
    pub(super) before: BTreeMap<Operation, Vec<Action>>,
    /// By operation, the window counters that it increments.
    pub(super) after: BTreeMap<Operation, Vec<u32>>,
}

/// A thread block, the position of an operation in it, and in its pipeline.
type Operation = (u32, u32, Option<u32>);

/// A range of packets that an operation reads or writes.
struct Range<'p> {
    owner: u32,
    /// Chunks: those of the slice if it has whole ones, otherwise those of the whole range.
    start: u64,
    end: u64,
    slice: Option<Slice>,
    write: bool,
    by: Operation,
    /// Unit and rate of its loop.
    windows: Option<(u64, Rate)>,
    at: LocatedOp<'p>,
}

impl Range<'_> {
    fn is_cut_as(&self, other: &Self) -> bool {
        let of = |range: &Self| range.slice.map(|slice| slice.count);
        (self.start, self.end, of(self)) == (other.start, other.end, of(other))
    }

    /// Returns whether two ranges of one buffer may overlap at some size.
    fn may_overlap(&self, other: &Self) -> bool {
        self.start < other.end && other.start < self.end && (!self.is_cut_as(other) || self.slice == other.slice)
    }
}

/// Maximum number of links of a plan, plus this many for each of its ranges.
const MAX_LINKS: usize = 1 << 14;

/// Returns the dependencies between reads and writes of packets.
///
/// # Errors
/// Fails if packets overlap differently at different sizes.
pub(super) fn links(view: View) -> Result<Links, Obstacle> {
    let mut ranges = ranges(view);
    let mut links = Links { has_packets: !ranges.is_empty(), ..Links::default() };
    ranges.sort_by_key(|range| (range.owner, range.start, range.end));
    let (writes, reads): (Vec<_>, Vec<_>) = ranges.into_iter().partition(|range| range.write);
    // By write, the maximum end of it and of those before it in its buffer.
    let mut farthest: Vec<u64> = Vec::with_capacity(writes.len());
    for (i, write) in writes.iter().enumerate() {
        let before = i.checked_sub(1).filter(|&before| writes[before].owner == write.owner);
        farthest.push(before.map_or(write.end, |before| farthest[before].max(write.end)));
    }
    let mut count = MAX_LINKS + 8 * (reads.len() + writes.len());
    for read in &reads {
        let first = writes.partition_point(|write| write.owner < read.owner);
        let last = writes.partition_point(|write| (write.owner, write.start) < (read.owner, read.end));
        let near = (first..last).rev().take_while(|&i| farthest[i] > read.start).map(|i| &writes[i]);
        let mut met = Vec::new();
        for write in near.filter(|write| write.by != read.by && write.may_overlap(read)) {
            count = count.checked_sub(1).ok_or_else(|| obstacle(view.plan, read, "too many other operations"))?;
            met.push(write);
            let before = links.before.entry(read.by).or_default();
            match (read.windows, write.windows) {
                (Some(one), Some(other)) if one == other && read.is_cut_as(write) => {
                    before.push(Action::Lower(links.windows, 1));
                    links.after.entry(write.by).or_default().push(links.windows);
                    links.windows += 1;
                }
                (Some(_), Some(_)) => {
                    let how = format!(
                        "{} ({}), whose windows overlap its own only at some message sizes",
                        write.at.display_name(view.plan),
                        write.at.agent()
                    );
                    return Err(obstacle(view.plan, read, &how));
                }
                _ => before.push(Action::Await(write.by.0, write.by.1)),
            }
        }
        if !cover(read, &met) {
            return Err(obstacle(view.plan, read, "operations that do not write all of them at some message sizes"));
        }
    }
    Ok(links)
}

fn obstacle<'p>(plan: &'p PlanTree, read: &Range<'p>, writers: &str) -> Obstacle<'p> {
    Obstacle {
        at: Some(read.at),
        message: format!("{} ({}) reads packets of {writers}", read.at.display_name(plan), read.at.agent()),
        help: "read packets in the ranges, slices and loops in which they are written".to_owned(),
    }
}

/// Returns all ranges of packets that are written, or for which an operation waits.
fn ranges(view: View) -> Vec<Range> {
    let plan = view.plan;
    let mut ranges = Vec::new();
    let mut firsts = Vec::with_capacity(plan.ranks.len());
    let mut blocks = 0;
    for rank in &plan.ranks {
        firsts.push(blocks);
        blocks += rank.blocks.len() as u32;
    }
    each(view, &mut |at| {
        if !at.op.kind.has_packets() {
            return;
        }
        let by = (firsts[at.rank] + at.block as u32, at.index as u32, at.inside.map(|(inner, _)| inner as u32));
        let body = at.inside.and_then(|(_, pipeline)| pipeline.body.as_ref());
        let windows = body.map(|body| (body.unit, Rate::of(body, 1)));
        let waits = at.op.kind.awaits_packets(at.op.channel == Some(ChannelKind::Port));
        accesses(plan, &at, &mut |effect| {
            if !effect.packets || !(effect.write || waits) {
                return;
            }
            let (start, size) = (u64::from(effect.range.index), u64::from(effect.range.size));
            let (start, end, slice) = match at.op.slice.filter(|slice| slice.count > 1) {
                Some(slice) if size.is_multiple_of(slice.count.into()) => {
                    let part = size / u64::from(slice.count);
                    let start = start + part * u64::from(slice.index);
                    (start, start + part, None)
                }
                slice => (start, start + size, slice),
            };
            ranges.push(Range { owner: effect.owner, start, end, slice, write: effect.write, by, windows, at });
        });
    });
    ranges
}

/// Returns whether the writes cover the range of the read at every size.
fn cover(read: &Range, writes: &[&Range]) -> bool {
    if writes.iter().any(|write| write.is_cut_as(read) && write.slice == read.slice) {
        return true;
    }
    let mut whole: Vec<(u64, u64)> =
        writes.iter().filter(|write| write.slice.is_none()).map(|write| (write.start, write.end)).collect();
    let mut members: BTreeMap<(u64, u64, u32), Vec<u32>> = BTreeMap::new();
    for write in writes {
        if let Some(slice) = write.slice {
            members.entry((write.start, write.end, slice.count)).or_default().push(slice.index);
        }
    }
    for ((start, end, of), mut members) in members {
        members.sort_unstable();
        members.dedup();
        if members.len() == of as usize {
            whole.push((start, end));
        }
    }
    whole.sort_unstable();
    let covered = whole.iter().fold(read.start, |to, &(start, end)| if start <= to { to.max(end) } else { to });
    covered >= read.end
}
