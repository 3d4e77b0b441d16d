//! Accesses to memory, and which earlier ones they conflict with.

use super::RaceDetector;
use super::report::{self, Known};
use super::shadow_memory::{First, MAX_COMPARED_READS, NONE, RecordedAccess, ThreadMapping};
use crate::MAX_FINDINGS;
use crate::conditions::{Condition, applies};
use crate::model::{Access, Model};
use mscclpp_plan::raw::{Flow, Grain, OpKind};

/// Bytes that one thread moves at a time in operations on plain data: where chunks begin at multiples of it, equal
/// ranges are assigned to equal threads.
const VECTOR_BYTES: u32 = 16;

impl RaceDetector<'_, '_> {
    /// Executes a data operation of a block, given the agent's timestamp at its begin.
    pub(super) fn access_operands(&mut self, agent: usize, step: usize, begun: u32) {
        let model = self.model;
        let kind = model.step_at(step).kind;
        for effect in model.effects(step) {
            self.access(agent, agent, step, effect, begun + turn(kind, effect));
        }
        if model.has_packets() {
            // How much of a slice is left for a window depends on the size.
            let length =
                |effect: &Access| if self.has_unknown_windows(agent, step) { u64::MAX } else { model.length(effect) };
            let longest = model.effects(step).iter().map(length).max().unwrap_or(0);
            let lengths = &mut self.agents[agent].lengths;
            if lengths.last().is_none_or(|(_, length)| longest > *length) {
                lengths.push((begun, longest));
            }
        }
    }

