//! Ranges of lent slices.

mod lines;
mod packets;
mod parts;
#[cfg(feature = "process")]
mod stream;
#[cfg(test)]
mod tests;

pub use self::lines::{Lines, ShiftedLines};
use super::table::Lent;
use super::unit;
use crate::numeric::{LINE, Line};

/// A range of bytes of a lent slice.
///
/// Reads past its end return zeros, writes past it are dropped: a span represents a longer, padded one.
#[derive(Clone, Copy)]
pub struct Span<'m> {
    /// First byte of the range.
    base: *mut u8,
    len: usize,
    /// The slice that contains it: units are words inside of the slice, bytes at its ends.
    lent: &'m Lent,
}

impl<'m> Span<'m> {
    /// An empty span.
    pub const EMPTY: Self = Self { base: Lent::EMPTY.base, len: 0, lent: &Lent::EMPTY };

    #[inline]
    pub(super) fn new(lent: &'m Lent) -> Self {
        Self { base: lent.base, len: lent.len, lent }
    }

    /// Returns the number of bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the bytes may be written.
    pub fn is_writable(&self) -> bool {
        !self.lent.shared
    }

    /// Returns the addresses of the bytes.
    #[cfg(feature = "process")]
    pub fn addresses(&self) -> std::ops::Range<usize> {
        self.base.addr()..self.base.addr() + self.len
    }

    /// Returns the bytes `at..at + len`, truncated at the end of this span.
    #[inline(always)]
    pub fn range(self, at: u64, len: u64) -> Self {
        let at = at.min(self.len as u64) as usize;
        let len = len.min((self.len - at) as u64) as usize;
        // SAFETY: `at` is at most the span's length, so the sum stays in the slice or one past its end.
        Self { base: unsafe { self.base.add(at) }, len, lent: self.lent }
    }

    /// Returns the number of bytes before the first word boundary.
    #[inline(always)]
    pub fn before_word(self) -> usize {
        self.base.addr().wrapping_neg() % 8
    }

    /// Returns the number of bytes before the first line boundary.
    #[inline(always)]
    pub fn before_line(self) -> usize {
        self.base.addr().wrapping_neg() % LINE
    }

    /// Reads `n` bytes from `at` on, at most a line; the rest of the line is zero.
    #[inline(always)]
    pub fn load(self, at: usize, n: usize) -> Line {
        if n == LINE && self.has_line(at) {
            // SAFETY: the line is in the span and word-aligned. The span is in a slice that is lent for at least `'m`;
            // if shared no thread writes to it, else all accesses are in units, and words inside a slice are units.
            return unsafe { unit::load_line(self.base.add(at), self.lent.shared) };
        }
        self.load_units(at, n)
    }

    /// Writes the first `n` bytes of a line from `at` on.
    #[inline(always)]
    pub fn store(self, at: usize, n: usize, line: Line) {
        if n == LINE && self.has_line(at) && !self.lent.shared {
            // SAFETY: as in `load`, and not shared.
            return unsafe { unit::store_line(self.base.add(at), line) };
        }
        self.store_units(at, n, line);
    }

    /// Appends the first `n` bytes to `to`.
    pub fn read(self, n: usize, to: &mut Vec<u8>) {
        to.reserve(n);
        let line = |at: usize, n: usize| -> [u8; LINE] { bytemuck::cast(self.load(at, n)) };
        for at in (0..n / LINE).map(|i| i * LINE) {
            to.extend_from_slice(&line(at, LINE));
        }
        let rest = n % LINE;
        to.extend_from_slice(&line(n - rest, rest)[..rest]);
    }

    /// Writes bytes, from the first one on.
    pub fn write(self, bytes: &[u8]) {
        let (lines, rest) = bytes.as_chunks::<LINE>();
        for (i, line) in lines.iter().enumerate() {
            self.store(i * LINE, LINE, bytemuck::cast::<_, Line>(*line));
        }
        let mut line = [0; LINE];
        line[..rest.len()].copy_from_slice(rest);
        self.store(lines.len() * LINE, rest.len(), bytemuck::cast::<_, Line>(line));
    }

    #[inline(always)]
    fn has_line(self, at: usize) -> bool {
        at.checked_add(LINE).is_some_and(|end| end <= self.len) && self.base.addr().wrapping_add(at).is_multiple_of(8)
    }
}
