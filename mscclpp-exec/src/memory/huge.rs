//! Huge pages.

use rustix::mm::{Advice, madvise};

use crate::numeric::Line;

/// From so many bytes on huge pages are asked for.
const FROM: usize = 1 << 22;

/// Asks the system to back much memory by huge pages, which many streams of data at a time need: with small ones each goes
/// through the tables of pages again every few kilobytes. Best before the memory is touched.
pub(crate) fn prefer_huge_pages(lines: &mut [Line]) {
    let (len, page) = (size_of_val(lines), rustix::param::page_size());
    let base = lines.as_mut_ptr();
    let skip = base.addr().next_multiple_of(page) - base.addr();
    let whole = len.saturating_sub(skip) / page * page;
    if len >= FROM && whole > 0 {
        // SAFETY: the pages lie in the slice, which is exclusively borrowed; the advice changes no contents. Refusal does no
        // harm.
        let _ = unsafe { madvise(base.wrapping_byte_add(skip).cast(), whole, Advice::LinuxHugepage) };
    }
}
