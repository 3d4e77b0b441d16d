//! A mapped anonymous file.

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MremapFlags, ProtFlags};
use rustix::process::{Pid, getpid};

use crate::error::Error;
use crate::memory::{check_available, no_memory, out_of_memory};
use crate::system::limits::{exceeded_by_descriptor, exceeded_by_file};

/// Memory that several processes can map, and that this one has mapped. It keeps no descriptor, because a process has
/// few of them.
pub struct Segment {
    base: NonNull<u8>,
    len: usize,
    /// Length of the mapping, in bytes of whole pages.
    mapped: usize,
    /// The process that has the mapping. Copies of it, made by `fork`, do not have it.
    process: Pid,
}

// SAFETY: the mapping belongs to the whole process and does not move until the segment is dropped.
unsafe impl Send for Segment {}
// SAFETY: a shared reference provides only the address and the length; each access to the memory has its own argument.
unsafe impl Sync for Segment {}

/// Length from which a segment is mapped in huge pages, if the system has any: that of one.
pub const HUGE: usize = 1 << 21;

impl Segment {
    /// Creates zeroed memory, and its file, with which other processes map it. The system allocates pages when they are
    /// first accessed; [`reserve`](Self::reserve) allocates them before, and checks whether there is enough memory.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::LimitExceeded`], [`Error::System`].
    pub fn new(len: u64, purpose: &'static str) -> Result<(Self, OwnedFd), Error> {
        let file = rustix::fs::memfd_create("mscclpp", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
            .map_err(|errno| system("create a segment of shared memory", errno))?;
        let mapped = pages(len).ok_or_else(|| no_memory(len, purpose, false))?;
        // A longer file than the process may have is a signal, not an error.
        if let Some(limit) = exceeded_by_file(mapped as u64) {
            return Err(Error::LimitExceeded { what: format!("allocate {len} bytes of {purpose}"), limit });
        }
        rustix::fs::ftruncate(&file, mapped as u64)
            .map_err(|errno| system("set the length of a segment of shared memory", errno))?;
        // No process that receives the descriptor can remove pages from the others' mappings.
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)
            .map_err(|errno| system("seal a segment of shared memory", errno))?;
        Ok((Self::map(file.as_fd(), len, mapped, purpose)?, file))
    }

    /// Maps another rank's segment of `len` bytes.
    ///
    /// # Errors
    /// [`Error::System`] if it is not a sealed segment of that length, [`Error::LimitExceeded`] if there are no addresses
    /// left.
    pub fn open(file: BorrowedFd<'_>, len: u64) -> Result<Self, Error> {
        let what = "open a peer's segment of shared memory";
        let seals = rustix::fs::fcntl_get_seals(file).map_err(|errno| system(what, errno))?;
        let size = rustix::fs::fstat(file).map_err(|errno| system(what, errno))?.st_size;
        let mapped = pages(len).filter(|&mapped| size == mapped as i64 && seals.contains(SealFlags::SHRINK));
        let mapped = mapped.ok_or_else(|| Error::System {
            what: what.into(),
            reason: format!("it has {size} bytes or can shrink, expected {len} bytes, sealed"),
        })?;
        Self::map(file, len, mapped, "a peer's buffers")
    }

