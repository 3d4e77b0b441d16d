//! Combines and copies whole lines in vector registers, as wide as the processor has them.
//!
//! The argument for [`unit`](super::unit)'s lines holds for these: a vector move never tears an aligned word, so it has
//! the effect of eight relaxed atomic accesses.

use super::unit;
use super::{Lines, ShiftedLines};
use crate::numeric::{LINE, Line, Number, combine};

/// Combines line i of all sources from left to right and writes the result to line i of all destinations, up to the
/// number of lines of the shortest operand.
///
/// Long slices are written with non-temporal stores, because they would only evict the caches. These stores are
/// complete when this function returns: every observer of a later write observes them as well.
pub fn fuse<T: Number, const OP: u8>(srcs: &[Lines<'_>], dsts: &[Lines<'_>]) {
    let count = srcs.iter().chain(dsts).map(Lines::len).min().unwrap_or(0);
    if srcs.is_empty() || count == 0 || dsts.iter().any(|dst| dst.is_shared()) {
        return;
    }
    #[cfg(all(target_arch = "x86_64", not(any(miri, portable_memory))))]
    {
        // Non-temporal stores end with a fence that waits for them.
        let streams =
            count * LINE >= MIN_STREAMED_RANGE && dsts.iter().all(|dst| dst.slice_len() >= MIN_STREAMED_SLICE);
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has the feature; every line below `count` is in its slice, and destinations are
            // lent for writing.
            return unsafe { x86::by_sources_512::<T, OP>(srcs, dsts, count, streams) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: as above.
            return unsafe { x86::by_sources_256::<T, OP>(srcs, dsts, count, streams) };
        }
    }
    // SAFETY: as above.
    unsafe { by_sources::<T, OP>(srcs, dsts, count, false) }
}

/// Copies lines, up to the number of lines of the shorter operand; otherwise as [`fuse`].
pub fn copy_lines(from: Lines<'_>, to: Lines<'_>) {
    // With a single source, the operation does not matter.
    fuse::<u64, { crate::numeric::SUM }>(&[from], &[to]);
}

/// Copies lines that begin inside of words to whole words, up to the number of lines of the shorter operand, which it returns; otherwise as
/// [`fuse`].
pub fn copy_shifted_lines(from: ShiftedLines<'_>, to: Lines<'_>) -> usize {
    let count = from.len().min(to.len());
    if to.is_shared() {
        return count;
    }
    #[cfg(all(target_arch = "x86_64", not(any(miri, portable_memory))))]
    {
        let streams = count * LINE >= MIN_STREAMED_RANGE && to.slice_len() >= MIN_STREAMED_SLICE;
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has the feature; every line below `count`, and the word after it, is in its slice, and the destination is
            // lent for writing.
            unsafe { x86::shifted_512(from, to, count, streams) };
            return count;
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: as above.
            unsafe { x86::shifted_256(from, to, count, streams) };
            return count;
        }
    }
    // SAFETY: as above.
    unsafe { shifted(from, to, count, false) };
    count
}

/// Minimum bytes of a slice that is written with non-temporal stores, and of a range in it.
#[cfg(all(target_arch = "x86_64", not(any(miri, portable_memory))))]
const MIN_STREAMED_SLICE: usize = 1 << 22;
#[cfg(all(target_arch = "x86_64", not(any(miri, portable_memory))))]
const MIN_STREAMED_RANGE: usize = 1 << 15;

/// Number of lines that are read before the first is written.
const UNROLL: usize = 4;

/// Prefetch distance in lines. Lines that another core wrote last arrive late without a prefetch, because the hardware
/// prefetcher starts again at every page.
const PREFETCH_DISTANCE: usize = 16;

/// Combines two lines element by element.
#[inline(always)]
fn combine_lines<T: Number, const OP: u8>(left: Line, right: Line) -> Line {
    let mut sum = left;
    let (sums, rights) = (std::slice::from_mut(&mut sum), std::slice::from_ref(&right));
    for (sum, &right) in
        bytemuck::cast_slice_mut::<Line, T>(sums).iter_mut().zip(bytemuck::cast_slice::<Line, T>(rights))
    {
        *sum = combine::<T, OP>(*sum, right);
    }
    sum
}

