//! Whole word-aligned lines.

use super::Span;
use crate::memory::table::Lent;
use crate::memory::unit;
use crate::numeric::{LINE, Line};

/// Whole lines of a span, each word-aligned.
#[derive(Clone, Copy)]
pub struct Lines<'m> {
    base: *mut u8,
    len: usize,
    lent: &'m Lent,
}

impl<'m> Span<'m> {
    /// Returns the bytes `at..at + n` as lines, if they are whole lines and word-aligned. Accessing these is much
    /// faster than line by line.
    #[inline(always)]
    pub fn lines(self, at: usize, n: usize) -> Option<Lines<'m>> {
        let inside = at.checked_add(n).is_some_and(|end| end <= self.len);
        let base = self.base.wrapping_add(at);
        let whole = inside && n.is_multiple_of(LINE) && base.addr().is_multiple_of(8);
        whole.then_some(Lines { base, len: n / LINE, lent: self.lent })
    }
}

impl Lines<'_> {
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    pub fn load(&self, i: usize) -> Line {
        assert!(i < self.len, "line {i} of {}", self.len);
        // SAFETY: as in `Span::load`: the line is in the span and word-aligned.
        unsafe { unit::load_line(self.base.add(LINE * i), self.lent.shared) }
    }

    /// Reads lines, up to the number of lines of the shorter operand.
    #[inline(always)]
    pub fn load_into(self, block: &mut [Line]) {
        for (i, line) in block.iter_mut().take(self.len).enumerate() {
            *line = self.load(i);
        }
    }

    /// Writes lines, up to the number of lines of the shorter operand; none if the slice is lent for reading only.
    #[inline(always)]
    pub fn store_from(self, block: &[Line]) {
        if self.lent.shared {
            return;
        }
        for (i, &line) in block.iter().take(self.len).enumerate() {
            // SAFETY: as in `Span::store`: `i` is less than the number of lines, so the line is in the span; it is
            // word-aligned, and the slice is not shared.
            unsafe { unit::store_line(self.base.add(LINE * i), line) };
        }
    }

    /// Returns the address of the first byte.
    #[inline(always)]
    pub(in crate::memory) fn base(&self) -> *mut u8 {
        self.base
    }

    /// Returns the length of the slice that contains the lines, in bytes.
    #[cfg(all(target_arch = "x86_64", not(any(miri, portable_memory))))]
    #[inline(always)]
    pub(in crate::memory) fn slice_len(&self) -> usize {
        self.lent.len
    }

    /// Returns whether the lines may only be read.
    #[inline(always)]
    pub(in crate::memory) fn is_shared(&self) -> bool {
        self.lent.shared
    }
}
