//! Packets: words of payload and flag.

use std::marker::PhantomData;
use std::sync::atomic::Ordering::Relaxed;

use super::Span;
use crate::memory::table::Lent;
use crate::memory::unit;
use crate::numeric::{LINE, Line};

/// Number of words of a line.
const WORDS: usize = LINE / 8;

impl<'m> Span<'m> {
    /// Copies the payloads of packets, 4 bytes each, from packet `at` on into `payload`, up to the first one without
    /// `flag`, and returns the number of copied payloads. The elements of `payload` after those may be overwritten too.
    #[inline]
    pub fn load_packets(self, at: usize, flag: u32, payload: &mut [u32]) -> usize {
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

    /// Returns the flag of a packet, for messages; 0 past the end.
    pub fn flag(self, at: usize) -> u32 {
        let words = self.words(at, 1);
        if words.len == 0 { 0 } else { (words.load(0) >> 32) as u32 }
    }

    /// Writes packets from packet `at` on.
    #[inline]
    pub fn store_packets(self, at: usize, flag: u32, payload: &[u32]) {
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

    /// Returns `count` words from word `at` on, truncated at the end; none in a span that is shared or not
    /// word-aligned.
    #[inline(always)]
    fn words(self, at: usize, count: usize) -> Words<'m> {
        let usable = !self.lent.shared && self.base.addr().is_multiple_of(8);
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
        // SAFETY: the word is in a slice that is lent for writing for at least `'m` and accessed in units only.
        unsafe { unit::word(self.base.add(8 * i)) }.load(Relaxed)
    }

    /// Reads eight words from word `i` on.
    #[inline(always)]
    fn load_line(self, i: usize) -> Line {
        assert!(self.len >= WORDS && i <= self.len - WORDS, "words from {i} of {}", self.len);
        // SAFETY: the words are in the slice; the rest is as in `load`. Each is read at once, data and flag together.
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
