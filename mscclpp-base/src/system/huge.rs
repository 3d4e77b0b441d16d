//! Huge pages.

use crate::numeric::Line;

/// Asks the system to back large memory with huge pages, which many concurrent data streams need: with small ones, each
/// stream needs a page-table walk every few kilobytes. Should be called before the memory is first accessed. Systems other
/// than Linux decide themselves.
#[cfg(target_os = "linux")]
pub fn prefer_huge_pages(lines: &mut [Line]) {
    use rustix::mm::{Advice, madvise};

    /// Minimum number of bytes for which huge pages are requested.
    const MIN_BYTES: usize = 1 << 22;
    let (len, page) = (size_of_val(lines), rustix::param::page_size());
    let base = lines.as_mut_ptr();
    let skip = base.addr().next_multiple_of(page) - base.addr();
    let whole = len.saturating_sub(skip) / page * page;
    if len >= MIN_BYTES && whole > 0 {
        // SAFETY: the pages are in the slice, which is exclusively borrowed; the advice changes no contents. A failure
        // is harmless.
        let _ = unsafe { madvise(base.wrapping_byte_add(skip).cast(), whole, Advice::LinuxHugepage) };
    }
}

#[cfg(not(target_os = "linux"))]
pub fn prefer_huge_pages(_: &mut [Line]) {}
