//! Ranges of lent slices.

use std::marker::PhantomData;
use std::sync::atomic::Ordering::Relaxed;

use super::table::Lent;
use super::unit;
use crate::numeric::{LINE, Line};

/// A range of bytes of a lent slice.
///
/// Reads behind its end give zeros, writes there are dropped: a span stands for a longer, padded one.
#[derive(Clone, Copy)]
pub(crate) struct Span<'m> {
    /// First byte of the range.
    base: *mut u8,
    len: usize,
    /// The slice that it lies in: units are words inside of it, bytes at its ends.
    lent: &'m Lent,
}

impl<'m> Span<'m> {
    /// A span of no bytes.
    pub(crate) const EMPTY: Self = Self { base: Lent::NOTHING.base, len: 0, lent: &Lent::NOTHING };

    #[inline]
    pub(super) fn new(lent: &'m Lent) -> Self {
        Self { base: lent.base, len: lent.len, lent }
    }

    /// Number of bytes.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The bytes `at..at + len`, cut off at the end of this span.
    #[inline(always)]
    pub(crate) fn range(self, at: u64, len: u64) -> Self {
        let at = at.min(self.len as u64) as usize;
        let len = len.min((self.len - at) as u64) as usize;
        // SAFETY: `at` is at most the span's length, so the sum stays in the slice or one behind it.
        Self { base: unsafe { self.base.add(at) }, len, lent: self.lent }
    }

    /// Bytes before the first one that begins a word.
    #[inline(always)]
    pub(crate) fn before_word(self) -> usize {
        self.base.addr().wrapping_neg() % 8
    }

    /// `n` bytes from `at` on, at most a line; the rest of the line is zero.
    #[inline(always)]
    pub(crate) fn load(self, at: usize, n: usize) -> Line {
        if n == LINE && self.has_line(at) {
            // SAFETY: the line lies in the span and begins on a word. The span lies in a slice that is lent for at least
            // `'m`; if shared nobody writes to it, else all accesses are in units, and words inside a slice are units.
            return unsafe { unit::load_line(self.base.add(at), self.lent.shared) };
        }
        self.load_units(at, n)
    }

    /// Writes the first `n` bytes of a line from `at` on.
    #[inline(always)]
    pub(crate) fn store(self, at: usize, n: usize, line: Line) {
        if n == LINE && self.has_line(at) && !self.lent.shared {
            // SAFETY: as in `load`, and not shared.
            return unsafe { unit::store_line(self.base.add(at), line) };
        }
        self.store_units(at, n, line);
    }

