//! Words of a segment that all processes access as atomics.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};

use super::Segment;

/// Size of a cache line in bytes, so that writers of two lines do not contend.
const LINE: usize = 64;

/// A part of a segment as lines of eight 64-bit words, for counters and small records.
#[derive(Clone)]
pub struct SharedCacheLines {
    segment: Arc<Segment>,
    /// First byte in the segment, a multiple of [`LINE`].
    start: usize,
    lines: usize,
}

impl SharedCacheLines {
    /// Returns the size of a segment for a number of lines, in bytes.
    pub const fn bytes(lines: usize) -> u64 {
        (lines as u64).saturating_mul(LINE as u64)
    }

    /// Wraps a part of a segment that is used in no other way.
    ///
    /// # Panics
    /// If the part is not in the segment, or does not begin at a line.
    pub fn new(segment: Arc<Segment>, part: Range<u64>) -> Self {
        let (start, end) = (part.start as usize, part.end as usize);
        assert!(start.is_multiple_of(LINE) && start <= end && end <= segment.len(), "bytes {part:?} of a segment");
        Self { segment, start, lines: (end - start) / LINE }
    }

    /// Returns the first word of a line.
    ///
    /// # Panics
    /// If there is no such line.
    #[inline(always)]
    pub fn at(&self, line: usize) -> &AtomicU64 {
        &self.line(line)[0]
    }

    /// Returns the words of a line.
    ///
    /// # Panics
    /// If there is no such line.
    #[inline(always)]
    pub fn line(&self, line: usize) -> &[AtomicU64; 8] {
        assert!(line < self.lines, "line {line} of {}", self.lines);
        // SAFETY: the line is in the segment, which lives as long as the result; a segment is page-aligned and the part
        // begins at a line, so a line is aligned. All ranks access these bytes as atomics only, and every bit pattern is a word.
        unsafe { self.segment.base().add(self.start + line * LINE).cast().as_ref() }
    }

    /// Returns the first half of a line's first word, as a futex.
    ///
    /// # Panics
    /// If there is no such line.
    #[inline(always)]
    pub fn futex_word(&self, line: usize) -> &AtomicU32 {
        assert!(line < self.lines, "line {line} of {}", self.lines);
        // SAFETY: as in `line`. Futex words are never accessed as 64-bit words.
        unsafe { self.segment.base().add(self.start + line * LINE).cast().as_ref() }
    }
}
