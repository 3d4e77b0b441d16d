//! The counts of elements at which chunks of a caller's buffer are short: how many of them a message fills.
//!
//! A *part* is the bytes of one rank in a buffer; all-gather, reduce-scatter and all-to-all have one per rank, other
//! collectives one. Executors lay out a part of L bytes in n chunks of
//!
//! > S = ⌈⌈L / n⌉ / U⌉ U bytes, with U the least common multiple of the plan's alignment, the size of an element, and,
//! > with packets, 8.
//!
//! The byte at offset x of chunk i, counted within the part, exists iff i S + x < L. Hence for every offset there is a
//! *threshold* k: it exists in chunks 0 to k − 1, and in no chunk from k on. With q = ⌊L / S⌋ and ρ = L mod S, the
//! thresholds of L are q + 1 for x < ρ and q for x ≥ ρ; so k is one of them iff (k − 1) S < L < (k + 1) S.
//!
//! # The least length with a threshold
//!
//! S = s U for the lengths n (s − 1) U < L ≤ n s U. So a threshold 1 ≤ k < n occurs with this s for the multiples L of
//! the element's size that satisfy
//!
//! > max(n (s − 1), (k − 1) s) U < L < (k + 1) s U.
//!
//! As s grows, n (s − 1) grows at least as fast as (k + 1) s, since k < n: once the interval is empty, it remains so.
//! And the bounds are multiples of U, hence of the element's size; so the interval contains such a multiple unless it
//! is one unit wide and a unit is one element. For s = 1 it is two units wide: without a minimum every threshold
//! occurs.

use std::fmt;
use std::ops::RangeInclusive;

use super::view::View;
use mscclpp_plan::collective::CollectiveKind;
use mscclpp_plan::raw::PlanTree;

/// The counts at which a plan may be launched, and its chunks.
pub(super) struct Counts {
    /// Number of parts of the buffer whose count is the message's.
    parts: u64,
    /// Number of chunks of a part.
    chunks: u32,
    alignment: u64,
    packets: bool,
    /// Bytes of a message.
    messages: RangeInclusive<u64>,
    /// By threshold, the greatest one up to it that occurs. `None` if all do.
    greatest: Option<Vec<u32>>,
}

/// A count of elements of some size.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Count {
    elements: u64,
    size: u64,
}

/// The least counts with a property, for elements of every size.
pub(super) struct LeastCounts(Vec<Count>);

/// The sizes of elements in bytes.
const ELEMENT_SIZES: [u64; 4] = [8, 4, 2, 1];

/// Maximum number of chunks of a part for which thresholds are examined one by one.
const MAX_EXAMINED: u32 = 1 << 16;

impl Counts {
    /// Returns the counts of a plan, `None` if no chunk is ever short: the plan has one per part, or takes dividing
    /// counts only.
    pub(super) fn of(view: View, packets: bool) -> Option<Self> {
        let plan = view.plan;
        let (parts, chunks) = parts(plan);
        let alignment = u64::from(plan.buffer_alignment.max(1));
        let messages = plan.min_message_size..=plan.max_message_size;
        let mut counts = Self { parts, chunks, alignment, packets, messages, greatest: None };
        if chunks < 2 || plan.collective.dividing {
            return None;
        }
        // The thresholds of an instance are those of the whole plan, which has more chunks. It may have them all.
        if view.instances() == 1 && chunks <= MAX_EXAMINED {
            let occurs = |threshold: &u32| ELEMENT_SIZES.iter().any(|size| counts.least(*threshold, *size).is_some());
            let all_occur = counts.messages.contains(&0) && occurs(&(chunks - 1));
            if !all_occur {
                let mut last = 0;
                let greatest = (0..chunks).map(|threshold| {
                    last = if occurs(&threshold) { threshold } else { last };
                    last
                });
                counts.greatest = Some(greatest.collect());
            }
        }
        Some(counts)
    }

    /// Returns the number of a chunk within its part.
    pub(super) fn within_part(&self, chunk: u64) -> u32 {
        (if self.parts == 1 { chunk } else { chunk % u64::from(self.chunks) }) as u32
    }

    /// Returns the number of chunks after which numbers within parts repeat.
    pub(super) fn period(&self) -> Option<u64> {
        (self.parts > 1).then_some(self.chunks.into())
    }

    /// Returns the greatest threshold up to a chunk's number within its part, 0 if there is none: at thresholds above
    /// it, the chunk is never short.
    pub(super) fn threshold(&self, number: u32) -> u32 {
        match &self.greatest {
            None => number,
            Some(greatest) => greatest.get(number as usize).copied().unwrap_or(number),
        }
    }

    /// Returns whether every threshold occurs.
    pub(super) fn has_every_threshold(&self) -> bool {
        self.greatest.is_none()
    }