    /// The bytes `at..at + n` as whole lines, if they are that and begin on a word. Much faster than line by line.
    #[inline(always)]
    pub(crate) fn lines(self, at: usize, n: usize) -> Option<Lines<'m>> {
        let inside = at.checked_add(n).is_some_and(|end| end <= self.len);
        let base = self.base.wrapping_add(at);
        let whole = inside && n.is_multiple_of(LINE) && base.addr().is_multiple_of(8);
        whole.then_some(Lines { base, len: n / LINE, lent: self.lent })
    }

    #[inline(always)]
    fn has_line(self, at: usize) -> bool {
        at.checked_add(LINE).is_some_and(|end| end <= self.len) && self.base.addr().wrapping_add(at).is_multiple_of(8)
    }

    /// Words that `n` bytes from `at` on begin with, if they begin on one.
    #[inline(always)]
    fn whole_words(self, at: usize, n: usize) -> usize {
        let aligned = self.base.addr().wrapping_add(at).is_multiple_of(8);
        if aligned { n.min(LINE).min(self.len.saturating_sub(at)) / 8 } else { 0 }
    }

    #[inline(never)]
    fn load_units(self, at: usize, n: usize) -> Line {
        if n == LINE
            && let Some(line) = self.load_across(at)
        {
            return line;
        }
        let mut line = Line::ZERO;
        let words = self.whole_words(at, n);
        for (i, word) in line.0[..words].iter_mut().enumerate() {
            // SAFETY: the word lies in the span; the rest is as in `load`.
            *word = unsafe { unit::load_word(self.base.add(at + 8 * i), self.lent.shared) };
        }
        if 8 * words < n.min(LINE) { self.load_rest(at, n, line) } else { line }
    }

    /// A line that does not begin on a word, put together from the nine words that it lies in; `None` if these, or the line, are
    /// not all there.
    #[inline(always)]
    fn load_across(self, at: usize) -> Option<Line> {
        let end = at.checked_add(LINE).filter(|end| *end <= self.len)?;
        let skip = self.base.addr().wrapping_add(at) % 8;
        let before = self.base.addr() - self.lent.base.addr() + at;
        let behind = self.lent.len - (before - at) - end;
        if skip == 0 || before < skip || behind < 8 - skip {
            return None;
        }
        // SAFETY: from `skip` bytes before the line to `8 - skip` behind it all bytes lie in the slice, and the first of them
        // begins a word; the rest is as in `load`.
        let (first, last) = unsafe {
            let first = self.base.add(at).sub(skip);
            (unit::load_line(first, self.lent.shared), unit::load_word(first.add(LINE), self.lent.shared))
        };
        let (low, high) = (8 * skip as u32, 64 - 8 * skip as u32);
        let words = first.0.map(u64::to_le);
        let next = |i: usize| words.get(i + 1).copied().unwrap_or(last.to_le());
        Some(Line(std::array::from_fn(|i| u64::from_le(words[i] >> low | next(i) << high))))
    }

    #[cold]
    #[inline(never)]
    fn load_rest(self, at: usize, n: usize, line: Line) -> Line {
        let mut bytes: [u8; LINE] = bytemuck::cast(line);
        self.for_each_unit(at, n, |unit, skip, count, done| {
            let value = match unit {
                // SAFETY: the word lies in the slice; the rest is as in `load`.
                Unit::Word(at) => unsafe { unit::load_word(at, self.lent.shared) }.to_ne_bytes(),
                // SAFETY: the byte lies in the slice, and its word does not; the rest is as in `load`.
                Unit::Byte(at) => [unsafe { unit::load_byte(at, self.lent.shared) }; 8],
            };
            bytes[done..done + count].copy_from_slice(&value[skip..skip + count]);
        });
        bytemuck::cast(bytes)
    }

    #[inline(never)]
    fn store_units(self, at: usize, n: usize, line: Line) {
        if self.lent.shared {
            return;
        }
        let words = self.whole_words(at, n);
        for (i, &word) in line.0[..words].iter().enumerate() {
            // SAFETY: the word lies in the span, whose slice is lent for writing and accessed in units only.
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
                    // SAFETY: the word lies in the slice, which is lent for writing and accessed in units only.
                    unsafe { unit::store_word(at, u64::from_ne_bytes(value), u64::from_ne_bytes(mask)) };
                }
                // SAFETY: the byte lies in such a slice, and its word does not.
                Unit::Byte(at) => unsafe { unit::store_byte(at, bytes[0]) },
            }
        });
    }

    /// Calls `f(unit, first byte in it, bytes, bytes done before)` for the units of `n` bytes from `at` on.
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
            // Provenance stays that of the slice; the offset lies in it.
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

    /// Copies the payloads of packets, 4 bytes each, from packet `at` on into `payload`, up to the first one that does not
    /// carry `flag`; returns how many it copied. What lies behind those in `payload` may be overwritten too.
    #[inline]
    pub(crate) fn load_packets(self, at: usize, flag: u32, payload: &mut [u32]) -> usize {
        let words = self.words(at, payload.len());
        let payload = &mut payload[..words.len];
        let (lines, rest) = payload.as_chunks_mut::<WORDS>();
        for (i, line) in lines.iter_mut().enumerate() {
            let packets = words.load_line(i * WORDS);
            let mut others = 0;
            for (payload, packet) in line.iter_mut().zip(packets.0) {
                *payload = packet as u32;
                others |= (packet >> 32) as u32 ^ flag;
            }
            if others != 0 {
                let first = packets.0.iter().position(|packet| (packet >> 32) as u32 != flag);
                return i * WORDS + first.unwrap_or(WORDS);
            }
        }
        let whole = lines.len() * WORDS;
        for (i, payload) in rest.iter_mut().enumerate() {
            let packet = words.load(whole + i);
            if (packet >> 32) as u32 != flag {
                return whole + i;
            }
            *payload = packet as u32;
        }
        words.len
    }

    /// The flag of a packet, for messages; 0 behind the end.
    pub(crate) fn flag(self, at: usize) -> u32 {
        let words = self.words(at, 1);
        if words.len == 0 { 0 } else { (words.load(0) >> 32) as u32 }
    }

    /// Writes packets from packet `at` on.
    #[inline]
    pub(crate) fn store_packets(self, at: usize, flag: u32, payload: &[u32]) {
        let words = self.words(at, payload.len());
        let packet = |payload: u32| u64::from(payload) | u64::from(flag) << 32;
        let (lines, rest) = payload[..words.len].as_chunks::<WORDS>();
        for (i, line) in lines.iter().enumerate() {
            words.store_line(i * WORDS, Line(line.map(packet)));
        }
        for (i, &payload) in rest.iter().enumerate() {
            words.store(lines.len() * WORDS + i, packet(payload));
        }
    }

    /// `count` words from word `at` on, cut off at the end; none in a span that is shared or does not begin on a word.
    #[inline(always)]
    fn words(self, at: usize, count: usize) -> Words<'m> {
        let usable = !self.lent.shared && self.base.addr().is_multiple_of(8);
        let have = if usable { (self.len / 8).saturating_sub(at) } else { 0 };
        Words { base: self.base.wrapping_add(at.saturating_mul(8)), len: count.min(have), memory: PhantomData }
    }
}

