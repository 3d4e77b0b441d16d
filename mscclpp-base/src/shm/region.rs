//! Memory that is left to a library.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::Segment;

/// Bytes of a segment at addresses at which this process itself accesses nothing. So a library may access them at any time while
/// it has this, as another process may that has mapped the segment.
pub struct Region {
    mapping: Arc<Segment>,
    at: usize,
    len: usize,
}

impl Region {
    /// Returns the address of the first byte.
    pub fn base(&self) -> *mut u8 {
        self.mapping.base().as_ptr().wrapping_add(self.at)
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the addresses of the bytes.
    pub fn addresses(&self) -> Range<usize> {
        let first = self.base().addr();
        first..first + self.len
    }
}

/// The second mapping of a part of a segment, which is made when it is first needed.
#[derive(Default)]
pub struct SecondMapping(OnceLock<Option<Arc<Segment>>>);

impl SecondMapping {
    /// Returns the bytes at the given addresses of a segment as a region. `None` if they are not in its part `part`, which is always
    /// the same, or the system cannot map it.
    ///
    /// # Panics
    /// As [`Segment::map_again`].
    pub fn region(&self, segment: &Segment, part: &Range<u64>, addresses: &Range<usize>) -> Option<Region> {
        let first = segment.base().addr().get() + part.start as usize;
        let at = addresses.start.checked_sub(first)?;
        let len = addresses.end.checked_sub(addresses.start)?;
        if at + len > (part.end - part.start) as usize {
            return None;
        }
        let mapping = self.0.get_or_init(|| segment.map_again(part).map(Arc::new)).clone()?;
        Some(Region { mapping, at, len })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_bytes_of_their_part() {
        let page = rustix::param::page_size();
        let segment = Segment::new(4 * page as u64, "a test").expect("memory");
        let (segment, part) = (segment.0, page as u64..3 * page as u64);
        let first = segment.base().addr().get();
        let second = SecondMapping::default();
        let region = |range: Range<usize>| second.region(&segment, &part, &(first + range.start..first + range.end));
        let all = region(page..3 * page).expect("the part");
        let end = region(2 * page + 8..3 * page).expect("its end");
        assert_eq!((end.base().addr() - all.base().addr(), end.len()), (page + 8, page - 8));
        assert!(!(first..first + 4 * page).contains(&all.base().addr()));
        assert!(region(page - 1..page + 1).is_none() && region(2 * page..3 * page + 1).is_none());
        assert_eq!(end.addresses().end, all.addresses().end);
    }
}