    fn map(file: BorrowedFd<'_>, len: u64, mapped: usize, purpose: &'static str) -> Result<Self, Error> {
        // SAFETY: a new mapping at an address that the system chooses replaces no other mapping.
        let base = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                mapped,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                file,
                0,
            )
        };
        let base = base.ok().and_then(|base| NonNull::new(base.cast::<u8>()));
        let base = base.ok_or_else(|| no_memory(len, purpose, false))?;
        Ok(Self::of_mapping(base, len as usize, mapped))
    }

    /// `base`: a new mapping of `mapped` bytes, which the segment owns.
    fn of_mapping(base: NonNull<u8>, len: usize, mapped: usize) -> Self {
        // SAFETY: the range is a mapping that nothing else uses; the advice concerns copies of this process only.
        let _ = unsafe { rustix::mm::madvise(base.as_ptr().cast(), mapped, Advice::LinuxDontFork) };
        if mapped >= HUGE {
            // SAFETY: the range is a mapping that nothing else uses; the advice changes no contents. A failure is harmless.
            let _ = unsafe { rustix::mm::madvise(base.as_ptr().cast(), mapped, Advice::LinuxHugepage) };
        }
        Self { base, len, mapped, process: getpid() }
    }

    /// Maps a part of the memory once more, at other addresses. `None` if the system cannot, for example where the first page of the part
    /// was [replaced](Self::replace_pages).
    ///
    /// # Panics
    /// If the part does not begin at a page boundary, or is not in the segment.
    pub fn map_again(&self, part: &Range<u64>) -> Option<Self> {
        let (page, end) = (rustix::param::page_size() as u64, self.len as u64);
        assert!(
            part.start.is_multiple_of(page) && part.start <= part.end && part.end <= end,
            "bytes {part:?} of {end} bytes"
        );
        let mapped = pages(part.end - part.start)?;
        let first = self.base.as_ptr().wrapping_add(part.start as usize).cast();
        // SAFETY: with an old length of 0, the mapping of the part stays, and its shared pages are mapped at an address that the system
        // chooses, where nothing else is.
        let base = unsafe { rustix::mm::mremap(first, 0, mapped, MremapFlags::MAYMOVE) };
        let base = NonNull::new(base.ok()?.cast::<u8>())?;
        Some(Self::of_mapping(base, (part.end - part.start) as usize, mapped))
    }

    /// Allocates the pages of a part now, so that a failure is an error here and no signal later. `file`: the segment's
    /// own.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    ///
    /// # Panics
    /// If the part is not in the segment.
    pub fn reserve(&self, file: &OwnedFd, part: &Range<u64>, purpose: &'static str) -> Result<(), Error> {
        let bytes = part.end - part.start;
        check_available(bytes, purpose)?;
        let (mut done, end) = (part.start as usize, (part.end as usize).next_multiple_of(rustix::param::page_size()));
        assert!(end <= self.mapped, "bytes {part:?} of a segment of {} bytes", self.len);
        let mut len = end - done;
        while done < end {
            len = len.min(end - done);
            match rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, done as u64, len as u64) {
                Ok(()) => done += len,
                // Interrupted by a signal, for example a profiler's, under Linux before 2025: nothing of the range was
                // allocated, and the next signal may come as soon.
                Err(Errno::INTR) => len = (len / 2).next_multiple_of(rustix::param::page_size()),
                Err(Errno::NOSPC | Errno::NOMEM) => {
                    return Err(out_of_memory(bytes, purpose));
                }
                Err(other) => return Err(system("reserve shared memory", other)),
            }
        }
        Ok(())
    }

    /// Returns whether a part is alone in its pages: they contain nothing else of the segment.
    #[inline]
    pub fn has_own_pages(&self, part: &Range<u64>) -> bool {
        let page = rustix::param::page_size() as u64;
        let ends = part.end.is_multiple_of(page) || part.end == self.len as u64;
        !part.is_empty() && part.start.is_multiple_of(page) && ends
    }

    /// Replaces the pages of a part that is [alone in them](Self::has_own_pages) by other, zeroed memory at the same
    /// addresses: from now on no other process can access it.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] and [`Error::LimitExceeded`] if the system has no memory for that, [`Error::System`].
    ///
    /// # Panics
    /// If the part is not alone in its pages, or not in the segment.
    pub fn replace_pages(&self, part: Range<u64>) -> Result<(), Error> {
        assert!(
            part.end <= self.len as u64 && self.has_own_pages(&part),
            "bytes {part:?} of a segment of {} bytes",
            self.len
        );
        let Some(len) = pages(part.end - part.start) else { return Ok(()) };
        // SAFETY: the range is in this segment's mapping, whose length is in whole pages, and stays mapped all the
        // time. Memory that becomes zero while another owner holds a reference to it would be a race; these pages
        // contain nothing but the part, to which the caller alone has access in this process; accesses in atomic units
        // may see any value.
        let result = unsafe {
            rustix::mm::mmap_anonymous(
                self.base.as_ptr().wrapping_add(part.start as usize).cast(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::FIXED,
            )
        };
        result.map(drop).map_err(|errno| match errno {
            Errno::NOMEM => no_memory(len as u64, "memory that replaces a shared buffer", true),
            other => system("unmap a buffer from its peers", other),
        })
    }

    /// Returns the address of the first byte, which is page-aligned.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // In a copy of the process, other memory may be at these addresses.
        if getpid() != self.process {
            return;
        }
        // By this function, because UCX replaces it to learn which memory it must not use any more.
        // SAFETY: the mapping was made by `map` or `map_again`, or replaced by `replace_pages`, and nothing else unmaps it. Owners of
        // references to its memory keep the segment alive.
        let _ = unsafe { libc::munmap(self.base.as_ptr().cast(), self.mapped) };
    }
}

