//! Whole lines: word-aligned ones, and those that begin inside of words.

use std::marker::PhantomData;

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

/// Whole lines of a span, none of them word-aligned, which are read from the words that contain them.
#[derive(Clone, Copy)]
pub struct ShiftedLines<'m> {
    /// The word with the first byte.
    first: *const u8,
    /// Bytes of that word before the first line: 1 to 7.
    skip: u32,
    len: usize,
    memory: PhantomData<&'m Lent>,
}

impl<'m> Span<'m> {
    /// Returns whole lines from byte `at` on, within `n` bytes, if these are not word-aligned. The last line is left out if a word with a part
    /// of it is not in the slice; there are none if the word with the first byte is not.
    #[inline]
    pub fn shifted_lines(self, at: usize, n: usize) -> Option<ShiftedLines<'m>> {
        let n = n.min(self.len.checked_sub(at)?);
        let (skip, before) = (self.base.addr().wrapping_add(at) % 8, self.base.addr() - self.lent.base.addr() + at);
        let words = self.lent.len - before.checked_sub(skip)?;
        let len = (n / LINE).min(words.checked_sub(8)? / LINE);
        // SAFETY: `before` bytes of the slice are before byte `at`, and `skip` is not more.
        let first = unsafe { self.base.add(at).sub(skip) };
        (skip != 0 && len != 0).then_some(ShiftedLines { first, skip: skip as u32, len, memory: PhantomData })
    }
}

impl ShiftedLines<'_> {
    /// Returns the number of lines.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the address of the word with the first byte. As many lines from there on, and from the next word on, are in the slice.
    #[inline]
    pub(in crate::memory) fn first(&self) -> *const u8 {
        self.first
    }

    /// Returns the bits of that word before the first line.
    #[inline]
    pub(in crate::memory) fn skipped_bits(&self) -> u32 {
        8 * self.skip
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
