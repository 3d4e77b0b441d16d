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
    /// The lent slice: units are words inside of it, bytes at its ends.
    slice: *mut u8,
    slice_len: usize,
    shared: bool,
    memory: PhantomData<&'m Lent>,
}

impl<'m> Span<'m> {
    /// A span of no bytes.
    pub(crate) const EMPTY: Self = {
        let nowhere = std::ptr::dangling_mut();
        Self { base: nowhere, len: 0, slice: nowhere, slice_len: 0, shared: true, memory: PhantomData }
    };

    pub(super) fn new(lent: &'m Lent) -> Self {
        let Lent { base, len, shared } = *lent;
        Self { base, len, slice: base, slice_len: len, shared, memory: PhantomData }
    }

    /// Number of bytes.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The bytes `at..at + len`, cut off at the end of this span.
    #[inline]
    pub(crate) fn range(self, at: u64, len: u64) -> Self {
        let at = at.min(self.len as u64) as usize;
        let len = len.min((self.len - at) as u64) as usize;
        // SAFETY: `at` is at most the span's length, so the sum stays in the slice or one behind it.
        Self { base: unsafe { self.base.add(at) }, len, ..self }
    }

    /// `n` bytes from `at` on, at most a line; the rest of the line is zero.
    #[inline(always)]
    pub(crate) fn load(self, at: usize, n: usize) -> Line {
        if n == LINE && self.has_line(at) {
            // SAFETY: the line lies in the span and begins on a word. The span lies in a slice that is lent for at least
            // `'m`; if shared nobody writes to it, else all accesses are in units, and words inside a slice are units.
            return unsafe { unit::load_line(self.base.add(at), self.shared) };
        }
        self.load_units(at, n)
    }

    /// Writes the first `n` bytes of a line from `at` on.
    #[inline(always)]
    pub(crate) fn store(self, at: usize, n: usize, line: Line) {
        if n == LINE && self.has_line(at) && !self.shared {
            // SAFETY: as in `load`, and not shared.
            return unsafe { unit::store_line(self.base.add(at), line) };
        }
        self.store_units(at, n, line);
    }

    #[inline(always)]
    fn has_line(self, at: usize) -> bool {
        at.checked_add(LINE).is_some_and(|end| end <= self.len) && (self.base.addr().wrapping_add(at)) % 8 == 0
    }

    #[cold]
    #[inline(never)]
    fn load_units(self, at: usize, n: usize) -> Line {
        let mut bytes = [0; LINE];
        self.for_each_unit(at, n, |unit, skip, count, done| {
            let value = match unit {
                // SAFETY: the word lies in the slice; the rest is as in `load`.
                Unit::Word(at) => unsafe { unit::load_word(at, self.shared) }.to_ne_bytes(),
                // SAFETY: the byte lies in the slice, and its word does not; the rest is as in `load`.
                Unit::Byte(at) => [unsafe { unit::load_byte(at, self.shared) }; 8],
            };
            bytes[done..done + count].copy_from_slice(&value[skip..skip + count]);
        });
        bytemuck::cast(bytes)
    }

    #[cold]
    #[inline(never)]
    fn store_units(self, at: usize, n: usize, line: Line) {
        if self.shared {
            return;
        }
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
        let (first, end) = (self.slice.addr(), self.slice.addr() + self.slice_len);
        let start = self.base.addr() + at;
        let mut done = 0;
        while done < n {
            let here = start + done;
            let word = here & !7;
            // Provenance stays that of the slice; the offset lies in it.
            if word >= first && word + 8 <= end {
                let (skip, count) = (here - word, (8 - (here - word)).min(n - done));
                f(Unit::Word(self.slice.wrapping_add(word - first)), skip, count, done);
                done += count;
            } else {
                f(Unit::Byte(self.slice.wrapping_add(here - first)), 0, 1, done);
                done += 1;
            }
        }
    }

    /// Copies the payloads of packets, 4 bytes each, from packet `at` on into `payload`, up to the first one that does not
    /// carry `flag`; returns how many it copied.
    #[inline]
    pub(crate) fn load_packets(self, at: usize, flag: u32, payload: &mut [u32]) -> usize {
        let words = self.words(at, payload.len());
        for (i, payload) in payload[..words.len].iter_mut().enumerate() {
            let packet = words.load(i);
            if (packet >> 32) as u32 != flag {
                return i;
            }
            *payload = packet as u32;
        }
        words.len
    }

    /// How many of the `count` packets from packet `at` on carry `flag`, up to the first one that does not.
    #[inline]
    pub(crate) fn ready_packets(self, at: usize, flag: u32, count: usize) -> usize {
        let words = self.words(at, count);
        (0..words.len).find(|&i| (words.load(i) >> 32) as u32 != flag).unwrap_or(words.len)
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
        for (i, &payload) in payload[..words.len].iter().enumerate() {
            words.store(i, u64::from(payload) | u64::from(flag) << 32);
        }
    }

    /// `count` words from word `at` on, cut off at the end; none in a span that is shared or does not begin on a word.
    #[inline(always)]
    fn words(self, at: usize, count: usize) -> Words<'m> {
        let usable = !self.shared && self.base.addr() % 8 == 0;
        let have = if usable { (self.len / 8).saturating_sub(at) } else { 0 };
        Words { base: self.base.wrapping_add(at.saturating_mul(8)), len: count.min(have), memory: PhantomData }
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

    #[inline(always)]
    fn store(self, i: usize, value: u64) {
        assert!(i < self.len, "word {i} of {}", self.len);
        // SAFETY: as in `load`.
        unsafe { unit::word(self.base.add(8 * i)) }.store(value, Relaxed);
    }
}

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
                    let memory = table.memory();
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
                    let memory = table.memory();
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
                let memory = table.memory();
                memory.slice(0).store(0, LINE, Line::ZERO);
                memory.slice(0).store_packets(0, 1, &[1]);
                assert_eq!(memory.slice(0).load(3, 4), line(&[7; 4]));
            },
        );
        assert_eq!(memory, [7; 100]);
        assert_eq!(table.memory().slice(0).len(), 0, "taken back");
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
                            let memory = table.memory();
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
