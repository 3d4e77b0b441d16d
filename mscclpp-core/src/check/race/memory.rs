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

/// The accesses of a byte that later ones may collide with, by their numbers: the last writes, and the reads since.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) writes: SmallVec<[u32; 2]>,
    pub(super) reads: SmallVec<[u32; 4]>,
}

/// One memory. Positions are fractions of bytes.
#[derive(Default)]
pub(super) struct Memory {
    cells: RangeMap<u128, Cell>,
}

impl Memory {
    /// What has touched a range, piece by piece.
    pub(super) fn touched(&self, range: &Range<u128>) -> impl Iterator<Item = (u128, &Cell)> {
        let start = range.start;
        self.cells.overlapping(range.clone()).map(move |(piece, cell)| (piece.start.max(start), cell))
    }

    /// Notes a write that has been compared with all that touched the range, in whose place it comes.
    pub(super) fn write(&mut self, range: Range<u128>, number: u32) {
        if !range.is_empty() {
            self.cells.insert(range, Cell { writes: SmallVec::from_elem(number, 1), reads: SmallVec::new() });
        }
    }

    /// Notes a read, in the place of those reads that it makes `superfluous`.
    pub(super) fn read(&mut self, range: Range<u128>, number: u32, superfluous: impl Fn(u32) -> bool) {
        if range.is_empty() {
            return;
        }
        let add = |mut cell: Cell| {
            cell.reads.retain(|old| !superfluous(*old));
            cell.reads.push(number);
            cell
        };
        let mut pieces: SmallVec<[_; 2]> = self.cells.gaps(&range).map(|gap| (gap, add(Cell::default()))).collect();
        for (piece, cell) in self.cells.overlapping(range.clone()) {
            pieces.push((piece.start.max(range.start)..piece.end.min(range.end), add(cell.clone())));
        }
        for (piece, cell) in pieces {
            self.cells.insert(piece, cell);
        }
    }
}
