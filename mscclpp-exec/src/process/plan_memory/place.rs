//! Places of allocations in slabs.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use mscclpp_base::shm::HUGE;

/// Where an allocation is. Every rank computes it, and the ranks compare the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct Place {
    pub(super) slab: usize,
    /// First byte in the slab.
    at: u64,
    size: Size,
    /// Bytes from the start of a part to that of the next one: computed once, because launches need it.
    stride: u64,
}

/// What an allocation consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Size {
    /// Number of local ranks that have a part.
    pub(super) parts: usize,
    /// Bytes of a part.
    pub(super) len: u64,
}

impl Size {
    /// Returns the alignment of parts in a slab: to huge pages if a part can have them. Parts have no page in common.
    pub(super) fn align(self) -> u64 {
        if self.len >= HUGE as u64 { HUGE as u64 } else { rustix::param::page_size() as u64 }
    }

    /// Returns the bytes from the start of a part to that of the next one; `u64::MAX` if the number is larger.
    fn stride(self) -> u64 {
        self.len.max(1).checked_next_multiple_of(self.align()).unwrap_or(u64::MAX)
    }

    /// Returns the bytes of all parts; `u64::MAX` if the number is larger.
    pub(super) fn total(self) -> u64 {
        self.stride().saturating_mul(self.parts as u64)
    }
}

impl Place {
    /// Returns the place of an allocation at the byte `at` of a slab.
    pub(super) fn new(slab: usize, at: u64, size: Size) -> Self {
        Self { slab, at, size, stride: size.stride() }
    }

    /// Returns the bytes of a part.
    pub(super) fn len(&self) -> u64 {
        self.size.len
    }

    /// Returns the bytes of a local rank in the slab; `None` if it has no part.
    pub(super) fn part(&self, local_rank: usize) -> Option<Range<u64>> {
        let start = self.at + self.stride * local_rank as u64;
        (local_rank < self.size.parts).then_some(start..start + self.size.len)
    }

    /// Returns the bytes of the part of a local rank with all of its pages.
    pub(super) fn pages(&self, local_rank: usize) -> Option<Range<u64>> {
        let page = rustix::param::page_size() as u64;
        self.part(local_rank).map(|part| part.start..part.end.next_multiple_of(page))
    }

    /// Returns the bytes of all parts in the slab.
    pub(super) fn range(&self) -> Range<u64> {
        self.at..self.at + self.size.total()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_pages_of_their_own() {
        let page = rustix::param::page_size() as u64;
        for len in [0, 1, page, page + 1, HUGE as u64 - 1, HUGE as u64, HUGE as u64 + 1] {
            let place = Place::new(0, HUGE as u64, Size { parts: 3, len });
            let pages: Vec<_> = (0..3).map(|local_rank| place.pages(local_rank).expect("a part")).collect();
            for (local_rank, pages) in pages.iter().enumerate() {
                let part = place.part(local_rank).expect("a part");
                assert_eq!((part.start, part.end - part.start), (pages.start, len));
                assert!(pages.start.is_multiple_of(place.size.align()) && pages.end.is_multiple_of(page));
                assert!(part.end <= pages.end && pages.end <= place.range().end);
            }
            assert!(pages.windows(2).all(|pages| pages[0].end <= pages[1].start), "{pages:?}");
            assert_eq!(place.part(3), None);
        }
    }
}
