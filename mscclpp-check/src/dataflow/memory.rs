//! The values of buffers, by address.

use std::ops::Range;

use smallvec::SmallVec;

use super::values::Node;

/// A run of bytes that hold a node from a coordinate on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ValueRange {
    pub(super) len: u64,
    pub(super) node: Node,
    /// Coordinate of the first byte.
    pub(super) at: u64,
    /// The step that wrote it; 0 for the initial value.
    pub(super) by: u32,
    /// The greatest number of a caller's chunk through which it passed and that may be shorter than its own
    /// ([`short_chunks`](super::short_chunks)); 0 if there is none.
    pub(super) reach: u32,
    /// The step that wrote it to that chunk.
    pub(super) lost_by: u32,
}

impl ValueRange {
    /// Returns a range of the initial values, or one that has passed through no shorter chunk.
    pub(super) const fn new(len: u64, node: Node, at: u64, by: u32) -> Self {
        Self { len, node, at, by, reach: 0, lost_by: 0 }
    }

    /// Returns a part of the range.
    pub(super) fn part(&self, from: u64, to: u64) -> Self {
        Self { len: to - from, at: self.at.wrapping_add(from), ..*self }
    }

    /// Returns whether another range continues this one.
    fn is_continued_by(&self, next: &Self) -> bool {
        let paths = |range: &Self| (range.node, range.reach, range.lost_by);
        paths(self) == paths(next) && self.at.wrapping_add(self.len) == next.at
    }
}

/// All buffers, divided into cells at the bounds of operations, so that most cells hold one range.
#[derive(Default)]
pub(super) struct Memories {
    /// Per buffer, its first cell.
    first: Vec<u32>,
    /// Begin of each cell in its buffer; the last one of a buffer is unbounded.
    starts: Vec<u64>,
    /// Per cell, its values from its begin on; the bytes after the last range are uninitialized.
    cells: Vec<SmallVec<[ValueRange; 1]>>,
}

/// Node of a gap between ranges.
const GAP: Node = Node::MAX;

impl Memories {
    /// Allocates the given number of buffers with the given number of cells in all.
    pub(super) fn with_capacity(memories: usize, cells: usize) -> Self {
        Self {
            first: Vec::with_capacity(memories),
            starts: Vec::with_capacity(cells),
            cells: Vec::with_capacity(cells),
        }
    }

    /// Adds an uninitialized buffer, divided at some addresses, in ascending order. Cells are numbered through all
    /// buffers, so that those of the buffers of a model are its atoms.
    pub(super) fn add(&mut self, cuts: &[u64]) {
        let first = self.starts.len();
        self.first.push(first as u32);
        self.starts.push(0);
        self.starts.extend(cuts.iter().copied().filter(|cut| *cut > 0));
        self.cells.resize_with(self.starts.len(), SmallVec::new);
    }

    /// Returns the cells of a buffer.
    fn cells(&self, memory: usize) -> Range<usize> {
        let end = self.first.get(memory + 1).map_or(self.starts.len(), |first| *first as usize);
        self.first[memory] as usize..end
    }

    /// Returns the range that fills a cell of some length, if it is a single one.
    pub(super) fn filling(&self, cell: usize, len: u64) -> Option<ValueRange> {
        match self.cells[cell][..] {
            [piece] if piece.len == len && piece.node != GAP => Some(piece),
            _ => None,
        }
    }

    /// Returns the cell of a buffer that contains an address.
    pub(super) fn cell(&self, memory: usize, position: u64) -> usize {
        let cells = self.cells(memory);
        cells.start + self.starts[cells].partition_point(|start| *start <= position) - 1
    }

    /// Returns the end of a cell: the begin of the next one, unless it is the last of its buffer.
    fn end(&self, cell: usize) -> u64 {
        self.starts.get(cell + 1).copied().filter(|start| *start > 0).unwrap_or(u64::MAX)
    }

    /// Visits the values in a range of a buffer, in order, with `None` for gaps.
    pub(super) fn read(&self, memory: usize, range: Range<u64>, visit: impl FnMut(Range<u64>, Option<ValueRange>)) {
        self.read_from(self.cell(memory, range.start), range, visit);
    }

    /// Visits the values in a range, given the cell in which it begins.
    pub(super) fn read_from(
        &self,
        cell: usize,
        range: Range<u64>,
        mut visit: impl FnMut(Range<u64>, Option<ValueRange>),
    ) {
        let mut cell = cell;
        let mut done = range.start;
        while done < range.end {
            let mut start = self.starts[cell];
            for piece in &self.cells[cell] {
                let (from, to) = (start.max(done), (start + piece.len).min(range.end));
                if from < to {
                    visit(from..to, (piece.node != GAP).then(|| piece.part(from - start, to - start)));
                    done = to;
                }
                start += piece.len;
            }
            let end = self.end(cell).min(range.end);
            if done < end {
                visit(done..end, None);
                done = end;
            }
            cell += 1;
        }
    }