/// Whole lines of a span, each beginning on a word.
#[derive(Clone, Copy)]
pub(crate) struct Lines<'m> {
    base: *mut u8,
    len: usize,
    lent: &'m Lent,
}

impl Lines<'_> {
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    pub(crate) fn load(&self, i: usize) -> Line {
        assert!(i < self.len, "line {i} of {}", self.len);
        // SAFETY: as in `Span::load`: the line lies in the span and begins on a word.
        unsafe { unit::load_line(self.base.add(LINE * i), self.lent.shared) }
    }

    /// Reads as many lines as both have.
    #[inline(always)]
    pub(crate) fn load_into(self, block: &mut [Line]) {
        for (i, line) in block.iter_mut().take(self.len).enumerate() {
            *line = self.load(i);
        }
    }

    /// Writes as many lines as both have; none if the slice is lent for reading only.
    #[inline(always)]
    pub(crate) fn store_from(self, block: &[Line]) {
        if self.lent.shared {
            return;
        }
        for (i, &line) in block.iter().take(self.len).enumerate() {
            // SAFETY: as in `Span::store`: `i` is less than the number of lines, so the line lies in the span; it begins
            // on a word, and the slice is not shared.
            unsafe { unit::store_line(self.base.add(LINE * i), line) };
        }
    }

    /// First byte.
    #[inline(always)]
    pub(super) fn base(&self) -> *mut u8 {
        self.base
    }

    /// Bytes of the slice that they lie in.
    #[inline(always)]
    pub(super) fn slice_len(&self) -> usize {
        self.lent.len
    }

    /// Whether they may only be read.
    #[inline(always)]
    pub(super) fn is_shared(&self) -> bool {
        self.lent.shared
    }
}

/// Words of a span that is lent for writing.
#[derive(Clone, Copy)]
struct Words<'m> {
    base: *mut u8,
    len: usize,
    memory: PhantomData<&'m Lent>,
}

impl Words<'_> {
    #[inline(always)]
    fn load(self, i: usize) -> u64 {
        assert!(i < self.len, "word {i} of {}", self.len);
        // SAFETY: the word lies in a slice that is lent for writing for at least `'m` and accessed in units only.
        unsafe { unit::word(self.base.add(8 * i)) }.load(Relaxed)
    }

    /// Eight words from word `i` on.
    #[inline(always)]
    fn load_line(self, i: usize) -> Line {
        assert!(self.len >= WORDS && i <= self.len - WORDS, "words from {i} of {}", self.len);
        // SAFETY: the words lie in the slice; the rest is as in `load`. Each is read at once, data and flag together.
        unsafe { unit::load_line(self.base.add(8 * i), false) }
    }

    /// Writes eight words from word `i` on.
    #[inline(always)]
    fn store_line(self, i: usize, line: Line) {
        assert!(self.len >= WORDS && i <= self.len - WORDS, "words from {i} of {}", self.len);
        // SAFETY: as in `load_line`; each word is written at once.
        unsafe { unit::store_line(self.base.add(8 * i), line) };
    }

    #[inline(always)]
    fn store(self, i: usize, value: u64) {
        assert!(i < self.len, "word {i} of {}", self.len);
        // SAFETY: as in `load`.
        unsafe { unit::word(self.base.add(8 * i)) }.store(value, Relaxed);
    }
}

