//! Chunk ranges divided at the ends of all given ranges: the number of intervals depends on the number of ranges, not
//! on the number of chunks.

use std::ops::Range;

/// Consecutive intervals of chunks.
#[derive(Default)]
pub(super) struct Intervals {
    /// Start of each interval in ascending order, then the end of the last one.
    bounds: Vec<u64>,
}

impl Intervals {
    /// Divides at both ends of every range.
    pub(super) fn new(ranges: Vec<Range<u64>>) -> Self {
        let mut bounds: Vec<u64> = ranges.into_iter().flat_map(|range| [range.start, range.end]).collect();
        bounds.sort_unstable();
        bounds.dedup();
        Self { bounds }
    }

    /// Returns the number of intervals.
    pub(super) fn len(&self) -> usize {
        self.bounds.len().saturating_sub(1)
    }

    /// Returns the intervals of a range that was passed to [`new`](Self::new).
    pub(super) fn of(&self, range: &Range<u64>) -> Range<usize> {
        let at = |bound| self.bounds.partition_point(|&other| other < bound);
        at(range.start)..at(range.end)
    }

    /// Returns the chunks of the selected intervals, with adjacent ones merged.
    pub(super) fn chunks(&self, which: impl Fn(usize) -> bool) -> Vec<Range<u64>> {
        let mut chunks: Vec<Range<u64>> = Vec::new();
        for interval in (0..self.len()).filter(|&interval| which(interval)) {
            let (start, end) = (self.bounds[interval], self.bounds[interval + 1]);
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
    fn ranges_are_divided_at_the_ends_of_others() {
        let most = 1_u64 << 40;
        let ranges = [0..most, 3..9, 5..9, 9..9];
        let intervals = Intervals::new(ranges.to_vec());
        assert_eq!(intervals.len(), 4);
        let of: Vec<_> = ranges.iter().map(|range| intervals.of(range)).collect();
        assert_eq!(of, [0..4, 1..3, 2..3, 3..3]);
        assert_eq!(intervals.chunks(|interval| interval != 1), [0..3, 5..most]);
        assert_eq!(intervals.chunks(|_| true).first(), Some(&(0..most)));
    }
}