    /// Writes consecutive ranges to a buffer.
    pub(super) fn write(&mut self, memory: usize, start: u64, pieces: &[ValueRange]) {
        self.write_from(self.cell(memory, start), start, pieces);
    }

    /// Writes consecutive ranges, given the cell in which the first one begins.
    pub(super) fn write_from(&mut self, cell: usize, start: u64, pieces: &[ValueRange]) {
        if let [only] = pieces
            && self.starts[cell] == start
            && self.end(cell) == start + only.len
        {
            self.cells[cell].clear();
            self.cells[cell].push(*only);
            return;
        }
        let stop = start + pieces.iter().map(|piece| piece.len).sum::<u64>();
        let (mut cell, mut next) = (cell, start);
        let mut left = pieces.iter().copied();
        let mut piece = left.next();
        while next < stop {
            let (first, end) = (self.starts[cell], self.end(cell));
            let to = end.min(stop);
            let whole = next == first && to == end;
            let old = if whole { SmallVec::new() } else { self.cells[cell].clone() };
            let new = &mut self.cells[cell];
            new.clear();
            before(&old, next - first, new);
            while let Some(now) = piece.filter(|_| next < to) {
                let len = now.len.min(to - next);
                new.push(now.part(0, len));
                next += len;
                piece = if len < now.len { Some(now.part(len, now.len)) } else { left.next() };
            }
            after(&old, to - first, new);
            cell += 1;
        }
    }
}

/// Adds the values of a cell before an address.
fn before(old: &[ValueRange], stop: u64, new: &mut SmallVec<[ValueRange; 1]>) {
    let mut start = 0;
    for piece in old {
        if start < stop {
            new.push(piece.part(0, piece.len.min(stop - start)));
        }
        start += piece.len;
    }
    if start < stop {
        new.push(ValueRange::new(stop - start, GAP, 0, 0));
    }
}

/// Adds the values of a cell after an address.
fn after(old: &[ValueRange], begin: u64, new: &mut SmallVec<[ValueRange; 1]>) {
    let mut start = 0;
    for piece in old {
        if start + piece.len > begin {
            new.push(piece.part(begin.saturating_sub(start), piece.len));
        }
        start += piece.len;
    }
}

/// Adds a range to a list, merged with the last one if it continues that.
pub(super) fn append(list: &mut Vec<ValueRange>, piece: ValueRange) {
    match list.last_mut() {
        Some(last) if last.is_continued_by(&piece) => last.len += piece.len,
        _ => list.push(piece),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn memory_behaves_like_an_array(
            writes in proptest::collection::vec((0..40u64, proptest::collection::vec((1..8u64, 1..4u32, 0..50u64), 1..4)), 0..30),
            from in 0..64u64, len in 1..64u64, cuts in proptest::collection::btree_set(0..70u64, 0..20),
        ) {
            let mut memories = Memories::default();
            let cuts: Vec<u64> = cuts.into_iter().collect();
            (0..3).for_each(|_| memories.add(&cuts));
            let mut array = [None; 128];
            for (by, (start, pieces)) in (1..).zip(&writes) {
                let pieces: Vec<_> = pieces.iter().map(|&(len, node, at)| ValueRange::new(len, node, at, by)).collect();
                memories.write(1, *start, &pieces);
                let mut next = *start as usize;
                for piece in &pieces {
                    for i in 0..piece.len {
                        array[next] = Some((piece.node, piece.at + i, by));
                        next += 1;
                    }
                }
            }
            let mut found = Vec::new();
            memories.read(1, from..from + len, |range, piece| {
                for i in range.clone() {
                    found.push(piece.map(|piece| (piece.node, piece.at + i - range.start, piece.by)));
                }
            });
            prop_assert_eq!(found, &array[from as usize..(from + len) as usize]);
            for other in [0, 2] {
                memories.read(other, from..from + len, |_, piece| assert_eq!(piece, None));
            }
        }
    }

    #[test]
    fn continued_ranges_are_merged() {
        let mut list = Vec::new();
        let piece = |len, node, at| ValueRange::new(len, node, at, 0);
        for piece in [piece(2, 1, 5), piece(3, 1, 7), piece(1, 2, 10), piece(1, 2, 10)] {
            append(&mut list, piece);
        }
        assert_eq!(list, [piece(5, 1, 5), piece(1, 2, 10), piece(1, 2, 10)]);
    }
}