    /// Executes one access by `by`, in a step of the block `agent`, at a timestamp of `by`.
    pub(super) fn access(&mut self, agent: usize, by: usize, step: usize, effect: &Access, turn: u32) {
        let atoms = effect.atoms();
        if atoms.is_empty() && self.skewed.is_empty() {
            return;
        }
        let block = by < self.blocks;
        let length = self.model.length(effect);
        if effect.write && !self.agents[by].acquired.is_empty() {
            self.merge_certain(by, length);
        }
        // Accesses to a buffer are recorded as its owner numbers agents.
        let (state, clocks, ring) = (&self.agents[by], &self.clocks, self.ring);
        let away = ring.places(effect.shift);
        let mut access = RecordedAccess {
            agent: ring.moved(by as u32, ring.back(effect.shift)),
            count: turn,
            step: step as u32,
            atoms: (atoms.start as u32, atoms.end as u32),
            owner: effect.owner,
            grain: if block { self.grain(step) } else { ThreadMapping::Unknown },
            write: effect.write,
            in_loop: self.model.size.proves() && self.model.in_loop(step) && applies(Condition::Mapping),
            is_first_find: false,
            packet_clock: NONE,
        };
        // A port's operations are ordered; those of a block only across block syncs.
        let epoch = if block { state.last_sync } else { u32::MAX };
        let packets = effect.packets();
        // Whether the thread of each element has read a packet that orders the old access of the element before it.
        let element_is_ordered = |old: &RecordedAccess| {
            old.in_loop == access.in_loop
                && old.grain == ThreadMapping::Packet
                && old.atoms == access.atoms
                && access.grain == ThreadMapping::Packet
                && state.acquired.iter().any(|acquired| {
                    acquired.length >= length
                        && acquired.of_element.over(clocks, ring.moved(old.agent, away)) > old.count
                })
        };
        // Waiting for a packet's flag replaces an order.
        let awaits = packets && !effect.write && block;
        let rewrites = self.rewrites_packets(&access);
        let foreign =
            effect.memory.is_callers() && (effect.shift > 0 || effect.owner as usize != self.model.agents[agent].rank);
        let (mut early, mut first) = (false, NONE);
        let mut race = None;
        // Only the first races are reported, so only those are analyzed in detail.
        let full = self.found.len() >= MAX_FINDINGS;
        // Neighboring atoms mostly have the same earlier accesses.
        let mut fine_write = NONE;
        for atom in atoms {
            let write = self.cells.write(atom);
            if write == NONE {
                if effect.memory.is_callers() {
                    let owner = &ring.range(&self.model.agents_of[effect.owner as usize], effect.shift);
                    early = early || foreign && !state.certain(length).any(|clock| clocks.has_any(clock, owner));
                } else {
                    if first == NONE {
                        first = self.first_clocks.len() as u32;
                        self.first_clocks.push(match state.certain_clock {
                            Some(certain) if certain.length == length && access.write => certain.clock,
                            _ => state.clock,
                        });
                    }
                    self.firsts.push(First {
                        atom: atom as u32,
                        access: self.accesses.len() as u32,
                        first_clocks: first,
                    });
                }
            } else if awaits && !self.rewritten.contains(&atom) {
                if self.awaited.last() != Some(&write) {
                    self.awaited.push(write);
                }
            } else if write != fine_write {
                let old = &self.accesses[write as usize];
                let is_over = |old: &RecordedAccess| {
                    is_ordered(old, &access, epoch, clocks.ordered(state.clock, ring.moved(old.agent, away)))
                };
                let visible = clocks.visible(state.clock, ring.moved(old.agent, away));
                let has_arrived = || packets && is_over(old) && self.is_found(atom, is_over);
                if is_ordered(old, &access, epoch, visible) || packets && element_is_ordered(old) {
                    fine_write = write;
                // Of the same write, neighboring packets may not have been found.
                } else if !(race.is_some() || full || has_arrived() || packets && self.follows(old, &access, atom)) {
                    let known = if is_over(old) {
                        Known::Over
                    } else if self.is_flushed(old, state.clock, away) {
                        Known::Flushed
                    } else {
                        Known::Nothing
                    };
                    race = Some((write, atom, known));
                }
            }
            if effect.write {
                for read in self.cells.reads(atom) {
                    let old = &self.accesses[read as usize];
                    // A block finds the same packet before and after.
                    if rewrites && self.is_of_block(old) {
                        continue;
                    }
                    let known = clocks.ordered(state.clock, ring.moved(old.agent, away));
                    let by_packets = || element_is_ordered(old) || self.follows(old, &access, atom);
                    if race.is_none() && !full && !(is_ordered(old, &access, epoch, known) || by_packets()) {
                        race = Some((read, atom, Known::Nothing));
                    }
                }
            }
        }
        let clock = self.agents[by].clock;
        if let Some(old) = self.check_skewed((agent, by), effect, access, (clock, away), epoch)
            && !full
        {
            let atom = if access.atoms.0 < access.atoms.1 { access.atoms.0 } else { old.atoms.0 };
            self.found.push(report::race(
                self.model,
                self.blocks,
                (&old, &access),
                atom as usize,
                (Known::Nothing, false),
            ));
        }
        if access.atoms.0 == access.atoms.1 {
            return;
        }
        if let Some((old, atom, known)) = race {
            let old = &self.accesses[old as usize];
            let vague = [&self.signals, &self.releases]
                .iter()
                .any(|released_clocks| released_clocks.wait_unordered(agent as u32));
            self.found.push(report::race(self.model, self.blocks, (old, &access), atom, (known, vague)));
        }
        if early && self.early.len() < MAX_FINDINGS {
            self.early.push(report::early_access(self.model, &access));
        }
        if awaits {
            let mut awaited = std::mem::take(&mut self.awaited);
            awaited.drain(..).for_each(|old| self.read_packets(by, step, effect, old));
            self.awaited = awaited;
        }
        if packets && effect.write {
            let packet_clock = match rewrites {
                true => self.rewritten_alike(access.atoms),
                false => self.written(by, effect, turn),
            };
            let has_unknown_windows = self.has_unknown_windows(agent, step) || self.ignores_packets(step);
            access.packet_clock = if has_unknown_windows { NONE } else { packet_clock };
        }
        let finds = packets && !access.write && self.is_of_block(&access);
        self.keep(access, epoch, rewrites, finds);
    }

