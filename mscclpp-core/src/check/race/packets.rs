//! Packets: what their readers learn from them.

use smallvec::SmallVec;

use super::RaceDetector;
use super::clock::{ClockArena, VectorClock};
use super::every::Windows;
use super::ports::source_side;
use super::shadow_memory::NONE;
use crate::check::model::Access;
use crate::check::slices;
use crate::plan::OpKind;

/// What was heard for which there is room at least when it gets more than there is room for.
const LEAST_ROOM: usize = 7;

/// Entries from which on those of equal length are put together, again whenever there are twice as many.
const MANY: usize = 1 << 10;

/// What the readers of some packets learn to be over.
#[derive(Clone, Copy)]
pub(super) struct PacketClocks {
    /// Whoever reads any.
    pub(super) by_any: VectorClock,
    /// Who reads all.
    pub(super) by_all: WriterClock,
    /// Who reads an element: of what packets take a thread at a time, the element at the same place of its range.
    pub(super) by_element: WriterClock,
}

/// What a writer knew to be over, and what it has done itself.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct WriterClock {
    pub(super) knows: VectorClock,
    /// The writer, and its turns that are over.
    pub(super) own: (u32, u32),
}

impl WriterClock {
    pub(super) fn over(&self, clocks: &ClockArena, agent: u32) -> u32 {
        let own = if self.own.0 == agent { self.own.1 } else { 0 };
        clocks.ordered(self.knows, agent).max(own)
    }
}

/// What a block has learned from packets since the last block sync.
pub(super) struct AcquiredPackets {
    /// Length of the range that it read: as many of its threads know.
    pub(super) length: u64,
    /// What each of them knows.
    pub(super) of_any: VectorClock,
    /// What they know together.
    pub(super) of_all: WriterClock,
    /// What each knows of its element, if its range began where the writer's did.
    pub(super) of_element: WriterClock,
}

/// What all writes share of the ranges of one length, with so much of what was heard since the last block sync.
pub(super) struct Shared {
    pub(super) heard: usize,
    pub(super) length: u64,
    pub(super) all: VectorClock,
    pub(super) element: VectorClock,
}

/// What the threads of ranges of some length surely know, with so much of what was heard since the last block sync.
#[derive(Clone, Copy)]
pub(super) struct Sure {
    pub(super) heard: usize,
    pub(super) length: u64,
    pub(super) knows: VectorClock,
}

impl RaceDetector<'_, '_> {
    /// Puts together what an agent that has heard something surely knows when it writes ranges of some length: reads learn
    /// nothing by it, since what they read they wait for.
    pub(super) fn be_sure(&mut self, by: usize, length: u64) {
        let agent = &self.agents[by];
        let heard = agent.heard.len();
        let (from, knows) = match agent.surely {
            Some(sure) if sure.length == length => (sure.heard, sure.knows),
            _ => (0, agent.knows),
        };
        if from < heard || agent.surely.is_none() {
            let new = agent.heard[from..].iter().filter(|heard| heard.length >= length).map(|heard| heard.of_any);
            let knows = self.clocks.union(new.chain([knows]));
            self.agents[by].surely = Some(Sure { heard, length, knows });
        }
    }

    /// Whether a run ignores the packets of a step, which is by a member that is empty at some sizes.
    pub(super) fn ignores_packets(&self, step: usize) -> bool {
        let op = || self.model.op(self.model.agent_of(step), step);
        self.model.size.is_conservative() && slices::may_be_empty(op())
    }

    /// A block has read packets in a step that an access wrote.
    pub(super) fn hear_packets(&mut self, by: usize, step: usize, effect: &Access, old: u32) {
        let old = &self.accesses[old as usize];
        let Some(&carried) = self.carried.get(old.carries as usize) else { return };
        if self.ignores_packets(step) {
            return;
        }
        let atoms = effect.atoms();
        let all = atoms.start <= old.atoms.0 as usize && old.atoms.1 as usize <= atoms.end;
        let alike = atoms.start == old.atoms.0 as usize && atoms.end <= old.atoms.1 as usize;
        // With more iterations other windows are alike, and those that are read in part are read by others.
        let windows = self.windows_of(by, step, old);
        if windows == Windows::Unknown || windows == Windows::All && !all {
            return;
        }
        // The run's windows are longer than those of many iterations.
        let (all, alike) = (all && windows != Windows::Part, alike && matches!(windows, Windows::Same));
        let length = self.model.length(effect);
        let part = WriterClock { knows: carried.by_any, own: (old.agent, 0) };
        let of_all = if all { carried.by_all } else { part };
        let of_element = if alike { carried.by_element } else { part };
        let away = self.ring.places(effect.shift);
        let of_any = self.clocks.shifted(carried.by_any, away);
        let [of_all, of_element] = [of_all, of_element].map(|told| self.clocks.shifted_told(told, away));
        let known = &mut self.agents[by].heard;
        // Who hears of two mostly hears of all the others, too.
        if known.len() == known.capacity() {
            known.reserve(LEAST_ROOM);
        }
        known.push(AcquiredPackets { length, of_any, of_all, of_element });
        if known.len() >= self.agents[by].many.max(MANY) {
            self.put_together(by);
        }
    }

