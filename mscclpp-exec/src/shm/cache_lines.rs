//! Words of a segment that everybody accesses as atomics.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};

use super::Segment;

/// Bytes between two cells: a cache line, so that two writers do not take it from each other.
const LINE: usize = 64;

/// A segment as lines of eight 64-bit words, for counters and small records.
#[derive(Clone)]
pub(crate) struct SharedCacheLines {
    segment: Arc<Segment>,
    lines: usize,
}

impl SharedCacheLines {
    /// Bytes of a segment for a number of lines.
    pub(crate) const fn bytes(lines: usize) -> u64 {
        (lines as u64).saturating_mul(LINE as u64)
    }

    /// A segment that is used in no other way.
    pub(crate) fn new(segment: Arc<Segment>) -> Self {
        let lines = segment.len() / LINE;
        Self { segment, lines }
    }

    /// The first word of a line.
    ///
    /// # Panics
    /// If there is no such line.
    #[inline(always)]
    pub(crate) fn at(&self, line: usize) -> &AtomicU64 {
        &self.line(line)[0]
    }

    /// The words of a line.
    ///
    /// # Panics
    /// If there is no such line.
    #[inline(always)]
    pub(crate) fn line(&self, line: usize) -> &[AtomicU64; 8] {
        assert!(line < self.lines, "line {line} of {}", self.lines);
        // SAFETY: the line lies in the segment, which lives as long as the result; a segment begins on a page, so a line is
        // aligned. All processes access these bytes as atomics only, and any bits are a word.
        unsafe { self.segment.base().add(line * LINE).cast().as_ref() }
    }

    /// The first half of a line's first word, to wait at.
    ///
    /// # Panics
    /// If there is no such line.
    #[inline(always)]
    pub(crate) fn futex_word(&self, line: usize) -> &AtomicU32 {
        assert!(line < self.lines, "line {line} of {}", self.lines);
        // SAFETY: as in `line`. Bells are never accessed as whole words.
        unsafe { self.segment.base().add(line * LINE).cast().as_ref() }
    }
}
