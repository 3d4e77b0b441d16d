//! Accesses unit by unit to bytes that are not a whole word-aligned line.

use super::Span;
use crate::memory::unit;
use crate::numeric::{LINE, Line};

/// A unit of access.
enum Unit {
    Word(*mut u8),
    Byte(*mut u8),
}

impl Span<'_> {
    /// Returns the number of whole words at the start of `n` bytes from `at` on, if they are word-aligned.
    #[inline(always)]
    fn whole_words(self, at: usize, n: usize) -> usize {
        let aligned = self.base.addr().wrapping_add(at).is_multiple_of(8);
        if aligned { n.min(LINE).min(self.len.saturating_sub(at)) / 8 } else { 0 }
    }

    #[inline(never)]
    pub(super) fn load_units(self, at: usize, n: usize) -> Line {
        if n == LINE
            && let Some(line) = self.load_across(at)
        {
            return line;
        }
        if n < LINE
            && let Some(line) = self.load_within(at, n)
        {
            return line;
        }
        let mut line = Line::ZERO;
        let words = self.whole_words(at, n);
        for (i, word) in line.0[..words].iter_mut().enumerate() {
            // SAFETY: the word is in the span; the rest is as in `load`.
            *word = unsafe { unit::load_word(self.base.add(at + 8 * i), self.lent.shared) };
        }
        if 8 * words < n.min(LINE) { self.load_rest(at, n, line) } else { line }
    }

    /// Reads a line that is not word-aligned from the nine words that contain it; `None` if not all of these words are
    /// in the slice, or the line is not in the span.
    #[inline(always)]
    fn load_across(self, at: usize) -> Option<Line> {
        let end = at.checked_add(LINE).filter(|end| *end <= self.len)?;
        let skip = self.base.addr().wrapping_add(at) % 8;
        let before = self.base.addr() - self.lent.base.addr() + at;
        let after = self.lent.len - (before - at) - end;
        if skip == 0 || before < skip || after < 8 - skip {
            return None;
        }
        // SAFETY: all bytes from `skip` bytes before the line to `8 - skip` bytes after it are in the slice, and the
        // first of them is word-aligned; the rest is as in `load`.
        let (first, last) = unsafe {
            let first = self.base.add(at).sub(skip);
            (unit::load_line(first, self.lent.shared), unit::load_word(first.add(LINE), self.lent.shared))
        };
        let (low, high) = (8 * skip as u32, 64 - 8 * skip as u32);
        let words = first.0.map(u64::to_le);
        let next = |i: usize| words.get(i + 1).copied().unwrap_or(last.to_le());
        Some(Line(std::array::from_fn(|i| u64::from_le(words[i] >> low | next(i) << high))))
    }

    /// Reads less than a line from the words that contain it, at most nine; `None` if not all of these words are in the slice, or the bytes
    /// are not in the span.
    #[inline(always)]
    fn load_within(self, at: usize, n: usize) -> Option<Line> {
        let end = at.checked_add(n).filter(|end| *end <= self.len)?;
        let skip = self.base.addr().wrapping_add(at) % 8;
        let count = (skip + n).div_ceil(8);
        let before = self.base.addr() - self.lent.base.addr() + at;
        let after = self.lent.len - (before - at) - end;
        if before < skip || after < 8 * count - skip - n {
            return None;
        }
        let mut words = [0_u64; 9];
        for (i, word) in words[..count].iter_mut().enumerate() {
            // SAFETY: all bytes of the words from `skip` bytes before the first byte on are in the slice, and the first word is aligned;
            // the rest is as in `load`.
            *word = unsafe { unit::load_word(self.base.add(at).sub(skip).add(8 * i), self.lent.shared) }.to_le();
        }
        let low = 8 * skip as u32;
        let shifted = |i: usize| words[i] >> low | words[i + 1] << 1 << (63 - low);
        // The rest of the line is zero.
        let kept = |i: usize| match n.saturating_sub(8 * i) {
            0 => 0,
            bytes @ 1..8 => u64::MAX >> (64 - 8 * bytes),
            _ => u64::MAX,
        };
        Some(Line(std::array::from_fn(|i| u64::from_le(shifted(i) & kept(i)))))
    }

    #[cold]
    #[inline(never)]
    fn load_rest(self, at: usize, n: usize, line: Line) -> Line {
        let mut bytes: [u8; LINE] = bytemuck::cast(line);
        self.for_each_unit(at, n, |unit, skip, count, done| {
            let value = match unit {
                // SAFETY: the word is in the slice; the rest is as in `load`.
                Unit::Word(at) => unsafe { unit::load_word(at, self.lent.shared) }.to_ne_bytes(),
                // SAFETY: the byte is in the slice, and its word is not; the rest is as in `load`.
                Unit::Byte(at) => [unsafe { unit::load_byte(at, self.lent.shared) }; 8],
            };
            bytes[done..done + count].copy_from_slice(&value[skip..skip + count]);
        });
        bytemuck::cast(bytes)
    }

    #[inline(never)]
    pub(super) fn store_units(self, at: usize, n: usize, line: Line) {
        if self.lent.shared {
            return;
        }
        let words = self.whole_words(at, n);
        for (i, &word) in line.0[..words].iter().enumerate() {
            // SAFETY: the word is in the span, whose slice is lent for writing and accessed in units only.
            unsafe { unit::store_word(self.base.add(at + 8 * i), word, u64::MAX) };
        }
        if 8 * words < n.min(LINE) {
            self.store_rest(at, n, line);
        }
    }

    #[cold]
    #[inline(never)]
    fn store_rest(self, at: usize, n: usize, line: Line) {
        let bytes: [u8; LINE] = bytemuck::cast(line);
        self.for_each_unit(at, n, |unit, skip, count, done| {
            let bytes = &bytes[done..done + count];
            match unit {
                Unit::Word(at) => {
                    let (mut value, mut mask) = ([0; 8], [0; 8]);
                    value[skip..skip + count].copy_from_slice(bytes);
                    mask[skip..skip + count].fill(0xff);
                    // SAFETY: the word is in the slice, which is lent for writing and accessed in units only.
                    unsafe { unit::store_word(at, u64::from_ne_bytes(value), u64::from_ne_bytes(mask)) };
                }
                // SAFETY: the byte is in such a slice, and its word is not.
                Unit::Byte(at) => unsafe { unit::store_byte(at, bytes[0]) },
            }
        });
    }

    /// Calls `f(unit, first byte in it, number of bytes, bytes done before)` for the units of `n` bytes from `at` on.
    #[inline(always)]
    fn for_each_unit(self, at: usize, n: usize, mut f: impl FnMut(Unit, usize, usize, usize)) {
        let n = n.min(LINE).min(self.len.saturating_sub(at));
        let slice = self.lent.base;
        let (first, end) = (slice.addr(), slice.addr() + self.lent.len);
        let start = self.base.addr() + at;
        let mut done = 0;
        while done < n {
            let here = start + done;
            let word = here & !7;
            // The pointer keeps the provenance of the slice; the offset is in it.
            if word >= first && word + 8 <= end {
                let (skip, count) = (here - word, (8 - (here - word)).min(n - done));
                f(Unit::Word(slice.wrapping_add(word - first)), skip, count, done);
                done += count;
            } else {
                f(Unit::Byte(slice.wrapping_add(here - first)), 0, 1, done);
                done += 1;
            }
        }
    }
}