    /// Puts together what a block has heard from ranges of equal length: as many of its threads know all of it.
    fn put_together(&mut self, by: usize) {
        let mut heard = std::mem::take(&mut self.agents[by].heard);
        heard.sort_by_key(|heard| heard.length);
        let clocks = &mut self.clocks;
        let mut all = |told: &mut dyn Iterator<Item = WriterClock>| {
            let told: Vec<WriterClock> = told.collect();
            WriterClock { knows: clocks.told_once(told.iter().copied()), own: told[0].own }
        };
        let together = heard.chunk_by(|one, other| one.length == other.length).map(|heard| {
            let of_any =
                all(&mut heard.iter().map(|heard| WriterClock { knows: heard.of_any, own: (heard.of_all.own.0, 0) }));
            let of_all = all(&mut heard.iter().map(|heard| heard.of_all));
            let of_element = all(&mut heard.iter().map(|heard| heard.of_element));
            AcquiredPackets { length: heard[0].length, of_any: of_any.knows, of_all, of_element }
        });
        let together: SmallVec<_> = together.collect();
        let agent = &mut self.agents[by];
        agent.many = 2 * together.len();
        agent.heard = together;
        (agent.tells, agent.surely) = (None, None);
    }

    /// Packets are written; where what their readers learn is found among `carried`.
    pub(super) fn written(&mut self, by: usize, step: usize, effect: &Access, turn: u32) -> u32 {
        use OpKind as K;
        let forwards = matches!(self.model.step_at(step).kind, K::ReadPutPackets | K::SwitchBroadcastPackets);
        for atom in effect.atoms() {
            let old = self.cells.write(atom);
            if old == NONE {
                continue;
            }
            // A multicast may write what it reads: then a reader finds the same packet before and after.
            let same = |other: &Access| !other.write && other.atoms() == effect.atoms();
            if forwards && self.model.effects(step).iter().any(same) {
                return self.accesses[old as usize].carries;
            }
            self.rewritten.insert(atom);
        }
        let PacketClocks { by_any, by_all, by_element } = self.carried(by, effect, turn + 1);
        // As the owner of the memory sees it.
        let back = self.ring.back(effect.shift);
        let by_any = self.clocks.shifted(by_any, back);
        let [by_all, by_element] = [by_all, by_element].map(|told| self.clocks.shifted_told(told, back));
        let carried = PacketClocks { by_any, by_all, by_element };
        self.carried.push(carried);
        self.carried.len() as u32 - 1
    }

    /// What the readers of packets learn that are about to be written.
    fn carried(&mut self, by: usize, effect: &Access, done: u32) -> PacketClocks {
        let number = by as u32;
        let by_any = self.agents[by].all_know(number, &mut self.clocks);
        if by >= self.blocks {
            // The arrival side of a port: what arrives has been read, and so has all that was sent before.
            let by_all =
                WriterClock { knows: self.clocks.advance(by_any, source_side(number), done), own: (number, done) };
            let by_element = WriterClock { knows: by_any, own: (number, 0) };
            return PacketClocks { by_any, by_all, by_element };
        }
        // As many threads as write the packets had read those, and done that, before.
        let length = self.model.length(effect);
        let agent = &mut self.agents[by];
        let (from, all, element) = match &agent.tells {
            Some(tells) if tells.length == length => (tells.heard, tells.all, tells.element),
            _ => (0, by_any, by_any),
        };
        let heard = agent.heard[from..].iter();
        let shorter = heard.clone().filter(|heard| heard.length <= length).map(|heard| heard.of_all);
        let all = self.clocks.told(shorter, all);
        // Whoever writes an element had read it.
        let longer = heard.filter(|heard| heard.length >= length).map(|heard| heard.of_element);
        let element = self.clocks.told(longer, element);
        agent.tells = Some(Shared { heard: agent.heard.len(), length, all, element });
        let longer = agent.lengths.iter().find(|(_, other)| *other > length);
        let over = longer.map_or(done, |(begun, _)| *begun);
        PacketClocks {
            by_any,
            by_all: WriterClock { knows: all, own: (number, over) },
            by_element: WriterClock { knows: element, own: (number, done) },
        }
    }
}
