//! Atomic accesses to units through raw pointers.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

use crate::numeric::Line;

/// Reads a word.
///
/// # Safety
/// `at` is aligned to 8 and valid for reads of 8 bytes. If `shared`, no thread writes there during the call; else it is
/// valid for writes too and is accessed in units only.
#[inline(always)]
pub(super) unsafe fn load_word(at: *const u8, shared: bool) -> u64 {
    if shared {
        // SAFETY: valid and aligned by contract, and without a writer a plain read does not race.
        return unsafe { at.cast::<u64>().read() };
    }
    // SAFETY: valid and aligned by contract, and accessed in units only: all accesses to this word are atomic ones of 8
    // bytes.
    unsafe { AtomicU64::from_ptr(at.cast_mut().cast()) }.load(Relaxed)
}

/// Writes the bytes of a word whose bits are set in `mask`.
///
/// # Safety
/// `at` is aligned to 8, valid for reads and writes of 8 bytes, and accessed in units only.
#[inline(always)]
pub(super) unsafe fn store_word(at: *mut u8, value: u64, mask: u64) {
    // SAFETY: as in `load_word`.
    let word = unsafe { AtomicU64::from_ptr(at.cast()) };
    if mask == u64::MAX {
        word.store(value, Relaxed);
    } else {
        // Other agents own the other bytes, and may be writing them now. The closure never returns `None`.
        let _ = word.fetch_update(Relaxed, Relaxed, |old| Some(old & !mask | value & mask));
    }
}

/// Reads a byte that shares its word with memory outside of the slice.
///
/// # Safety
/// `at` is valid for reads. If `shared`, no thread writes there during the call; else it is valid for writes too and is
/// accessed in units only.
#[inline(always)]
pub(super) unsafe fn load_byte(at: *const u8, shared: bool) -> u8 {
    if shared {
        // SAFETY: as in `load_word`.
        return unsafe { at.read() };
    }
    // SAFETY: as in `load_word`, for bytes instead of words.
    unsafe { AtomicU8::from_ptr(at.cast_mut()) }.load(Relaxed)
}

/// Writes a byte that shares its word with memory outside of the slice.
///
/// # Safety
/// `at` is valid for reads and writes, and accessed in units only.
#[inline(always)]
pub(super) unsafe fn store_byte(at: *mut u8, value: u8) {
    // SAFETY: as in `load_byte`.
    unsafe { AtomicU8::from_ptr(at) }.store(value, Relaxed);
}

/// Returns the word of a packet.
///
/// # Safety
/// `at` is aligned to 8, valid for reads and writes of 8 bytes for `'a`, and accessed in units only.
#[inline(always)]
pub(super) unsafe fn word<'a>(at: *mut u8) -> &'a AtomicU64 {
    // SAFETY: by contract.
    unsafe { AtomicU64::from_ptr(at.cast()) }
}

/// Reads eight words.
///
/// # Safety
/// As [`load_word`], for 64 bytes.
#[cfg(all(target_arch = "x86_64", not(any(miri, portable_memory))))]
#[inline(always)]
pub(super) unsafe fn load_line(at: *const u8, _: bool) -> Line {
    use std::arch::x86_64::__m128i;
    let (a, b, c, d): (__m128i, __m128i, __m128i, __m128i);
    // SAFETY: reads 64 bytes that are valid for reads. Equivalent to eight relaxed atomic loads: each half of a vector
    // is an aligned word, which the processor reads at once. No flags, no stack, and nothing is written.
    unsafe {
        std::arch::asm!(
            "movups {a}, [{at}]",
            "movups {b}, [{at} + 16]",
            "movups {c}, [{at} + 32]",
            "movups {d}, [{at} + 48]",
            at = in(reg) at,
            a = out(xmm_reg) a,
            b = out(xmm_reg) b,
            c = out(xmm_reg) c,
            d = out(xmm_reg) d,
            options(nostack, preserves_flags, readonly),
        );
    }
    // SAFETY: four vectors and a line have 64 bytes, and every bit pattern is a line.
    unsafe { std::mem::transmute([a, b, c, d]) }
}

/// Writes eight words.
///
/// # Safety
/// As [`store_word`], for 64 bytes.
#[cfg(all(target_arch = "x86_64", not(any(miri, portable_memory))))]
#[inline(always)]
pub(super) unsafe fn store_line(at: *mut u8, line: Line) {
    use std::arch::x86_64::__m128i;
    // SAFETY: a line and four vectors have 64 bytes, and every bit pattern is a vector.
    let [a, b, c, d]: [__m128i; 4] = unsafe { std::mem::transmute(line) };
    // SAFETY: writes 64 bytes that are valid for writes. Equivalent to eight relaxed atomic stores, as in `load_line`.
    // The block counts as writing any memory, so it moves across no atomic operation.
    unsafe {
        std::arch::asm!(
            "movups [{at}], {a}",
            "movups [{at} + 16], {b}",
            "movups [{at} + 32], {c}",
            "movups [{at} + 48], {d}",
            at = in(reg) at,
            a = in(xmm_reg) a,
            b = in(xmm_reg) b,
            c = in(xmm_reg) c,
            d = in(xmm_reg) d,
            options(nostack, preserves_flags),
        );
    }
}

/// Reads eight words.
///
/// # Safety
/// As [`load_word`], for 64 bytes.
#[cfg(not(all(target_arch = "x86_64", not(any(miri, portable_memory)))))]
#[inline(always)]
pub(super) unsafe fn load_line(at: *const u8, shared: bool) -> Line {
    // SAFETY: each word is in the 64 bytes.
    Line(std::array::from_fn(|i| unsafe { load_word(at.add(8 * i), shared) }))
}

/// Writes eight words.
///
/// # Safety
/// As [`store_word`], for 64 bytes.
#[cfg(not(all(target_arch = "x86_64", not(any(miri, portable_memory)))))]
#[inline(always)]
pub(super) unsafe fn store_line(at: *mut u8, line: Line) {
    for (i, word) in line.0.into_iter().enumerate() {
        // SAFETY: each word is in the 64 bytes.
        unsafe { store_word(at.add(8 * i), word, u64::MAX) };
    }
}
