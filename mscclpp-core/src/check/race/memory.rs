//! Who has touched which byte of which memory.

use std::ops::Range;

use rangemap::RangeMap;
use smallvec::SmallVec;

use super::super::place::Placed;
use super::clock::Clock;

/// A read or write.
#[derive(Clone, Debug)]
pub(super) struct Access<'p> {
    /// The agent, and which of its operations.
    pub(super) agent: u32,
    pub(super) count: u64,
    /// How its elements are given to threads; `None` if nobody knows.
    pub(super) threads: Option<Mapping>,
    pub(super) write: bool,
    pub(super) at: Placed<'p>,
    /// What a packet's reader learns to be over.
    pub(super) carries: Option<Clock>,
}

/// How the elements of a range are given to the threads of a block: equal mappings give each element to one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mapping {
    pub(super) range: Range<u128>,
    pub(super) grain: Grain,
}

/// What a thread takes at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grain {
    /// A vector of plain data.
    Vector,
    /// What multicast instructions take.
    Multicast,
    /// The payload of a packet.
    Packet,
}

impl PartialEq for Access<'_> {
    fn eq(&self, other: &Self) -> bool {
        (self.agent, self.count, self.write, &self.threads) == (other.agent, other.count, other.write, &other.threads)
    }
}

impl Eq for Access<'_> {}

/// The accesses of a byte that later ones may collide with: the last writes, and the reads since.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cell<'p> {
    pub(super) writes: SmallVec<[Access<'p>; 1]>,
    pub(super) reads: SmallVec<[Access<'p>; 1]>,
}

/// One memory. Positions are fractions of bytes.
#[derive(Default)]
pub(super) struct Memory<'p> {
    cells: RangeMap<u128, Cell<'p>>,
}

impl<'p> Memory<'p> {
    /// What has touched a range, piece by piece.
    pub(super) fn touched(&self, range: &Range<u128>) -> impl Iterator<Item = (u128, &Cell<'p>)> {
        let start = range.start;
        self.cells.overlapping(range.clone()).map(move |(piece, cell)| (piece.start.max(start), cell))
    }

    /// Notes an access that has been compared with all others. A write takes the place of what it was compared with;
    /// a read that of earlier reads by the same agent that are over by then (`epoch`).
    pub(super) fn note(&mut self, range: Range<u128>, access: &Access<'p>, epoch: u64) {
        if range.is_empty() {
            return;
        }
        if access.write {
            let cell = Cell { writes: SmallVec::from_elem(access.clone(), 1), reads: SmallVec::new() };
            return self.cells.insert(range, cell);
        }
        let add = |mut cell: Cell<'p>| {
            cell.reads.retain(|old| old.agent != access.agent || old.count >= epoch && old.threads != access.threads);
            cell.reads.push(access.clone());
            cell
        };
        let mut pieces: Vec<_> = self.cells.gaps(&range).map(|gap| (gap, add(Cell::default()))).collect();
        for (piece, cell) in self.cells.overlapping(range.clone()) {
            pieces.push((piece.start.max(range.start)..piece.end.min(range.end), add(cell.clone())));
        }
        for (piece, cell) in pieces {
            self.cells.insert(piece, cell);
        }
    }
}
