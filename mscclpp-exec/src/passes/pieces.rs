//! A row of chunks, cut wherever a range begins or ends that matters: as many pieces as there are such ranges, however many
//! chunks there are.

use std::ops::Range;

/// Pieces, numbered from the left.
#[derive(Default)]
pub(super) struct Pieces {
    /// Where pieces begin, ascending, and where the last one ends.
    borders: Vec<u64>,
}

impl Pieces {
    /// Cuts at both ends of every range.
    pub(super) fn new(ranges: Vec<Range<u64>>) -> Self {
        let mut borders: Vec<u64> = ranges.into_iter().flat_map(|range| [range.start, range.end]).collect();
        borders.sort_unstable();
        borders.dedup();
        Self { borders }
    }

    /// Number of pieces.
    pub(super) fn len(&self) -> usize {
        self.borders.len().saturating_sub(1)
    }

    /// The pieces of a range at whose ends was cut.
    pub(super) fn of(&self, range: &Range<u64>) -> Range<usize> {
        let at = |border| self.borders.partition_point(|&other| other < border);
        at(range.start)..at(range.end)
    }

    /// The chunks of some pieces, neighbours as one range.
    pub(super) fn chunks(&self, which: impl Fn(usize) -> bool) -> Vec<Range<u64>> {
        let mut chunks: Vec<Range<u64>> = Vec::new();
        for piece in (0..self.len()).filter(|&piece| which(piece)) {
            let (start, end) = (self.borders[piece], self.borders[piece + 1]);
            match chunks.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => chunks.push(start..end),
            }
        }
        chunks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_where_others_begin_and_end() {
        let most = 1_u64 << 40;
        let ranges = [0..most, 3..9, 5..9, 9..9];
        let pieces = Pieces::new(ranges.to_vec());
        assert_eq!(pieces.len(), 4);
        let of: Vec<_> = ranges.iter().map(|range| pieces.of(range)).collect();
        assert_eq!(of, [0..4, 1..3, 2..3, 3..3]);
        assert_eq!(pieces.chunks(|piece| piece != 1), [0..3, 5..most]);
        assert_eq!(pieces.chunks(|_| true).first(), Some(&(0..most)));
    }
}
