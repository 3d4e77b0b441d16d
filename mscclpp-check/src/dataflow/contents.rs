//! The values of all buffers during an execution.

use std::ops::Range;

use super::memory::{Memories, ValueRange, append};
use super::short_chunks::ShortChunks;
use super::values::{How, Node, UNKNOWN, Values};
use mscclpp_plan::raw::{Flow, Function, Grain, Op, OpClass, Packets};
use mscclpp_plan::types::ReduceOp;

/// A range of a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MemoryRange {
    /// Number of the buffer.
    pub(super) memory: usize,
    pub(super) range: Range<u64>,
    /// The cell in which it begins, unless it is empty.
    pub(super) cell: usize,
    /// With symmetry reduction: the rotation of the rank whose buffer it is.
    pub(super) further: u32,
}

/// The values of every buffer.
pub(super) struct Contents {
    pub(super) values: Values,
    pub(super) memories: Memories,
    pub(super) short_chunks: ShortChunks,
    /// Number of ranges that may still be moved.
    budget: u64,
    pieces: Vec<ValueRange>,
    /// The same ranges in the numbering of another rank.
    seen: Vec<ValueRange>,
    operands: Vec<ValueRange>,
    /// Per source, the next of its `operands`, the end of them, and how much of the next one is done.
    positions: Vec<(usize, usize, u64)>,
}

/// Number of ranges that any plan may move, and that it may move per operation. Useful plans move one or two per
/// operand; others could divide their memory into ever more ranges.
const BUDGET: (u64, u64) = (1 << 18, 256);

impl Contents {
    pub(super) fn new(ranks: u32, memories: Memories, short_chunks: ShortChunks) -> Self {
        Self {
            values: Values::new(ranks),
            memories,
            short_chunks,
            budget: BUDGET.0,
            pieces: Vec::new(),
            seen: Vec::new(),
            operands: Vec::new(),
            positions: Vec::new(),
        }
    }

    /// Returns whether the budget is used up; values are not tracked after that.
    pub(super) fn is_spent(&self) -> bool {
        self.budget == 0
    }

    /// Executes a step; calls `unwritten` with the parts of its sources that are uninitialized.
    pub(super) fn step(
        &mut self,
        op: &Op,
        by: u32,
        reads: &[MemoryRange],
        writes: &[MemoryRange],
        mut unwritten: impl FnMut(usize, Range<u64>),
    ) {
        if self.is_spent() {
            return;
        }
        if self.values.len() >> 31 > 0 {
            self.budget = 0;
            return;
        }
        self.budget = self.budget.saturating_add(BUDGET.1);
        let OpClass::Data(flow, function) = op.kind.class() else { return };
        match function {
            Function::Copy if flow == Flow::Pairs => {
                for (read, write) in reads.iter().zip(writes) {
                    self.pieces.clear();
                    load(&self.memories, read, &mut self.pieces, &mut unwritten);
                    self.load_from(read, 0, false);
                    self.store(std::slice::from_ref(write), by);
                }
            }
            Function::Copy => {
                self.pieces.clear();
                for read in reads.iter().take(1) {
                    load(&self.memories, read, &mut self.pieces, &mut unwritten);
                    self.load_from(read, 0, false);
                }
                self.store(writes, by);
            }
            Function::Reduce => {
                self.operands.clear();
                self.positions.clear();
                // Packets are before the plain source.
                let num_plain = usize::from(op.kind.srcs().packets == Packets::Rest).min(reads.len());
                for read in reads[num_plain..].iter().chain(&reads[..num_plain]) {
                    let first = self.operands.len();
                    load(&self.memories, read, &mut self.operands, &mut unwritten);
                    self.load_from(read, first, true);
                    self.positions.push((first, self.operands.len(), 0));
                }
                self.spend(self.operands.len());
                let switch = op.kind.grain() == Grain::Multicast;
                self.combine(How { op: op.reduce.unwrap_or(ReduceOp::Sum), switch, norm: false });
                self.store(writes, by);
            }
            Function::RowNorm => {
                // What an operation writes depends on the whole row, which has one value: the race rule has proved that
                // rows are complete, and rows are not divided.
                for (read, write) in reads.iter().zip(writes) {
                    self.operands.clear();
                    load(&self.memories, read, &mut self.operands, &mut unwritten);
                    self.load_from(read, 0, true);
                    self.spend(self.operands.len());
                    self.positions.clear();
                    self.positions.push((0, self.operands.len(), 0));
                    self.combine(How::NORM);
                    self.store(std::slice::from_ref(write), by);
                }
            }
        }
    }

    /// Executes a step that copies a whole cell to another one of the same length. Returns whether the copy is
    /// complete, which it is if the cell holds a single range.
    pub(super) fn copy(&mut self, by: u32, read: usize, to: &MemoryRange) -> bool {
        let (write, start, len) = (to.cell, to.range.start, to.range.end - to.range.start);
        let Some(piece) = self.memories.filling(read, len).filter(|_| !self.is_spent()) else { return false };
        if self.short_chunks.concern(to.memory)
            && !self.short_chunks.is_safe(&self.values, &piece, start, &mut self.budget)
        {
            return false;
        }
        self.budget = self.budget.saturating_add(BUDGET.1 - 1);
        self.memories.write_from(write, start, &[ValueRange { by, ..piece }]);
        true
    }

