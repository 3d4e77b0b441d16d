//! What the thread of a single element knows from the packets that it has read of it.
//!
//! Operations on packets give elements to threads by their places in the ranges, so the thread that writes a packet is the
//! one that has read those at the same place before, in the same operation or an earlier one. What it has read tells of
//! the thread that wrote that, and so on: a *trail*. Clocks keep only what all threads of a block know, or those that have
//! read a whole range; trails are looked for backwards, and only where clocks do not tell enough.

use std::collections::BTreeSet;
use std::ops::Range;

use super::RaceDetector;
use super::shadow_memory::{NONE, RecordedAccess, ThreadMapping};
use crate::check::slices;
use crate::plan::OpKind;

/// Steps that are looked at before an order is given up.
const MOST_STEPS: usize = 1 << 10;

/// Packets and steps that are looked at before the trails of a rank's packets are given up.
const MOST_TRAILS: usize = 1 << 16;

/// Elements of a block's steps up to one of them, counted from where the ranges of a step begin.
struct Elements {
    agent: usize,
    step: usize,
    places: Range<u64>,
    /// Where the old access meets the first of them in memory.
    met: u64,
}

impl RaceDetector<'_, '_> {
    /// Whether an element's thread has read a packet that says that the old access of the element is over: the thread
    /// that wrote the packet was the one that made the old access before, or had itself read a packet that says so.
    ///
    /// Ranges need not be equal. Places in unequal slices that begin within chunks are equal at some sizes only, so nothing is
    /// concluded from them.
    pub(super) fn follows(&self, old: &RecordedAccess, new: &RecordedAccess, atom: usize) -> bool {
        if old.grain != ThreadMapping::Packet || new.grain != ThreadMapping::Packet || !new.write {
            return false;
        }
        // Not from rank to rank where some stand for others: then it takes a look at all of them.
        if self.model.symmetry.is_some() || [old, new].iter().any(|access| self.is_window(access.step as usize)) {
            return false;
        }
        let (positions, begin) = (self.model.atoms.range(atom), self.begin(new));
        let places = positions.start - begin..positions.end - begin;
        let elements = Elements { agent: new.agent as usize, step: new.step as usize, places, met: positions.start };
        self.are_told(&elements, old, &mut { MOST_STEPS })
    }

    /// Whether the ranges of two steps are cut at the same places of chunks, whatever the size.
    fn are_cut_alike(&self, one: usize, other: usize) -> bool {
        let op = |step: usize| self.model.op(self.model.agent_of(step), step);
        slices::are_cut_alike(op(one), op(other))
    }

    /// Where the range of an access begins in its memory.
    fn begin(&self, access: &RecordedAccess) -> u64 {
        self.model.atoms.range(access.atoms.0 as usize).start
    }

    /// Whether the threads of some elements have read of the old access in packets.
    fn are_told(&self, elements: &Elements, old: &RecordedAccess, left: &mut usize) -> bool {
        let Elements { agent, step, places, met } = elements;
        let first = self.model.agents[*agent].steps.start;
        for step in (first..=*step).rev() {
            if *left == 0 {
                return false;
            }
            *left -= 1;
            let effects = self.model.effects(step).iter();
            let mut sources = effects.filter(|effect| effect.packets() && !effect.write);
            let told = self.awaits_packets(step)
                && self.are_cut_alike(step, elements.step)
                && !self.is_window(step)
                && sources.any(|source| {
                    let range = self.model.range(source);
                    let wanted = range.start + places.start..range.start + places.end;
                    let mut atoms = source.atoms();
                    wanted.end <= range.end
                        && atoms.all(|atom| {
                            let positions = self.model.atoms.range(atom);
                            let (start, end) = (positions.start.max(wanted.start), positions.end.min(wanted.end));
                            start >= end || self.tells(atom, start..end, met + (start - wanted.start), old, left)
                        })
                });
            if told {
                return true;
            }
        }
        false
    }

    /// Whether the threads that wrote some packets had made the old access before, or knew of it from packets.
    fn tells(&self, atom: usize, packets: Range<u64>, met: u64, old: &RecordedAccess, left: &mut usize) -> bool {
        let write = self.cells.write(atom);
        if write == NONE || self.rewritten.contains(&atom) {
            return false;
        }
        let writer = &self.accesses[write as usize];
        let step = writer.step as usize;
        if writer.grain != ThreadMapping::Packet || self.is_window(step) || self.ignores_packets(step) {
            return false;
        }
        let begin = self.begin(writer);
        let places = packets.start - begin..packets.end - begin;
        let same_threads = old.agent == writer.agent
            && met - self.begin(old) == places.start
            && self.are_cut_alike(old.step as usize, writer.step as usize);
        if same_threads && old.count <= writer.count {
            return true;
        }
        let (agent, step) = (writer.agent as usize, writer.step as usize);
        self.are_told(&Elements { agent, step, places, met }, old, left)
    }

    /// Whether each thread waits for the packets that a step reads at its places: a port moves whatever is there.
    fn awaits_packets(&self, step: usize) -> bool {
        let at = self.model.step_at(step);
        self.grain(step) == ThreadMapping::Packet
            && (!at.port || at.kind == OpKind::ReadPutPackets)
            && !self.ignores_packets(step)
    }

    /// The ranks that are known to have begun when a rank's blocks are done, by the trails of all packets that these have
    /// read: whoever wrote a packet of a launch has begun it.
    pub(super) fn ranks_on_trails(&self, rank: u32) -> BTreeSet<u32> {
        let (mut found, mut seen, mut open) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
        let mut left = MOST_TRAILS;
        for agent in self.model.agents_of[rank as usize].clone() {
            for step in self.model.agents[agent].steps.clone().filter(|step| self.awaits_packets(*step)) {
                for source in self.model.effects(step).iter().filter(|effect| effect.packets() && !effect.write) {
                    open.extend(source.atoms().map(|atom| (atom, self.model.atoms.range(atom))));
                }
            }
        }
        while let Some((atom, packets)) = open.pop() {
            let write = self.cells.write(atom);
            if write == NONE || self.rewritten.contains(&atom) || !seen.insert((atom, packets.start, packets.end)) {
                continue;
            }
            let writer = &self.accesses[write as usize];
            if self.ignores_packets(writer.step as usize) {
                continue;
            }
            let agent = &self.model.agents[self.model.agent_of(writer.step as usize)];
            found.insert(agent.rank as u32);
            if writer.grain != ThreadMapping::Packet {
                continue;
            }
            let begin = self.begin(writer);
            let places = packets.start - begin..packets.end - begin;
            for step in agent.steps.start..=writer.step as usize {
                if left == 0 {
                    return found;
                }
                left -= 1;
                if !self.awaits_packets(step) {
                    continue;
                }
                for source in self.model.effects(step).iter().filter(|effect| effect.packets() && !effect.write) {
                    let range = self.model.range(source);
                    let wanted = range.start + places.start..(range.start + places.end).min(range.end);
                    for atom in source.atoms() {
                        let positions = self.model.atoms.range(atom);
                        let (start, end) = (positions.start.max(wanted.start), positions.end.min(wanted.end));
                        if start < end {
                            open.push((atom, start..end));
                        }
                        left = left.saturating_sub(1);
                    }
                }
            }
        }
        found
    }
}
