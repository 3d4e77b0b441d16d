//! A map from ranges of chunks to values.

/// Ranges that do not overlap, ascending, each with a value. A list, since a block accesses few ranges between two
/// syncs, and mostly the same ones again.
pub(super) struct Segments<T>(Vec<Segment<T>>);

/// A range and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment<T> {
    pub(super) start: u32,
    pub(super) end: u32,
    pub(super) value: T,
}

impl<T> Default for Segments<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Copy> Segments<T> {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns the positions of the segments that a range overlaps.
    fn overlapped(&self, start: u32, end: u32) -> std::ops::Range<usize> {
        let first = self.0.partition_point(|segment| segment.end <= start);
        let len = self.0[first..].iter().take_while(|segment| segment.start < end).count();
        first..first + len
    }

    /// Returns the segments that a range overlaps.
    pub(super) fn overlapping(&self, start: u32, end: u32) -> &[Segment<T>] {
        &self.0[self.overlapped(start, end)]
    }

    /// Assigns one value to a range that is not empty.
    pub(super) fn set(&mut self, start: u32, end: u32, value: T) {
        let overlapped = self.overlapped(start, end);
        let new = Segment { start, end, value };
        match &mut self.0[overlapped.clone()] {
            [] => self.0.insert(overlapped.start, new),
            [segment] if (segment.start, segment.end) == (start, end) => segment.value = value,
            pieces => {
                let left = Segment { end: start, ..pieces[0] };
                let right = Segment { start: end, ..pieces[pieces.len() - 1] };
                let parts = [left, new, right].into_iter().filter(|part| part.start < part.end);
                self.0.splice(overlapped, parts);
            }
        }
    }

    /// Changes the values of a range that is not empty, segment by segment; `None` where there is none.
    pub(super) fn update(&mut self, start: u32, end: u32, change: impl Fn(Option<T>) -> T) {
        let overlapped = self.overlapped(start, end);
        match &mut self.0[overlapped.clone()] {
            [] => self.0.insert(overlapped.start, Segment { start, end, value: change(None) }),
            [segment] if (segment.start, segment.end) == (start, end) => segment.value = change(Some(segment.value)),
            pieces => {
                let mut parts = Vec::with_capacity(2 * pieces.len() + 2);
                let mut at = start;
                for &mut segment in pieces {
                    let (from, to) = (segment.start.max(start), segment.end.min(end));
                    parts.push(Segment { end: start, ..segment });
                    parts.push(Segment { start: at, end: from, value: change(None) });
                    parts.push(Segment { start: from, end: to, value: change(Some(segment.value)) });
                    parts.push(Segment { start: end, ..segment });
                    at = to;
                }
                parts.push(Segment { start: at, end, value: change(None) });
                parts.retain(|part| part.start < part.end);
                self.0.splice(overlapped, parts);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compared with a value for every chunk.
        #[test]
        fn segments_behave_like_a_value_per_chunk(
            steps in prop::collection::vec((any::<bool>(), 0_u32..20, 1_u32..9, 0_u32..5), 0..40),
        ) {
            let (mut segments, mut plain) = (Segments::default(), [None; 32]);
            for (sets, start, len, value) in steps {
                let end = start + len;
                if sets {
                    segments.set(start, end, value);
                    plain[start as usize..end as usize].fill(Some(value));
                } else {
                    segments.update(start, end, |old| old.unwrap_or(7) * 3 % 11 + value);
                    plain[start as usize..end as usize]
                        .iter_mut()
                        .for_each(|chunk| *chunk = Some(chunk.unwrap_or(7) * 3 % 11 + value));
                }
                for chunk in 0..32 {
                    let found: Vec<_> = segments.overlapping(chunk, chunk + 1).iter().map(|s| s.value).collect();
                    prop_assert_eq!(found, plain[chunk as usize].into_iter().collect::<Vec<u32>>());
                }
                prop_assert!(segments.0.iter().all(|s| s.start < s.end));
                prop_assert!(segments.0.windows(2).all(|pair| pair[0].end <= pair[1].start));
            }
        }
    }
}
