//! Packets, and the clocks that their readers acquire.

use smallvec::SmallVec;

use super::RaceDetector;
use super::clock::{ClockArena, VectorClock};
use super::every::Windows;
use super::ports::source_side;
use super::shadow_memory::NONE;
use crate::model::{Access, Model};
use crate::slices;

/// Minimum additional capacity of a list of acquired packets that is full.
const MIN_CAPACITY: usize = 7;

/// Number of entries from which those of equal length are merged, again whenever there are twice as many.
const MANY: usize = 1 << 10;

/// Clocks that the readers of some packets acquire.
#[derive(Clone, Copy)]
pub(super) struct PacketClocks {
    /// A reader of any of the packets.
    pub(super) by_any: VectorClock,
    /// A reader of all of them.
    pub(super) by_all: WriterClock,
    /// A reader of one element: of packets that one thread writes, the element at the same position of the range.
    pub(super) by_element: WriterClock,
}

/// The clock of a writer, and its own timestamp.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct WriterClock {
    pub(super) clock: VectorClock,
    /// The writer, and its timestamps that happen before.
    pub(super) own: (u32, u32),
}

impl WriterClock {
    pub(super) fn over(&self, clocks: &ClockArena, agent: u32) -> u32 {
        let own = if self.own.0 == agent { self.own.1 } else { 0 };
        clocks.ordered(self.clock, agent).max(own)
    }
}

/// What a block has acquired from packets since the last block sync.
pub(super) struct AcquiredPackets {
    /// Length of the range that it read: as many of its threads have acquired this.
    pub(super) length: u64,
    /// Acquired by each of them.
    pub(super) of_any: VectorClock,
    /// Acquired by them together.
    pub(super) of_all: WriterClock,
    /// Acquired by each for its element, if its range began where the writer's did.
    pub(super) of_element: WriterClock,
}

/// The clocks that all writes of ranges of one length release, given how many entries have been acquired since the last
/// block sync.
pub(super) struct Shared {
    pub(super) acquired: usize,
    pub(super) length: u64,
    pub(super) all: VectorClock,
    pub(super) element: VectorClock,
}

/// The clock of the threads of ranges of some length in every schedule, given how many entries have been acquired since
/// the last block sync.
#[derive(Clone, Copy)]
pub(super) struct CertainClock {
    pub(super) acquired: usize,
    pub(super) length: u64,
    pub(super) clock: VectorClock,
}

/// Returns, by atom, whether packets are written there more than once; nothing if the plan has no packets.
pub(super) fn written_twice(model: &Model) -> Vec<bool> {
    if !model.has_packets() {
        return Vec::new();
    }
    let (mut once, mut twice) = (vec![false; model.atoms.count()], vec![false; model.atoms.count()]);
    let steps = model.agents.iter().flat_map(|agent| agent.steps.clone());
    for effect in steps.flat_map(|step| model.effects(step)).filter(|effect| effect.write && effect.packets()) {
        for atom in effect.atoms() {
            twice[atom] |= std::mem::replace(&mut once[atom], true);
        }
    }
    twice
}

impl RaceDetector<'_, '_> {
    /// Merges what an agent that has read packets has acquired for certain when it writes ranges of some length: reads
    /// do not need it, since they wait for what they read.
    pub(super) fn merge_certain(&mut self, by: usize, length: u64) {
        let agent = &self.agents[by];
        let acquired = agent.acquired.len();
        let (from, clock) = match agent.certain_clock {
            Some(certain) if certain.length == length => (certain.acquired, certain.clock),
            _ => (0, agent.clock),
        };
        if from < acquired || agent.certain_clock.is_none() {
            let new = agent.acquired[from..]
                .iter()
                .filter(|acquired| acquired.length >= length)
                .map(|acquired| acquired.of_any);
            let clock = self.clocks.union(new.chain([clock]));
            self.agents[by].certain_clock = Some(CertainClock { acquired, length, clock });
        }
    }

    /// Returns whether an execution ignores the packets of a step, because its member is empty at some sizes.
    pub(super) fn ignores_packets(&self, step: usize) -> bool {
        let op = || self.model.op(self.model.agent_of(step), step);
        self.model.size.is_conservative() && slices::may_be_empty(op())
    }

    /// A block has read, in a step, packets that an access wrote.
    pub(super) fn read_packets(&mut self, by: usize, step: usize, effect: &Access, old: u32) {
        let old = &self.accesses[old as usize];
        let Some(&packet_clocks) = self.packet_clocks.get(old.packet_clock as usize) else { return };
        if self.ignores_packets(step) {
            return;
        }
        let atoms = effect.atoms();
        let all = atoms.start <= old.atoms.0 as usize && old.atoms.1 as usize <= atoms.end;
        let alike = atoms.start == old.atoms.0 as usize && atoms.end <= old.atoms.1 as usize;
        // With more iterations other windows are equal, and packets that are read in part are read by others.
        let windows = self.windows_of(by, step, old);
        if windows == Windows::Unknown || windows == Windows::All && !all {
            return;
        }
        // The windows of this execution are longer than those with many iterations.
        let (all, alike) = (all && windows != Windows::Part, alike && matches!(windows, Windows::Same));
        let length = self.model.length(effect);
        let part = WriterClock { clock: packet_clocks.by_any, own: (old.agent, 0) };
        let of_all = if all { packet_clocks.by_all } else { part };
        let of_element = if alike { packet_clocks.by_element } else { part };
        let away = self.ring.places(effect.shift);
        let of_any = self.clocks.shifted(packet_clocks.by_any, away);
        let [of_all, of_element] = [of_all, of_element].map(|writers| self.clocks.shifted_writer(writers, away));
        let known = &mut self.agents[by].acquired;
        // A block that acquires from two packets mostly acquires from all the others, too.
        if known.len() == known.capacity() {
            known.reserve(MIN_CAPACITY);
        }
        known.push(AcquiredPackets { length, of_any, of_all, of_element });
        if known.len() >= self.agents[by].merge_threshold.max(MANY) {
            self.merge_acquired(by);
        }
    }