/// Rounds a length up to whole pages, at least one; `None` if the result exceeds `isize::MAX`.
fn pages(len: u64) -> Option<usize> {
    let bytes = len.max(1).checked_next_multiple_of(rustix::param::page_size() as u64)?;
    usize::try_from(bytes).ok().filter(|&bytes| bytes <= isize::MAX as usize)
}

pub fn system(what: &str, errno: Errno) -> Error {
    match exceeded_by_descriptor(errno) {
        Some(limit) => Error::LimitExceeded { what: what.to_owned(), limit },
        None => Error::System { what: what.to_owned(), reason: errno.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shm::SharedCacheLines;
    use std::sync::Arc;
    use std::sync::atomic::Ordering::Relaxed;

    fn lines(segment: &Arc<Segment>) -> SharedCacheLines {
        SharedCacheLines::new(Arc::clone(segment), 0..segment.len() as u64)
    }

    #[test]
    fn two_mappings_share_their_memory() {
        let (one, file) = Segment::new(5000, "a test").unwrap();
        let (one, two) = (Arc::new(one), Arc::new(Segment::open(file.as_fd(), 5000).unwrap()));
        assert_ne!(one.base(), two.base());
        let (one, two) = (lines(&one), lines(&two));
        one.at(7).store(42, Relaxed);
        assert_eq!(two.at(7).load(Relaxed), 42);
    }

    #[test]
    fn replaced_pages_are_detached_from_peers() {
        let (one, file) = Segment::new(100, "a test").unwrap();
        let (one, two) = (Arc::new(one), Arc::new(Segment::open(file.as_fd(), 100).unwrap()));
        let (one_cells, two) = (lines(&one), lines(&two));
        two.at(0).store(1, Relaxed);
        one.replace_pages(0..100).unwrap();
        assert_eq!(one_cells.at(0).load(Relaxed), 0);
        two.at(0).store(2, Relaxed);
        assert_eq!(one_cells.at(0).load(Relaxed), 0);
    }

    #[test]
    fn second_mapping_shares_a_part_until_its_pages_are_replaced() {
        let page = rustix::param::page_size() as u64;
        let segment = Arc::new(Segment::new(3 * page, "a test").unwrap().0);
        let again = Arc::new(segment.map_again(&(page..3 * page)).expect("another mapping"));
        assert_eq!(again.len() as u64, 2 * page);
        let (one, two) = (lines(&segment), lines(&again));
        let first = page as usize / 64;
        one.at(first).store(1, Relaxed);
        two.at(1).store(2, Relaxed);
        assert_eq!((two.at(0).load(Relaxed), one.at(first + 1).load(Relaxed)), (1, 2));
        segment.replace_pages(page..3 * page).unwrap();
        two.at(2).store(3, Relaxed);
        assert_eq!((two.at(0).load(Relaxed), one.at(first).load(Relaxed), one.at(first + 2).load(Relaxed)), (1, 0, 0));
        assert!(segment.map_again(&(page..3 * page)).is_none(), "no memory that is shared");
    }

    #[test]
    fn only_parts_alone_in_their_pages_can_be_replaced() {
        let page = rustix::param::page_size() as u64;
        let segment = Arc::new(Segment::new(3 * page + 64, "a test").unwrap().0);
        let cells = lines(&segment);
        let lines = page as usize / 64;
        (0..3 * lines + 1).for_each(|line| cells.at(line).store(1, Relaxed));
        segment.replace_pages(page..2 * page).unwrap();
        segment.replace_pages(3 * page..3 * page + 64).unwrap();
        let left: Vec<_> = (0..3 * lines + 1).filter(|&line| cells.at(line).load(Relaxed) == 1).collect();
        assert_eq!(left, (0..lines).chain(2 * lines..3 * lines).collect::<Vec<_>>());
        for shared in [0..0, 0..page - 64, 64..page, 2 * page..3 * page + 32] {
            assert!(!segment.has_own_pages(&shared), "{shared:?}");
        }
    }

    #[test]
    fn only_sealed_files_of_the_expected_length_are_opened() {
        let (_, file) = Segment::new(100, "a test").unwrap();
        let wrong = Segment::open(file.as_fd(), 1 << 20);
        assert!(matches!(wrong, Err(Error::System { .. })));
        let file = rustix::fs::memfd_create("loose", MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, 4096).unwrap();
        assert!(matches!(Segment::open(file.as_fd(), 100), Err(Error::System { .. })));
    }

    #[test]
    fn too_much_memory_is_an_error() {
        assert!(matches!(Segment::new(1 << 60, "a test"), Err(Error::OutOfMemory { .. })));
        assert!(matches!(Segment::new(u64::MAX, "a test"), Err(Error::OutOfMemory { .. })));
    }
}