/// Defines the loops over lines for one way to load and store them.
macro_rules! loops {
    (
        $(#[$feature:meta])? $by_sources:ident, $two:ident, $any:ident, $shifted:ident, $shift:path, $load:path, $store:path, $stream:path,
        $fence:path, $will_read:path, $will_write:path
    ) => {
        /// Copies lines that begin inside of words.
        ///
        /// # Safety
        /// `to` has `count` lines and is lent for writing, `from` has as many, and the processor has the required feature.
        $(#[$feature])?
        pub(super) unsafe fn $shifted(from: ShiftedLines<'_>, to: Lines<'_>, count: usize, streams: bool) {
            let streams = streams && to.base().addr().is_multiple_of(LINE);
            let mut done = 0;
            while done < count {
                // As with two sources below.
                let n = UNROLL.min(count - done);
                for i in done + PREFETCH_DISTANCE..(done + PREFETCH_DISTANCE + n).min(count) {
                    $will_read(from.first().wrapping_add(i * LINE));
                    if !streams {
                        $will_write(to.base().wrapping_add(i * LINE));
                    }
                }
                let mut lines = [Line::ZERO; UNROLL];
                for (i, line) in lines[..n].iter_mut().enumerate() {
                    let at = (done + i) * LINE;
                    // SAFETY: the line is below `count`: its words and the one after them are in the slice.
                    *line = unsafe { $shift($load(from.first().add(at)), $load(from.first().add(at + 8)), from.skipped_bits()) };
                }
                for (i, &line) in lines[..n].iter().enumerate() {
                    let at = (done + i) * LINE;
                    // SAFETY: the line is below `count`; lines with non-temporal stores are aligned to a line.
                    unsafe { if streams { $stream(to.base().add(at), line) } else { $store(to.base().add(at), line) } }
                }
                done += n;
            }
            if streams {
                $fence();
            }
        }

        /// Combines the lines of `srcs` into `dsts`.
        ///
        /// # Safety
        /// All operands have `count` lines, destinations are lent for writing, and the processor has the required
        /// feature.
        $(#[$feature])?
        pub(super) unsafe fn $by_sources<T: Number, const OP: u8>(
            srcs: &[Lines<'_>],
            dsts: &[Lines<'_>],
            count: usize,
            streams: bool,
        ) {
            let streams = streams && dsts.iter().all(|dst| dst.base().addr().is_multiple_of(LINE));
            // SAFETY: by contract; lines with non-temporal stores are aligned to a line.
            unsafe {
                match *srcs {
                    [a, b] => $two::<T, OP>([a, b], dsts, count, streams),
                    _ => $any::<T, OP>(srcs, dsts, count, streams),
                }
                if streams {
                    $fence();
                }
            }
        }

        /// Combines two sources.
        ///
        /// # Safety
        /// As above; if `streams`, all destinations are aligned to a line.
        $(#[$feature])?
        unsafe fn $two<T: Number, const OP: u8>(srcs: [Lines<'_>; 2], dsts: &[Lines<'_>], count: usize, streams: bool) {
            let offset = |lines: &Lines<'_>| lines.base().addr() % LINE;
            if dsts.iter().all(|dst| offset(dst) == offset(&srcs[0]) && offset(dst) == offset(&srcs[1])) {
                for i in 0..count {
                    let at = i * LINE;
                    if i + PREFETCH_DISTANCE < count {
                        let ahead = at + PREFETCH_DISTANCE * LINE;
                        srcs.iter().for_each(|src| $will_read(src.base().wrapping_add(ahead)));
                        if !streams {
                            dsts.iter().for_each(|dst| $will_write(dst.base().wrapping_add(ahead)));
                        }
                    }
                    // SAFETY: `i` is less than the number of lines of all operands.
                    unsafe {
                        let sum = combine_lines::<T, OP>($load(srcs[0].base().add(at)), $load(srcs[1].base().add(at)));
                        for dst in dsts {
                            if streams { $stream(dst.base().add(at), sum) } else { $store(dst.base().add(at), sum) }
                        }
                    }
                }
                return;
            }
            let mut done = 0;
            while done < count {
                // Several lines are read before the first is written: a write delays a later read at nearly the same
                // offset in a page.
                let n = UNROLL.min(count - done);
                for i in done + PREFETCH_DISTANCE..(done + PREFETCH_DISTANCE + n).min(count) {
                    srcs.iter().for_each(|src| $will_read(src.base().wrapping_add(i * LINE)));
                    if !streams {
                        dsts.iter().for_each(|dst| $will_write(dst.base().wrapping_add(i * LINE)));
                    }
                }
                let mut sums = [Line::ZERO; UNROLL];
                for (i, sum) in sums[..n].iter_mut().enumerate() {
                    let at = (done + i) * LINE;
                    // SAFETY: the line is below `count`.
                    *sum = unsafe { combine_lines::<T, OP>($load(srcs[0].base().add(at)), $load(srcs[1].base().add(at))) };
                }
                for dst in dsts {
                    for (i, &sum) in sums[..n].iter().enumerate() {
                        let at = (done + i) * LINE;
                        // SAFETY: as above.
                        unsafe {
                            if streams { $stream(dst.base().add(at), sum) } else { $store(dst.base().add(at), sum) }
                        }
                    }
                }
                done += n;
            }
        }

        /// Combines any number of sources.
        ///
        /// # Safety
        /// As above.
        $(#[$feature])?
        unsafe fn $any<T: Number, const OP: u8>(srcs: &[Lines<'_>], dsts: &[Lines<'_>], count: usize, streams: bool) {
            // Alternates between the operands after several lines: that many access streams keep the processor busy.
            let mut done = 0;
            while count - done >= UNROLL {
                let mut sums = [Line::ZERO; UNROLL];
                for i in done + PREFETCH_DISTANCE..(done + PREFETCH_DISTANCE + UNROLL).min(count) {
                    srcs.iter().for_each(|src| $will_read(src.base().wrapping_add(i * LINE)));
                    if !streams {
                        dsts.iter().for_each(|dst| $will_write(dst.base().wrapping_add(i * LINE)));
                    }
                }
                for (i, sum) in sums.iter_mut().enumerate() {
                    // SAFETY: the line is below `count`.
                    *sum = unsafe { $load(srcs[0].base().add((done + i) * LINE)) };
                }
                for src in &srcs[1..] {
                    for (i, sum) in sums.iter_mut().enumerate() {
                        // SAFETY: as above.
                        *sum = combine_lines::<T, OP>(*sum, unsafe { $load(src.base().add((done + i) * LINE)) });
                    }
                }
                for dst in dsts {
                    for (i, &sum) in sums.iter().enumerate() {
                        let at = (done + i) * LINE;
                        // SAFETY: as above.
                        unsafe {
                            if streams { $stream(dst.base().add(at), sum) } else { $store(dst.base().add(at), sum) }
                        }
                    }
                }
                done += UNROLL;
            }
            for i in done..count {
                let at = i * LINE;
                // SAFETY: as above.
                unsafe {
                    let mut sum = $load(srcs[0].base().add(at));
                    for src in &srcs[1..] {
                        sum = combine_lines::<T, OP>(sum, $load(src.base().add(at)));
                    }
                    for dst in dsts {
                        if streams { $stream(dst.base().add(at), sum) } else { $store(dst.base().add(at), sum) }
                    }
                }
            }
        }
    };
}

/// Loads a line of memory that is not shared.
///
/// # Safety
/// As [`unit::load_line`].
#[inline(always)]
unsafe fn load(at: *const u8) -> Line {
    // SAFETY: by contract.
    unsafe { unit::load_line(at, false) }
}

/// Returns the line that begins a number of bits after the first one of `line`; `next`: the words that begin a word later.
fn shift(line: Line, next: Line, bits: u32) -> Line {
    Line(std::array::from_fn(|i| u64::from_le(line.0[i].to_le() >> bits | next.0[i].to_le() << (64 - bits))))
}

/// Does nothing, because plain stores need no fence.
fn no_fence() {}

/// Does nothing, because there is no prefetch instruction.
fn no_hint(_: *const u8) {}

loops!(by_sources, two, any, shifted, shift, load, unit::store_line, unit::store_line, no_fence, no_hint, no_hint);

#[cfg(all(target_arch = "x86_64", not(any(miri, portable_memory))))]
pub(super) mod x86 {
    use std::arch::asm;
    use std::arch::x86_64::{
        __m256i, __m512i, _mm_cvtsi32_si128, _mm256_or_si256, _mm256_sll_epi64, _mm256_srl_epi64, _mm512_or_si512,
        _mm512_sll_epi64, _mm512_srl_epi64,
    };
    use std::mem::transmute;

    use super::*;

    loops!(
        #[target_feature(enable = "avx512f")]
        by_sources_512,
        two_512,
        any_512,
        shifted_512,
        shift_512,
        load_512,
        store_512,
        stream_512,
        fence,
        will_read,
        will_write
    );
    loops!(
        #[target_feature(enable = "avx2")]
        by_sources_256,
        two_256,
        any_256,
        shifted_256,
        shift_256,
        load_256,
        store_256,
        stream_256,
        fence,
        will_read,
        will_write
    );

    /// Loads a line.
    ///
    /// # Safety
    /// As [`unit::load_line`].
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(in crate::memory) unsafe fn load_512(at: *const u8) -> Line {
        let line: __m512i;
        // SAFETY: reads 64 bytes that are valid for reads, as eight relaxed atomic loads would.
        unsafe {
            asm!("vmovups {0}, [{1}]", out(zmm_reg) line, in(reg) at, options(nostack, preserves_flags, readonly));
            transmute(line)
        }
    }

    /// Stores a line.
    ///
    /// # Safety
    /// As [`unit::store_line`].
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(in crate::memory) unsafe fn store_512(at: *mut u8, line: Line) {
        // SAFETY: writes 64 bytes that are valid for writes, as eight relaxed atomic stores would; counts as writing
        // any memory, so it moves across no atomic operation.
        unsafe {
            let line: __m512i = transmute(line);
            asm!("vmovups [{0}], {1}", in(reg) at, in(zmm_reg) line, options(nostack, preserves_flags));
        }
    }

    /// Stores a line with a non-temporal store.
    ///
    /// # Safety
    /// As [`unit::store_line`]; `at` is aligned to a line, and a [`fence`] follows before anything is published.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn stream_512(at: *mut u8, line: Line) {
        // SAFETY: as in `store_512`.
        unsafe {
            let line: __m512i = transmute(line);
            asm!("vmovntps [{0}], {1}", in(reg) at, in(zmm_reg) line, options(nostack, preserves_flags));
        }
    }

    /// Loads a line.
    ///
    /// # Safety
    /// As [`unit::load_line`].
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(in crate::memory) unsafe fn load_256(at: *const u8) -> Line {
        let (low, high): (__m256i, __m256i);
        // SAFETY: as in `load_512`.
        unsafe {
            asm!(
                "vmovups {0}, [{2}]", "vmovups {1}, [{2} + 32]",
                out(ymm_reg) low, out(ymm_reg) high, in(reg) at, options(nostack, preserves_flags, readonly)
            );
            transmute([low, high])
        }
    }

    /// Stores a line.
    ///
    /// # Safety
    /// As [`unit::store_line`].
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(in crate::memory) unsafe fn store_256(at: *mut u8, line: Line) {
        // SAFETY: as in `store_512`.
        unsafe {
            let [low, high]: [__m256i; 2] = transmute(line);
            asm!(
                "vmovups [{2}], {0}", "vmovups [{2} + 32], {1}",
                in(ymm_reg) low, in(ymm_reg) high, in(reg) at, options(nostack, preserves_flags)
            );
        }
    }

    /// Stores a line with a non-temporal store.
    ///
    /// # Safety
    /// As [`stream_512`].
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn stream_256(at: *mut u8, line: Line) {
        // SAFETY: as in `store_512`.
        unsafe {
            let [low, high]: [__m256i; 2] = transmute(line);
            asm!(
                "vmovntps [{2}], {0}", "vmovntps [{2} + 32], {1}",
                in(ymm_reg) low, in(ymm_reg) high, in(reg) at, options(nostack, preserves_flags)
            );
        }
    }

    /// Does what [`shift`] does.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn shift_512(line: Line, next: Line, bits: u32) -> Line {
        let [low, high] = [bits, 64 - bits].map(|bits| _mm_cvtsi32_si128(bits as i32));
        // SAFETY: a line and a vector have 64 bytes, and every bit pattern is one.
        unsafe {
            let [line, next]: [__m512i; 2] = transmute([line, next]);
            transmute(_mm512_or_si512(_mm512_srl_epi64(line, low), _mm512_sll_epi64(next, high)))
        }
    }

    /// Does what [`shift`] does.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn shift_256(line: Line, next: Line, bits: u32) -> Line {
        let [low, high] = [bits, 64 - bits].map(|bits| _mm_cvtsi32_si128(bits as i32));
        // SAFETY: a line and two vectors have 64 bytes, and every bit pattern is one.
        unsafe {
            let [line, next]: [[__m256i; 2]; 2] = transmute([line, next]);
            let half = |i: usize| _mm256_or_si256(_mm256_srl_epi64(line[i], low), _mm256_sll_epi64(next[i], high));
            transmute([half(0), half(1)])
        }
    }

    /// Prefetches a line for reading, if it exists.
    #[inline(always)]
    fn will_read(at: *const u8) {
        // SAFETY: a hint, which accesses nothing, whatever the address.
        unsafe { asm!("prefetcht0 [{}]", in(reg) at, options(nostack, preserves_flags, readonly)) };
    }

    /// Prefetches a line for writing, if it exists.
    #[inline(always)]
    pub(in crate::memory) fn will_write(at: *const u8) {
        // SAFETY: as in `will_read`; processors without the instruction do nothing.
        unsafe { asm!("prefetchw [{}]", in(reg) at, options(nostack, preserves_flags, readonly)) };
    }

    /// Orders non-temporal stores before all later writes.
    fn fence() {
        // SAFETY: accesses no memory and no flags.
        unsafe { asm!("sfence", options(nostack, preserves_flags)) };
    }
}
