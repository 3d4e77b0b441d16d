//! Memory from which plans get theirs.

use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::fs::FallocateFlags;

use super::segment::system;
use super::{Segment, SharedFile};
use crate::error::Error;

/// A segment of which the ranks of a node allocate and free parts. Its length costs addresses only: a part has pages
/// from [`reserve`](Self::reserve) to [`release`](Self::release). Ranks of one process share one mapping.
pub struct Slab {
    segment: Arc<Segment>,
    file: SharedFile,
}

impl Slab {
    /// Creates a slab without pages.
    ///
    /// # Errors
    /// As [`Segment::new`].
    pub fn new(len: u64, purpose: &'static str) -> Result<Self, Error> {
        let (segment, file) = Segment::new(len, purpose)?;
        Ok(Self { segment: Arc::new(segment), file: Arc::new(file) })
    }

    /// Maps another process's slab.
    ///
    /// # Errors
    /// As [`Segment::open`].
    pub fn open(file: SharedFile, len: u64) -> Result<Self, Error> {
        Ok(Self { segment: Arc::new(Segment::open(file.as_fd(), len)?), file })
    }

    /// Allocates the pages of a part now, so that a failure is an error here and no signal later.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn reserve(&self, part: &Range<u64>, purpose: &'static str) -> Result<(), Error> {
        self.segment.reserve(&self.file, part, purpose)
    }

    /// Frees the pages of a part, which is zero from now on.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn release(&self, part: &Range<u64>) -> Result<(), Error> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&self.file, flags, part.start, part.end - part.start)
            .map_err(|errno| system("free shared memory", errno))
    }

    pub fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// Returns the file, with which other processes map the slab.
    pub(super) fn file(&self) -> &SharedFile {
        &self.file
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> u64 {
        self.segment.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::shm::SharedCacheLines;

    #[test]
    fn released_part_is_zero_in_all_mappings_and_has_no_pages() {
        let page = rustix::param::page_size() as u64;
        let one = Slab::new(8 * page, "a test").unwrap();
        let two = Slab::open(Arc::clone(one.file()), 8 * page).unwrap();
        let blocks = || rustix::fs::fstat(one.file()).unwrap().st_blocks as u64 * 512;
        assert_eq!(blocks(), 0);
        one.reserve(&(page..5 * page), "a test").unwrap();
        assert_eq!(blocks(), 4 * page);
        let lines = SharedCacheLines::new(Arc::clone(two.segment()), page..5 * page);
        let count = (4 * page / 64) as usize;
        (0..count).for_each(|line| lines.at(line).store(1, Relaxed));
        one.release(&(page..3 * page)).unwrap();
        let kept: Vec<_> = (0..count).filter(|&line| lines.at(line).load(Relaxed) == 1).collect();
        assert_eq!(kept, (count / 2..count).collect::<Vec<_>>());
        two.release(&(page..5 * page)).unwrap();
        assert_eq!(blocks(), 0);
    }
}