    /// Combines the operands, divided at all of their bounds.
    fn combine(&mut self, how: How) {
        let Self { values, operands, positions, pieces, budget, .. } = self;
        pieces.clear();
        while *budget > 0
            && let Some(len) = positions
                .iter()
                .map(|&(next, end, done)| if next < end { operands[next].len - done } else { 0 })
                .min()
                .filter(|len| *len > 0)
        {
            let terms = positions.iter().map(|&(next, _, done)| {
                let piece = &operands[next];
                (piece.node, piece.at.wrapping_add(done))
            });
            let (node, at) = values.reduce(how, terms);
            let terms = positions.iter().map(|&(next, ..)| (operands[next].reach, operands[next].lost_by));
            let (reach, lost_by) = terms.max_by_key(|(reach, _)| *reach).unwrap_or_default();
            append(pieces, ValueRange { reach, lost_by, ..ValueRange::new(len, node, at, 0) });
            *budget = budget.saturating_sub(positions.len() as u64);
            for (next, _, done) in positions.iter_mut() {
                *done += len;
                if *done == operands[*next].len {
                    (*next, *done) = (*next + 1, 0);
                }
            }
        }
    }

    /// Writes `pieces` to each of some ranges.
    fn store(&mut self, writes: &[MemoryRange], by: u32) {
        if self.pieces.is_empty() {
            return;
        }
        self.pieces.iter_mut().for_each(|piece| piece.by = by);
        for write in writes.iter().filter(|write| !write.range.is_empty()) {
            let mut pieces = &self.pieces;
            let concerns_short_chunks = self.short_chunks.concern(write.memory);
            if write.further > 0 || concerns_short_chunks {
                let Self { values, budget, seen, short_chunks, .. } = self;
                seen.clone_from(&self.pieces);
                if write.further > 0 {
                    let back = values.ranks() - write.further;
                    seen.iter_mut().for_each(|piece| piece.node = values.shifted(piece.node, back, budget));
                }
                if concerns_short_chunks {
                    short_chunks.pass(values, by, write.range.start, seen, budget);
                }
                pieces = seen;
            }
            self.memories.write_from(write.cell, write.range.start, pieces);
            self.spend(self.pieces.len());
        }
    }

    /// Loads what is in a buffer from an index on, in the numbering of the reader.
    fn load_from(&mut self, read: &MemoryRange, first: usize, operands: bool) {
        if read.further > 0 {
            let Self { values, budget, .. } = self;
            let loaded = if operands { &mut self.operands } else { &mut self.pieces };
            loaded[first..].iter_mut().for_each(|piece| piece.node = values.shifted(piece.node, read.further, budget));
        }
    }

    fn spend(&mut self, pieces: usize) {
        self.budget = self.budget.saturating_sub(pieces as u64);
    }

    /// Puts a node, from its first coordinate on, into an empty range.
    pub(super) fn set(&mut self, memory: usize, start: u64, len: u64, node: Node) {
        if len > 0 {
            self.memories.write(memory, start, &[ValueRange::new(len, node, 0, 0)]);
        }
    }
}

/// Adds what is in a range to a list.
fn load(
    memories: &Memories,
    spot: &MemoryRange,
    pieces: &mut Vec<ValueRange>,
    unwritten: &mut impl FnMut(usize, Range<u64>),
) {
    // Slices of few units may be empty.
    if spot.range.is_empty() {
        return;
    }
    let floor = pieces.len();
    memories.read_from(spot.cell, spot.range.clone(), |range, piece| {
        let piece = piece.unwrap_or_else(|| {
            unwritten(spot.memory, range.clone());
            ValueRange::new(range.end - range.start, UNKNOWN, 0, 0)
        });
        // The ranges of another operand are not merged.
        if pieces.len() > floor { append(pieces, piece) } else { pieces.push(piece) }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ops;

    #[test]
    fn empty_slices_move_nothing() {
        let mut memories = Memories::default();
        (0..2).for_each(|_| memories.add(&[4]));
        let mut contents = Contents::new(1, memories, ShortChunks::none());
        let input = contents.values.input(0);
        contents.set(0, 0, 8, input);
        let spot = |memory: usize, range: Range<u64>| MemoryRange {
            memory,
            cell: 2 * memory + usize::from(range.start >= 4),
            range,
            further: 0,
        };
        let put = &ops("put.m/2:3 i0 i1+2 > r0:0 r0:1+2")[0];
        let (reads, writes) = ([spot(0, 0..0), spot(0, 4..8)], [spot(1, 0..0), spot(1, 0..4)]);
        contents.step(put, 1, &reads, &writes, |_, range| panic!("{range:?} was written"));
        let reduce = &ops("re/2:3 i0 i1 > i0")[0];
        contents.step(reduce, 2, &[spot(0, 2..2), spot(0, 3..3)], &[spot(1, 2..2)], |_, _| panic!("nothing is read"));
        let mut found = Vec::new();
        contents
            .memories
            .read(1, 0..5, |range, piece| found.push((range, piece.map(|piece| (piece.node, piece.at, piece.by)))));
        assert_eq!(found, [(0..4, Some((input, 4, 1))), (4..5, None)]);
    }
}
