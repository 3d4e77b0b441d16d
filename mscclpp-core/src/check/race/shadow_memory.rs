//! Who has touched which atom.

use super::super::model::Model;

/// A read or write.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct RecordedAccess {
    /// The agent, and which of its turns.
    pub(in super::super) agent: u32,
    pub(in super::super) count: u32,
    pub(in super::super) step: u32,
    /// Its atoms, and the rank whose memory they are in.
    pub(super) atoms: (u32, u32),
    pub(super) owner: u32,
    /// How its elements are given to threads.
    pub(super) grain: ThreadMapping,
    pub(in super::super) write: bool,
    /// Whether it is one of a loop of which a run proves something: others make other windows equal.
    pub(super) in_loop: bool,
    /// For packets written: what their readers learn, by position in a list.
    pub(super) carries: u32,
}

impl RecordedAccess {
    /// Positions that it covers.
    pub(super) fn length(&self, model: &Model) -> u64 {
        let (first, end) = self.atoms;
        if first >= end {
            return 0;
        }
        model.atoms.range(end as usize - 1).end - model.atoms.range(first as usize).start
    }

    /// Whether both give each element to one thread, however many iterations there are.
    pub(super) fn is_mapped_as(&self, other: &Self) -> bool {
        self.in_loop == other.in_loop
            && self.grain != ThreadMapping::Unknown
            && self.grain == other.grain
            && self.atoms == other.atoms
    }
}

/// What a thread takes at a time. Equal ranges are given to threads equally if what they take is equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThreadMapping {
    /// A vector of plain data.
    Vector,
    /// What multicast instructions take.
    Multicast,
    /// The payload of a packet.
    Packet,
    /// Nobody knows.
    Unknown,
}

/// No access.
pub(in super::super) const NONE: u32 = u32::MAX;

/// Reads that are looked at before another one is noted: an agent's reads of an atom mostly follow each other, and where
/// thousands of agents read it, a look at all of them each time would take too long.
const MOST_LOOKS: usize = 32;

/// The accesses of all atoms that later ones may collide with, by their numbers.
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

    /// The last write of an atom, or [`NONE`].
    pub(in super::super) fn write(&self, atom: usize) -> u32 {
        self.cells[atom].0
    }

    /// The reads of an atom since its last write.
    pub(in super::super) fn reads(&self, atom: usize) -> impl Iterator<Item = u32> {
        let mut next = self.cells[atom].1;
        std::iter::from_fn(move || {
            let (read, after) = *self.links.get(next as usize)?;
            next = after;
            Some(read)
        })
    }

    /// Notes a write that has been compared with all that touched the atom, in whose place it comes.
    pub(super) fn set_write(&mut self, atom: usize, access: u32) {
        self.cells[atom] = (access, NONE);
    }

    /// Notes a read, in the place of one that it makes `superfluous` if there is one among the last few.
    pub(super) fn add_read(&mut self, atom: usize, access: u32, superfluous: impl Fn(u32) -> bool) {
        let first = self.cells[atom].1;
        let mut next = first;
        for _ in 0..MOST_LOOKS {
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

/// An access of scratch before which the atom has not been written in this launch: what was done to it in an earlier
/// launch must be over by then.
pub(in super::super) struct First {
    pub(in super::super) atom: u32,
    pub(in super::super) access: u32,
    /// What the agent knew, by position in a list.
    pub(in super::super) knew: u32,
}
