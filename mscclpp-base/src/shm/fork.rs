//! Detects that this process is a copy of the one that connected the ranks, made by `fork`.

use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use rustix::mm::{Advice, MapFlags, ProtFlags};
use rustix::process::{Pid, getpid};

/// A mark of the process that created it, which a copy of the process does not have. Reading it costs one load.
pub struct ProcessMark {
    /// A page that the system clears in copies of this process; `None` if it cannot.
    page: Option<NonNull<AtomicU32>>,
    process: Pid,
}

// SAFETY: the page belongs to the whole process, is accessed as an atomic only, and does not move until the mark is dropped.
unsafe impl Send for ProcessMark {}
// SAFETY: as above.
unsafe impl Sync for ProcessMark {}

impl ProcessMark {
    /// Marks this process.
    #[allow(clippy::new_without_default, reason = "each is another one")]
    pub fn new() -> Self {
        let len = rustix::param::page_size();
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping at an address that the system chooses replaces no other mapping.
        let page = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), len, access, flags) };
        let page = page.ok().and_then(|page| NonNull::new(page.cast::<AtomicU32>()));
        let mark = Self { page, process: getpid() };
        let Some(page) = page else { return mark };
        // SAFETY: the range is the mapping made above, which nothing else uses.
        if unsafe { rustix::mm::madvise(page.as_ptr().cast(), len, Advice::LinuxWipeOnFork) }.is_err() {
            return Self { page: None, process: mark.process };
        }
        // SAFETY: the page is mapped, aligned and zeroed.
        unsafe { page.as_ref() }.store(1, Relaxed);
        mark
    }

    /// Returns whether this process is a copy of the one that created the mark.
    #[inline]
    pub fn is_copy(&self) -> bool {
        match self.page {
            // SAFETY: copies of this process have the mapping too, with zeros.
            Some(page) => unsafe { page.as_ref() }.load(Relaxed) == 0,
            None => getpid() != self.process,
        }
    }
}

impl Drop for ProcessMark {
    fn drop(&mut self) {
        if let Some(page) = self.page {
            // SAFETY: the mapping was made by `new`, copies of this process have it too, and nothing else unmaps it.
            let _ = unsafe { rustix::mm::munmap(page.as_ptr().cast(), rustix::param::page_size()) };
        }
    }
}
