//! The free ranges of a slab.

use std::collections::BTreeMap;
use std::ops::Range;

/// Free ranges of bytes. Equal calls in equal order have equal results, on all ranks.
pub(super) struct FreeRanges {
    /// End of each range, by start. No range is empty, and none ends where another one starts.
    ends: BTreeMap<u64, u64>,
}

impl FreeRanges {
    /// Creates one free range.
    pub(super) fn new(range: Range<u64>) -> Self {
        let mut free = Self { ends: BTreeMap::new() };
        free.insert(range);
        free
    }

    /// Takes the first `len` free bytes that start at a multiple of `align`, and returns their start.
    pub(super) fn take(&mut self, len: u64, align: u64) -> Option<u64> {
        let (start, end, at) = self.ends.iter().find_map(|(&start, &end)| {
            let at = start.checked_next_multiple_of(align)?;
            (end.checked_sub(at)? >= len).then_some((start, end, at))
        })?;
        self.ends.remove(&start);
        self.insert(start..at);
        self.insert(at + len..end);
        Some(at)
    }

    /// Makes a range free that was taken.
    pub(super) fn give(&mut self, range: Range<u64>) {
        let Range { mut start, mut end } = range;
        if let Some((&before, _)) = self.ends.range(..start).next_back().filter(|(_, ends)| **ends == start) {
            self.ends.remove(&before);
            start = before;
        }
        end = self.ends.remove(&end).unwrap_or(end);
        self.insert(start..end);
    }

    fn insert(&mut self, range: Range<u64>) {
        if !range.is_empty() {
            self.ends.insert(range.start, range.end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_aligned_disjoint_and_merged_again() {
        const LEN: u64 = 1 << 12;
        let mut free = FreeRanges::new(0..LEN);
        let (mut taken, mut dice): (Vec<Range<u64>>, u64) = (Vec::new(), 1);
        let mut next = |bound: u64| {
            dice = dice.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (dice >> 33) % bound
        };
        for _ in 0..10_000 {
            if next(2) == 0 {
                let (len, align) = (1 + next(300), 1 << next(8));
                if let Some(at) = free.take(len, align) {
                    assert!(at % align == 0 && at + len <= LEN, "{at}: {len} bytes aligned to {align}");
                    assert!(taken.iter().all(|taken| taken.end <= at || at + len <= taken.start), "{at} is taken");
                    taken.push(at..at + len);
                } else {
                    taken.sort_by_key(|range| range.start);
                    let ends = taken.iter().map(|range| range.end);
                    let gaps = std::iter::once(0).chain(ends).zip(taken.iter().map(|range| range.start).chain([LEN]));
                    let fits = |(start, end): (u64, u64)| start.next_multiple_of(align) + len <= end;
                    assert!(!gaps.into_iter().any(fits), "{len} bytes aligned to {align} fit between {taken:?}");
                }
            } else if !taken.is_empty() {
                free.give(taken.swap_remove(next(taken.len() as u64) as usize));
            }
        }
        taken.into_iter().for_each(|range| free.give(range));
        assert_eq!(free.take(LEN, 1), Some(0), "one range is left");
    }
}