    /// Returns the least counts at which one of some thresholds occurs.
    pub(super) fn least_counts(&self, thresholds: RangeInclusive<u32>) -> LeastCounts {
        // Thresholds of an instance, and those of many chunks, may not occur: nothing is said about them.
        let (first, last) =
            (*thresholds.start(), (*thresholds.end()).min(thresholds.start().saturating_add(MAX_EXAMINED)));
        let counts = ELEMENT_SIZES.iter().filter_map(|&size| {
            let bytes = (first..=last).filter_map(|threshold| self.least(threshold, size)).min()?;
            Some(Count { elements: (bytes / size).checked_mul(self.parts)?, size })
        });
        LeastCounts(counts.collect())
    }

    /// Returns the least length of a part of which a threshold occurs, with elements of some size.
    fn least(&self, threshold: u32, size: u64) -> Option<u64> {
        let (k, n) = (u128::from(threshold), u128::from(self.chunks));
        if k == 0 || k >= n {
            return None;
        }
        let unit = least_common_multiple(self.alignment, size.max(if self.packets { 8 } else { 1 }));
        let (unit, size, parts) = (u128::from(unit), u128::from(size), u128::from(self.parts));
        let min = u128::from(*self.messages.start()).div_ceil(parts).next_multiple_of(size);
        let max = u128::from(*self.messages.end()) / parts;
        let first = min / ((k + 1) * unit) + 1;
        // If the interval for the first s is empty, or too small, so are those for greater ones.
        let (above, below) = ((n * (first - 1)).max((k - 1) * first) * unit, (k + 1) * first * unit);
        let length = (above + size).max(min);
        u64::try_from(length).ok().filter(|_| length < below && length <= max)
    }
}

/// Returns the number of parts of a plan's larger buffer, and of chunks of a part.
pub(super) fn parts(plan: &PlanTree) -> (u64, u32) {
    use CollectiveKind as K;
    let ranks = plan.ranks.len().max(1) as u32;
    let input = plan.ranks.iter().map(|rank| rank.input_chunks).max().unwrap_or(0);
    let output = plan.ranks.iter().map(|rank| rank.output_chunks).max().unwrap_or(0);
    match plan.collective.kind {
        K::AllGather => (ranks.into(), input.max(output / ranks)),
        K::ReduceScatter => (ranks.into(), output.max(input / ranks)),
        K::AllToAll | K::AllToAllV => (ranks.into(), input.max(output) / ranks),
        K::AllReduce | K::SendRecv | K::Broadcast | K::Reduce | K::Custom { .. } | K::Test { .. } => {
            (1, input.max(output))
        }
    }
}

/// Returns the least common multiple of two numbers, of which the second is a power of two.
fn least_common_multiple(number: u64, power: u64) -> u64 {
    let common = 1 << number.trailing_zeros().min(power.trailing_zeros());
    number / common * power
}

impl fmt::Display for LeastCounts {
    /// Writes a text such as `3 elements of 8 bytes, 5 of 4, 9 of 2 or 17 of 1`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |count: u64| if count == 1 { "element" } else { "elements" };
        let Some(first) = self.0.first() else { return f.write_str("counts that do not divide evenly") };
        write!(f, "{} {}", first.elements, name(first.elements))?;
        if self.0.len() == ELEMENT_SIZES.len() && self.0.iter().all(|count| count.elements == first.elements) {
            return Ok(());
        }
        write!(f, " of {} bytes", first.size)?;
        for (i, count) in self.0.iter().enumerate().skip(1) {
            let separator = if i + 1 == self.0.len() { " or" } else { "," };
            write!(f, "{separator} {} of {}", count.elements, count.size)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the thresholds of a part of some length, offset by offset.
    fn thresholds(counts: &Counts, length: u64, size: u64) -> Vec<u32> {
        let mut unit = counts.alignment;
        while !unit.is_multiple_of(size) || counts.packets && !unit.is_multiple_of(8) {
            unit += counts.alignment;
        }
        let chunks = u64::from(counts.chunks);
        let stride = length.div_ceil(chunks).next_multiple_of(unit);
        (0..stride).map(|x| (0..chunks).filter(|i| i * stride + x < length).count() as u32).collect()
    }

    proptest! {
        #[test]
        fn least_length_is_that_of_a_search(
            chunks in 2_u32..7, parts in 1_u64..4, alignment in 1_u64..20, packets: bool, min in 0_u64..400, more in 0_u64..300,
            size in proptest::sample::select(&ELEMENT_SIZES[..]),
        ) {
            let messages = min..=min + more;
            let counts = Counts { parts, chunks, alignment, packets, messages, greatest: None };
            for threshold in 1..chunks {
                let lengths = (0..=(min + more) / parts).filter(|length| length % size == 0 && length * parts >= min);
                let found = lengths.into_iter().find(|length| thresholds(&counts, *length, size).contains(&threshold));
                prop_assert_eq!(counts.least(threshold, size), found, "threshold {}", threshold);
            }
        }
    }

    #[test]
    fn counts_are_named_by_element_size() {
        let counts =
            Counts { parts: 1, chunks: 3, alignment: 16, packets: false, messages: 0..=u64::MAX, greatest: None };
        assert_eq!(counts.least_counts(1..=2).to_string(), "1 element");
        assert_eq!(counts.least_counts(2..=2).to_string(), "3 elements of 8 bytes, 5 of 4, 9 of 2 or 17 of 1");
    }
}