    /// Returns whether a block has found the packets that were last written to an atom by their flags, in a read that
    /// is over in every schedule: then they have arrived, so that happening after them is enough. Packets that no such
    /// read has found may arrive later.
    pub(super) fn is_found(&self, atom: usize, is_over: impl Fn(&RecordedAccess) -> bool) -> bool {
        let mut reads = self.cells.reads(atom).map(|read| &self.accesses[read as usize]);
        // A read may have found the packets that others like them replace.
        let write = self.accesses.get(self.cells.write(atom) as usize);
        !self.rewritten.contains(&atom)
            && !write.is_some_and(|write| self.rewrites_packets(write))
            && reads.any(|read| self.is_of_block(read) && !self.ignores_packets(read.step as usize) && is_over(read))
    }

    /// Returns whether an access was made by a thread block, not by a port.
    fn is_of_block(&self, access: &RecordedAccess) -> bool {
        (self.ring.own(access.agent).0 as usize) < self.blocks
    }

    /// Returns whether an access writes the packets that its operation has found in the same place: a multicast may
    /// include the rank that sends it.
    pub(super) fn rewrites_packets(&self, access: &RecordedAccess) -> bool {
        let step = access.step as usize;
        let is_source =
            |other: &Access| !other.write && (other.atoms().start as u32, other.atoms().end as u32) == access.atoms;
        access.write
            && self.model.step_at(step).kind == OpKind::SwitchBroadcastPackets
            && self.model.effects(step).iter().any(is_source)
    }

    /// Records an access for those that come after it, given the timestamp of the last block sync of its agent, and
    /// whether it leaves the packets that earlier accesses have read, and whether it finds packets by their flags: the first such read
    /// of an agent is kept, since it may be over where later ones are not.
    fn keep(&mut self, mut access: RecordedAccess, epoch: u32, rewrites: bool, finds: bool) {
        let new = self.accesses.len() as u32;
        access.is_first_find = finds && {
            let is_own = |read: u32| self.accesses[read as usize].agent == access.agent;
            (access.atoms.0..access.atoms.1)
                .any(|atom| !self.cells.reads(atom as usize).take(MAX_COMPARED_READS).any(is_own))
        };
        let (accesses, cells) = (&self.accesses, &mut self.cells);
        for atom in access.atoms.0 as usize..access.atoms.1 as usize {
            if access.write {
                cells.set_write(atom, new, rewrites);
            } else {
                // A later read of the same agent replaces earlier ones that happen before it, or are in the same
                // threads.
                cells.add_read(atom, new, |old| {
                    let old = &accesses[old as usize];
                    old.agent == access.agent && !old.is_first_find && (old.count < epoch || old.is_mapped_as(&access))
                });
            }
        }
        self.accesses.push(access);
    }

    /// Returns how many elements a thread of a step processes at a time.
    pub(super) fn grain(&self, step: usize) -> ThreadMapping {
        if !self.model.plan.buffer_alignment.is_multiple_of(VECTOR_BYTES) {
            return ThreadMapping::Unknown;
        }
        match self.model.step_at(step).kind.grain() {
            Grain::Vector => ThreadMapping::Vector,
            Grain::Multicast => ThreadMapping::Multicast,
            Grain::Packet => ThreadMapping::Packet,
            Grain::Row => ThreadMapping::Unknown,
        }
    }
}

/// Returns the number of timestamps of a step: a thread executes one after the other.
pub(super) fn turns(model: &Model, step: usize) -> u32 {
    let (kind, effects) = (model.step_at(step).kind, model.effects(step));
    effects.iter().map(|effect| turn(kind, effect) + 1).max().unwrap_or(1)
}

/// Returns the timestamp of an access in its step. Several pairs are moved one after the other; otherwise a thread
/// reads all sources of an element, and then writes one destination after the other.
fn turn(kind: OpKind, effect: &Access) -> u32 {
    let has_several_pairs = kind.flow() == Some(Flow::Pairs) && !kind.channels().is_empty();
    match effect.write {
        _ if has_several_pairs => effect.position,
        true => 1 + effect.position,
        false => 0,
    }
}

/// Returns whether an earlier access happens before a later one, or is in the same thread, given how many timestamps of
/// the earlier one's agent happen before the later one.
fn is_ordered(old: &RecordedAccess, new: &RecordedAccess, epoch: u32, known: u32) -> bool {
    if old.agent != new.agent {
        return known > old.count;
    }
    old.count < epoch || old.is_mapped_as(new) || old.step == new.step && old.atoms == new.atoms
}
