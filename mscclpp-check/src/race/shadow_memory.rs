//! Shadow memory: per atom, the last write and the reads since.

use super::super::model::Model;

/// A read or write.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct RecordedAccess {
    /// The agent, and its timestamp.
    pub(in super::super) agent: u32,
    pub(in super::super) count: u32,
    pub(in super::super) step: u32,
    /// Its atoms, and the rank that owns the memory.
    pub(super) atoms: (u32, u32),
    pub(super) owner: u32,
    /// How its elements are assigned to threads.
    pub(super) grain: ThreadMapping,
    pub(in super::super) write: bool,
    /// Whether it is in a loop and the execution proves a result: then only equal windows compare.
    pub(super) in_loop: bool,
    /// Whether it is the first read of its agent that finds the packets of an atom.
    pub(super) is_first_find: bool,
    /// For packets written: what their readers acquire, by index in a list.
    pub(super) packet_clock: u32,
}

impl RecordedAccess {
    /// Returns the number of addresses that it covers.
    pub(super) fn length(&self, model: &Model) -> u64 {
        let (first, end) = self.atoms;
        if first >= end {
            return 0;
        }
        model.atoms.range(end as usize - 1).end - model.atoms.range(first as usize).start
    }

    /// Returns whether both assign each element to one thread, for every number of iterations.
    pub(super) fn is_mapped_as(&self, other: &Self) -> bool {
        self.in_loop == other.in_loop
            && self.grain != ThreadMapping::Unknown
            && self.grain == other.grain
            && self.atoms == other.atoms
    }
}

/// Elements that a thread processes at a time. Equal ranges are assigned to threads equally if these are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThreadMapping {
    /// A vector of plain data.
    Vector,
    /// The operand of a multicast instruction.
    Multicast,
    /// The payload of a packet.
    Packet,
    /// Unspecified.
    Unknown,
}

/// No access.
pub(in super::super) const NONE: u32 = u32::MAX;

/// Maximum number of reads that are compared before another one is recorded: an agent's reads of an atom mostly follow
/// each other, and where thousands of agents read it, comparing all of them each time would take too long.
pub(super) const MAX_COMPARED_READS: usize = 32;

/// The accesses of all atoms that later ones may conflict with, by their numbers.
pub(in super::super) struct ShadowMemory {
    /// Per atom, its last write and the first of its reads since in `links`.
    cells: Vec<(u32, u32)>,
    /// Reads, each with the next one.
    links: Vec<(u32, u32)>,
}

impl ShadowMemory {
    pub(super) fn new(model: &Model) -> Self {
        Self { cells: vec![(NONE, NONE); model.atoms.count()], links: Vec::with_capacity(model.effect_count()) }
    }

    /// Returns the last write of an atom, or [`NONE`].
    pub(in super::super) fn write(&self, atom: usize) -> u32 {
        self.cells[atom].0
    }

    /// Returns the reads of an atom since its last write.
    pub(in super::super) fn reads(&self, atom: usize) -> impl Iterator<Item = u32> {
        let mut next = self.cells[atom].1;
        std::iter::from_fn(move || {
            let (read, after) = *self.links.get(next as usize)?;
            next = after;
            Some(read)
        })
    }

    /// Records a write that has been compared with the earlier accesses of the atom, which it replaces, except reads
    /// that it may precede.
    pub(super) fn set_write(&mut self, atom: usize, access: u32, keeps_reads: bool) {
        let reads = if keeps_reads { self.cells[atom].1 } else { NONE };
        self.cells[atom] = (access, reads);
    }

    /// Records a read, and replaces a `superfluous` one if there is one among the last few.
    pub(super) fn add_read(&mut self, atom: usize, access: u32, superfluous: impl Fn(u32) -> bool) {
        let first = self.cells[atom].1;
        let mut next = first;
        for _ in 0..MAX_COMPARED_READS {
            let Some((read, after)) = self.links.get_mut(next as usize) else { break };
            if superfluous(*read) {
                *read = access;
                return;
            }
            next = *after;
        }
        self.links.push((access, first));
        self.cells[atom].1 = self.links.len() as u32 - 1;
    }
}

/// An access to scratch before which the atom has not been written in this launch: the accesses of an earlier launch to
/// it must happen before.
pub(in super::super) struct First {
    pub(in super::super) atom: u32,
    pub(in super::super) access: u32,
    /// The agent's clock, by index in a list.
    pub(in super::super) first_clocks: u32,
}