/// Words of a line.
const WORDS: usize = LINE / 8;

enum Unit {
    Word(*mut u8),
    Byte(*mut u8),
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::memory::Table;

    fn line(bytes: &[u8]) -> Line {
        let mut all = [0; LINE];
        all[..bytes.len()].copy_from_slice(bytes);
        bytemuck::cast(all)
    }

    proptest! {
        #[test]
        fn spans_behave_like_slices(
            skip in 0_usize..9, len in 0_usize..200, from in 0_u64..220, range in 0_u64..220, at in 0_usize..220,
            n in 0_usize..=LINE, bytes in proptest::collection::vec(any::<u8>(), LINE),
        ) {
            let mut memory: Vec<u8> = (0..240).map(|i| i as u8 ^ 0x5a).collect();
            let mut model = memory.clone();
            let (lo, hi) = (skip + (from as usize).min(len), skip + (from.saturating_add(range) as usize).min(len));
            let expected = |model: &[u8]| {
                let start = (lo + at).min(hi);
                line(&model[start..(start + n).min(hi)])
            };
            let table = Table::default();
            let (before, after) = table.lend(
                |lender| lender.push(&mut memory[skip..skip + len]),
                || {
                    let held = table.hold();
                    let memory = held.memory();
                    let span = memory.slice(0).range(from, range);
                    let before = span.load(at, n);
                    span.store(at, n, line(&bytes));
                    (before, span.load(at, n))
                },
            );
            prop_assert_eq!(before, expected(&model));
            for (i, &byte) in bytes[..n].iter().enumerate() {
                if lo + at + i < hi {
                    model[lo + at + i] = byte;
                }
            }
            prop_assert_eq!(after, expected(&model));
            prop_assert_eq!(memory, model);
        }

        #[test]
        fn packets_come_back_up_to_the_first_stale_one(count in 0_usize..40, stale in 0_usize..40, at in 0_usize..8) {
            let mut memory = vec![0_u64; 48];
            let payload: Vec<u32> = (0..count as u32).map(|i| i * 7 + 1).collect();
            let mut back = vec![0; count];
            let table = Table::default();
            let found = table.lend(
                |lender| lender.push(bytemuck::cast_slice_mut(&mut memory)),
                || {
                    let held = table.hold();
                    let memory = held.memory();
                    let span = memory.slice(0);
                    span.store_packets(at, 5, &payload);
                    span.store_packets(at + stale, 4, &[9]);
                    assert_eq!(span.flag(at + stale), 4);
                    span.load_packets(at, 5, &mut back)
                },
            );
            prop_assert_eq!(found, count.min(stale));
            prop_assert_eq!(&back[..found], &payload[..found]);
        }
    }

    #[test]
    fn shared_slices_are_not_written() {
        let memory = [7_u8; 100];
        let table = Table::default();
        table.lend(
            |lender| lender.push_shared(&memory),
            || {
                let held = table.hold();
                let memory = held.memory();
                memory.slice(0).store(0, LINE, Line::ZERO);
                memory.slice(0).store_packets(0, 1, &[1]);
                assert_eq!(memory.slice(0).load(3, 4), line(&[7; 4]));
            },
        );
        assert_eq!(memory, [7; 100]);
        assert_eq!(table.hold().memory().slice(0).len(), 0, "taken back");
    }

    #[test]
    fn neighbours_in_a_word_keep_their_bytes() {
        let mut memory = vec![0_u64; 4];
        let table = Table::default();
        table.lend(
            |lender| lender.push(bytemuck::cast_slice_mut(&mut memory)),
            || {
                std::thread::scope(|scope| {
                    for part in 0..4_u64 {
                        let table = &table;
                        scope.spawn(move || {
                            let held = table.hold();
                            let memory = held.memory();
                            let span = memory.slice(0).range(part * 3, 3);
                            for round in 0..2000_u32 {
                                let bytes = [part as u8, round as u8, (round >> 8) as u8];
                                span.store(0, 3, line(&bytes));
                                assert_eq!(span.load(0, 3), line(&bytes));
                            }
                        });
                    }
                });
            },
        );
    }
}
