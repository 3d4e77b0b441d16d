//! What lies where in one memory.

use std::collections::BTreeMap;
use std::ops::Range;

use super::values::Node;

/// A run of bytes that hold a node from a coordinate on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) len: u64,
    pub(super) node: Node,
    /// Coordinate of the first byte.
    pub(super) at: u64,
    /// The step that wrote it; 0 for what was there at the start.
    pub(super) by: u32,
}

impl Piece {
    /// A part of the piece.
    pub(super) fn part(&self, from: u64, to: u64) -> Self {
        Self { len: to - from, at: self.at.wrapping_add(from), ..*self }
    }

    /// Whether another piece goes on where this one ends.
    fn goes_on_in(&self, next: &Self) -> bool {
        self.node == next.node && self.at.wrapping_add(self.len) == next.at
    }
}

/// One memory. What is in no piece has not been written.
#[derive(Clone, Default)]
pub(super) struct Memory {
    pieces: BTreeMap<u64, Piece>,
}

impl Memory {
    /// Adds what lies in a range to a list, in order, with `None` for gaps.
    pub(super) fn read(&self, range: Range<u64>, mut visit: impl FnMut(Range<u64>, Option<Piece>)) {
        if let Some(piece) = self.pieces.get(&range.start)
            && piece.len >= range.end - range.start
        {
            let len = range.end - range.start;
            return visit(range, Some(piece.part(0, len)));
        }
        let mut done = range.start;
        let before = self.pieces.range(..range.start).next_back();
        for (&start, piece) in before.into_iter().chain(self.pieces.range(range.clone())) {
            let (from, to) = (start.max(range.start), (start + piece.len).min(range.end));
            if from >= to {
                continue;
            }
            if done < from {
                visit(done..from, None);
            }
            visit(from..to, Some(piece.part(from - start, to - start)));
            done = to;
        }
        if done < range.end {
            visit(done..range.end, None);
        }
    }

    /// Writes pieces one behind the other.
    pub(super) fn write(&mut self, start: u64, pieces: &[Piece]) {
        if let [piece] = pieces
            && let Some(old) = self.pieces.get_mut(&start)
            && old.len == piece.len
        {
            *old = *piece;
            return;
        }
        let end = start + pieces.iter().map(|piece| piece.len).sum::<u64>();
        self.clear(start..end);
        let mut next = start;
        for piece in pieces {
            self.pieces.insert(next, *piece);
            next += piece.len;
        }
    }

    fn clear(&mut self, range: Range<u64>) {
        if let Some((&start, piece)) = self.pieces.range_mut(..range.start).next_back() {
            let old = *piece;
            if start + old.len > range.start {
                piece.len = range.start - start;
            }
            if start + old.len > range.end {
                self.pieces.insert(range.end, old.part(range.end - start, old.len));
                return;
            }
        }
        while let Some((&start, &old)) = self.pieces.range(range.clone()).next() {
            self.pieces.remove(&start);
            if start + old.len > range.end {
                self.pieces.insert(range.end, old.part(range.end - start, old.len));
            }
        }
    }
}

/// Adds a piece to a list, as part of the last one where it goes on in it.
pub(super) fn append(list: &mut Vec<Piece>, piece: Piece) {
    match list.last_mut() {
        Some(last) if last.goes_on_in(&piece) => last.len += piece.len,
        _ => list.push(piece),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_memory_is_an_array(
            writes in proptest::collection::vec((0..40u64, proptest::collection::vec((1..8u64, 1..4u32, 0..50u64), 1..4)), 0..30),
            from in 0..64u64, len in 1..64u64,
        ) {
            let mut memory = Memory::default();
            let mut array = [None; 128];
            for (by, (start, pieces)) in (1..).zip(&writes) {
                let pieces: Vec<_> = pieces.iter().map(|&(len, node, at)| Piece { len, node, at, by }).collect();
                memory.write(*start, &pieces);
                let mut next = *start as usize;
                for piece in &pieces {
                    for i in 0..piece.len {
                        array[next] = Some((piece.node, piece.at + i, by));
                        next += 1;
                    }
                }
            }
            let mut found = Vec::new();
            memory.read(from..from + len, |range, piece| {
                for i in range.clone() {
                    found.push(piece.map(|piece| (piece.node, piece.at + i - range.start, piece.by)));
                }
            });
            prop_assert_eq!(found, &array[from as usize..(from + len) as usize]);
        }
    }

    #[test]
    fn pieces_that_go_on_are_one() {
        let mut list = Vec::new();
        let piece = |len, node, at| Piece { len, node, at, by: 0 };
        for piece in [piece(2, 1, 5), piece(3, 1, 7), piece(1, 2, 10), piece(1, 2, 10)] {
            append(&mut list, piece);
        }
        assert_eq!(list, [piece(5, 1, 5), piece(1, 2, 10), piece(1, 2, 10)]);
    }
}
