//! Division and grouping of chunks.

use super::ChunkRef;
use crate::diag::Code;
use crate::dsl::registry::ChunkValue;

/// Maximum number of parts that a rejected split returns.
const MAX_REFUSED_PARTS: usize = 1 << 16;

impl ChunkRef<'_> {
    /// Divides these chunks into `num` equal parts.
    ///
    /// # Errors
    /// Reports M0008 if the number of chunks is not a multiple of `num`; the parts then record nothing.
    #[track_caller]
    pub fn split(&self, num: usize) -> Vec<Self> {
        let size = self.size();
        // A rejected split still returns parts, so that taking one of them is not a second mistake.
        let nothing = || vec![Self::poison(self.context); num.min(MAX_REFUSED_PARTS)];
        if self.is_poison() {
            return nothing();
        }
        if !size.is_multiple_of(num) {
            let parts = (1..=size).rev().find(|parts| *parts <= num && size.is_multiple_of(*parts)).unwrap_or(1);
            self.file(
                Code::SizeMismatch,
                format!("expected a number of parts that divides {size} chunks, found {num}"),
                format!("write `split({parts})`"),
            );
            return nothing();
        }
        let part = self.value.size / num as u32;
        (0..num as u32)
            .map(|i| Self {
                value: ChunkValue { index: self.value.index + i * part, size: part, ..self.value },
                ..*self
            })
            .collect()
    }

    /// Returns one reference to both.
    ///
    /// # Errors
    /// Reports M0023 if they are in different buffers or there is a gap between them.
    #[track_caller]
    pub fn group(&self, other: Self) -> Self {
        if self.is_poison() || other.is_poison() {
            return Self::poison(self.context);
        }
        let (a, b) = (self.value, other.value);
        let (start, end) = (a.index.min(b.index), (a.index + a.size).max(b.index + b.size));
        if (a.rank, a.buffer) != (b.rank, b.buffer) || end - start > a.size + b.size {
            self.file(
                Code::NonContiguousChunks,
                format!("`group` expects adjacent chunks of one buffer, found {self} and {other}"),
                "group adjacent chunks of the same buffer of the same rank",
            );
            return Self::poison(self.context);
        }
        Self { value: ChunkValue { index: start, size: end - start, ..a }, ..*self }
    }
}
