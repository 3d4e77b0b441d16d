//! Order of single elements: what the thread of an element acquires from the packets of that element.
//!
//! Operations on packets assign elements to threads by their positions in the ranges, so the thread that writes a
//! packet is the one that has read the packets at the same position before, in the same operation or an earlier one.
//! These packets release the clock of the thread that wrote them, and so on: a *trail*. Clocks record only what all
//! threads of a block have acquired, or those that have read a whole range; trails are searched backward, and only
//! where clocks are not enough.

use std::collections::BTreeSet;
use std::ops::Range;

use super::RaceDetector;
use super::shadow_memory::{NONE, RecordedAccess, ThreadMapping};
use crate::slices;

/// Maximum number of steps that are searched for an order.
const MAX_STEPS: usize = 1 << 10;

/// Maximum number of packets and steps that are searched for the trails of a rank's packets.
const MAX_TRAILS: usize = 1 << 16;

/// Elements of a block's steps up to one of them, counted from the beginning of a step's range.
struct Elements {
    agent: usize,
    step: usize,
    places: Range<u64>,
    /// The address of the first of them in the old access.
    address: u64,
}

impl RaceDetector<'_, '_> {
    /// Returns whether each element's thread has read a packet that orders the old access of the element before it: the
    /// thread that wrote the packet had made the old access before, or had itself read such a packet.
    ///
    /// Ranges need not be equal. Positions in unequal slices that begin within chunks are equal at some sizes only, so
    /// they are not used.
    pub(super) fn follows(&self, old: &RecordedAccess, new: &RecordedAccess, atom: usize) -> bool {
        if old.grain != ThreadMapping::Packet || new.grain != ThreadMapping::Packet || !new.write {
            return false;
        }
        // Not from rank to rank under symmetry reduction: that requires all ranks.
        if self.model.symmetry.is_some() || [old, new].iter().any(|access| self.is_window(access.step as usize)) {
            return false;
        }
        let (positions, begin) = (self.model.atoms.range(atom), self.begin(new));
        let places = positions.start - begin..positions.end - begin;
        let elements =
            Elements { agent: new.agent as usize, step: new.step as usize, places, address: positions.start };
        self.are_ordered(&elements, old, &mut { MAX_STEPS })
    }

    /// Returns whether the ranges of two steps are cut at the same positions of chunks at every size.
    fn are_cut_alike(&self, one: usize, other: usize) -> bool {
        let op = |step: usize| self.model.op(self.model.agent_of(step), step);
        slices::are_cut_alike(op(one), op(other))
    }

    /// Returns the beginning of an access's range in its buffer.
    fn begin(&self, access: &RecordedAccess) -> u64 {
        self.model.atoms.range(access.atoms.0 as usize).start
    }

    /// Returns whether the threads of some elements have read packets that order the old access before them.
    fn are_ordered(&self, elements: &Elements, old: &RecordedAccess, left: &mut usize) -> bool {
        let Elements { agent, step, places, address } = elements;
        let first = self.model.agents[*agent].steps.start;
        for step in (first..=*step).rev() {
            if *left == 0 {
                return false;
            }
            *left -= 1;
            let effects = self.model.effects(step).iter();
            let mut sources = effects.filter(|effect| effect.packets() && !effect.write);
            let is_ordered = self.awaits_packets(step)
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
                            start >= end
                                || self.is_ordered_by_packets(
                                    atom,
                                    start..end,
                                    address + (start - wanted.start),
                                    old,
                                    left,
                                )
                        })
                });
            if is_ordered {
                return true;
            }
        }
        false
    }

    /// Returns whether the threads that wrote some packets had made the old access before, or had acquired it from
    /// packets.
    fn is_ordered_by_packets(
        &self,
        atom: usize,
        packets: Range<u64>,
        address: u64,
        old: &RecordedAccess,
        left: &mut usize,
    ) -> bool {
        let write = self.cells.write(atom);
        if write == NONE || self.written_twice[atom] {
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
            && address - self.begin(old) == places.start
            && self.are_cut_alike(old.step as usize, writer.step as usize);
        if same_threads && old.count <= writer.count {
            return true;
        }
        let (agent, step) = (writer.agent as usize, writer.step as usize);
        self.are_ordered(&Elements { agent, step, places, address }, old, left)
    }

    /// Returns whether each thread waits for the packets that a step reads at its positions: a port moves the bytes
    /// without waiting.
    fn awaits_packets(&self, step: usize) -> bool {
        let at = self.model.step_at(step);
        self.grain(step) == ThreadMapping::Packet && at.kind.awaits_packets(at.port) && !self.ignores_packets(step)
    }

    /// Returns the ranks that have started before the end of a rank's blocks, by the trails of all packets that these
    /// have read: a rank that wrote a packet of a launch has started it.
    pub(super) fn ranks_on_trails(&self, rank: u32) -> BTreeSet<u32> {
        let (mut found, mut seen, mut open) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
        let mut left = MAX_TRAILS;
        for agent in self.model.agents_of[rank as usize].clone() {
            for step in self.model.agents[agent].steps.clone().filter(|step| self.awaits_packets(*step)) {
                for source in self.model.effects(step).iter().filter(|effect| effect.packets() && !effect.write) {
                    open.extend(source.atoms().map(|atom| (atom, self.model.atoms.range(atom))));
                }
            }
        }
        while let Some((atom, packets)) = open.pop() {
            let write = self.cells.write(atom);
            if write == NONE || self.written_twice[atom] || !seen.insert((atom, packets.start, packets.end)) {
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