    /// Merges what a block has acquired from ranges of equal length: as many of its threads have acquired all of it.
    fn merge_acquired(&mut self, by: usize) {
        let mut acquired = std::mem::take(&mut self.agents[by].acquired);
        acquired.sort_by_key(|acquired| acquired.length);
        let clocks = &mut self.clocks;
        let mut all = |writers: &mut dyn Iterator<Item = WriterClock>| {
            let writers: Vec<WriterClock> = writers.collect();
            WriterClock { clock: clocks.union_of_writers_uncached(writers.iter().copied()), own: writers[0].own }
        };
        let together = acquired.chunk_by(|one, other| one.length == other.length).map(|acquired| {
            let of_any = all(&mut acquired
                .iter()
                .map(|acquired| WriterClock { clock: acquired.of_any, own: (acquired.of_all.own.0, 0) }));
            let of_all = all(&mut acquired.iter().map(|acquired| acquired.of_all));
            let of_element = all(&mut acquired.iter().map(|acquired| acquired.of_element));
            AcquiredPackets { length: acquired[0].length, of_any: of_any.clock, of_all, of_element }
        });
        let together: SmallVec<_> = together.collect();
        let agent = &mut self.agents[by];
        agent.merge_threshold = 2 * together.len();
        agent.acquired = together;
        (agent.released, agent.certain_clock) = (None, None);
    }

    /// Records a write of packets. Returns the index in `packet_clocks` of what their readers acquire.
    pub(super) fn written(&mut self, by: usize, effect: &Access, turn: u32) -> u32 {
        for atom in effect.atoms() {
            if self.cells.write(atom) != NONE {
                self.rewritten.insert(atom);
            }
        }
        let PacketClocks { by_any, by_all, by_element } = self.packet_clocks(by, effect, turn + 1);
        // In the numbering of the owner of the buffer.
        let back = self.ring.back(effect.shift);
        let by_any = self.clocks.shifted(by_any, back);
        let [by_all, by_element] = [by_all, by_element].map(|writers| self.clocks.shifted_writer(writers, back));
        let packet_clocks = PacketClocks { by_any, by_all, by_element };
        self.packet_clocks.push(packet_clocks);
        self.packet_clocks.len() as u32 - 1
    }

    /// Returns the index in `packet_clocks` of what the readers of packets acquire that are about to be replaced by equal
    /// ones: a reader finds the same packet before and after. [`NONE`] if several operations have written them, or one
    /// has written more.
    pub(super) fn rewritten_alike(&self, atoms: (u32, u32)) -> u32 {
        let write = self.cells.write(atoms.0 as usize);
        let old = self.accesses.get(write as usize).filter(|old| old.atoms == atoms);
        let is_whole = (atoms.0..atoms.1).all(|atom| self.cells.write(atom as usize) == write);
        old.filter(|_| is_whole).map_or(NONE, |old| old.packet_clock)
    }

    /// Returns the clocks that packets which are about to be written release.
    fn packet_clocks(&mut self, by: usize, effect: &Access, done: u32) -> PacketClocks {
        let number = by as u32;
        let by_any = self.agents[by].clock_of_all_threads(number, &mut self.clocks);
        if by >= self.blocks {
            // The arrival side of a port: the source of a put that has arrived was read, and so were those of all
            // earlier puts.
            let by_all =
                WriterClock { clock: self.clocks.advance(by_any, source_side(number), done), own: (number, done) };
            let by_element = WriterClock { clock: by_any, own: (number, 0) };
            return PacketClocks { by_any, by_all, by_element };
        }
        // As many threads as write the packets had read those before, and had executed those accesses.
        let length = self.model.length(effect);
        let agent = &mut self.agents[by];
        let (from, all, element) = match &agent.released {
            Some(released) if released.length == length => (released.acquired, released.all, released.element),
            _ => (0, by_any, by_any),
        };
        let acquired = agent.acquired[from..].iter();
        let shorter = acquired.clone().filter(|acquired| acquired.length <= length).map(|acquired| acquired.of_all);
        let all = self.clocks.union_of_writers(shorter, all);
        // The thread that writes an element had read it.
        let longer = acquired.filter(|acquired| acquired.length >= length).map(|acquired| acquired.of_element);
        let element = self.clocks.union_of_writers(longer, element);
        agent.released = Some(Shared { acquired: agent.acquired.len(), length, all, element });
        let longer = agent.lengths.iter().find(|(_, other)| *other > length);
        let over = longer.map_or(done, |(begun, _)| *begun);
        PacketClocks {
            by_any,
            by_all: WriterClock { clock: all, own: (number, over) },
            by_element: WriterClock { clock: element, own: (number, done) },
        }
    }
}
