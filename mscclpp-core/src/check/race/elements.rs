//! What the thread of a single element knows from the packets that it has read of it.

use std::ops::Range;

use super::Races;
use super::cells::{Access, Grain, NONE};

/// Steps that are looked at before an order is given up.
const MOST_STEPS: usize = 1 << 10;

/// Elements of a block's steps up to one of them, counted from where the ranges of a step begin.
struct Elements {
    agent: usize,
    step: usize,
    places: Range<u64>,
    /// Where the old access meets the first of them in memory.
    met: u64,
}

impl Races<'_, '_> {
    /// Whether an element's thread has read a packet that says that the old access of the element is over: the thread
    /// that wrote the packet was the one that made the old access before, or had itself read a packet that says so.
    ///
    /// Ranges need not be equal. Operations on packets give elements to threads by their places in the ranges, so the
    /// packet of an element tells what the writer's thread of that very element has done. It is looked for backwards,
    /// and only where nothing else orders the two.
    pub(super) fn follows(&self, old: &Access, new: &Access, atom: usize) -> bool {
        if old.grain != Grain::Packet || new.grain != Grain::Packet || !new.write {
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

    /// Where the range of an access begins in its memory.
    fn begin(&self, access: &Access) -> u64 {
        self.model.atoms.range(access.atoms.0 as usize).start
    }

    /// Whether the threads of some elements have read of the old access in packets.
    fn are_told(&self, elements: &Elements, old: &Access, left: &mut usize) -> bool {
        let Elements { agent, step, places, met } = elements;
        let first = self.model.agents[*agent].steps.start;
        for step in (first..=*step).rev() {
            if *left == 0 {
                return false;
            }
            *left -= 1;
            let effects = self.model.effects(step).iter();
            let mut sources = effects.filter(|effect| effect.packets() && !effect.write);
            let told = self.grain(step) == Grain::Packet
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
    fn tells(&self, atom: usize, packets: Range<u64>, met: u64, old: &Access, left: &mut usize) -> bool {
        let write = self.cells.write(atom);
        if write == NONE || self.rewritten.contains(&atom) {
            return false;
        }
        let writer = &self.accesses[write as usize];
        if writer.grain != Grain::Packet || self.is_window(writer.step as usize) {
            return false;
        }
        let begin = self.begin(writer);
        let places = packets.start - begin..packets.end - begin;
        let same_threads = old.agent == writer.agent && met - self.begin(old) == places.start;
        if same_threads && old.count <= writer.count {
            return true;
        }
        let (agent, step) = (writer.agent as usize, writer.step as usize);
        self.are_told(&Elements { agent, step, places, met }, old, left)
    }
}
