//! Data that is lost where chunks are short.
//!
//! Where a message does not divide evenly, chunks at the end of a caller's buffer are shorter than others, or empty.
//! What is written past the end of the buffer is discarded, and what is read there is zero. Scratch has all of its
//! chunks at every count. So data that a plan stores on its way in a chunk of an input or output is lost where that
//! chunk is shorter than the chunks from which and to which the data is moved.
//!
//! # The rule
//!
//! Every access of an operation begins at a chunk, and its ranges are equally long and cut equally
//! ([`slices`](super::super::slices)): so an operation does not change the *offset* of a byte within its chunk. For
//! every offset there is a threshold k so that of the callers' buffers it exists exactly in the chunks whose number in
//! their part is below k ([`counts`](super::super::counts)). Fix an offset and its threshold. Let a plan be right where
//! all chunks are full, and let an input chunk with number i contribute to an output chunk with number o.
//!
//! * If k ≤ o, nothing is required of the output.
//! * If k ≤ i < n, the contribution is zero, since the input is read as if it were padded with zeros. Wherever it is
//!   stored, zero is read; reductions of zeros are zero. The verification of results expects zero, too.
//! * If k > i and k > o, the contribution is right iff no chunk of a caller's buffer on its path has a number ≥ k: if
//!   one has, zero arrives instead, alone or for the partial reduction that is stored there.
//!
//! Let m be the greatest number of a caller's chunk on the path. The contribution is right at all counts iff no
//! threshold k with max(i, o) < k ≤ m occurs. With t(m), the greatest threshold up to m that occurs, that is t(m) ≤
//! max(i, o).
//!
//! In place, input and output share chunks with equal numbers within their parts, so all of this holds for the chunks of
//! the shared buffer.
//!
//! # Reductions
//!
//! The *reach* of a value is the maximum of t(m) over those of its contributions with t(m) > i, or 0 if there is none.
//! A value with reach r is wrong in output chunk o iff r > o: for some contribution t(m) > i and t(m) > o. A value that
//! is written to a caller's chunk j has, of all contributions, one with t(j) > i iff t(j) exceeds the least i; then its
//! reach becomes at least t(j), and otherwise it does not change. The reach of a reduction is the maximum of those of its
//! terms. So the reach and the least number of a contribution are enough; numbers of nodes give the latter.
//!
//! Where parts repeat, numbers within a part follow from coordinates only if all contributions have one coordinate.
//! Collectives with such parts require that of their outputs, so values of which it is not true are not tracked.
//!
//! The rule is exact, with one exception: where an input occurs several times under `min` or `max`, all of its paths
//! must be right. That it is exact for `prod` relies on 0 · NaN ≠ 0.
//!
//! # Symmetric ranks
//!
//! A representative's own memory has the real numbers of its chunks, and inputs have those of their representatives.
//! Values whose reach would not be 0 make a plan be checked with all ranks, so it has to be shown only for every rank
//! that no value is written to a chunk whose number exceeds a contribution's. If all ranks name their chunks equally
//! within parts, that follows for all ranks from the representatives. Otherwise the numbers at each rank must result
//! from those at the previous rank of its class by one permutation of the numbers within a part ([`Numbers`]); then
//! contributions with the number of the chunk itself have it at every rank, and others are not accepted.
//!
//! # Instances
//!
//! Instances do not change the order of chunks, so a contribution of a smaller plan has a greater number of a chunk on
//! its path than at its ends iff the contributions of all instances have. Their thresholds are those of the whole plan;
//! the smaller plan assumes that all occur.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::memory::ValueRange;
use super::values::{Kind, Node, UNKNOWN, Values};
use crate::counts::Counts;
use crate::model::Model;
use crate::symmetry::Numbers;

/// Tracks which values pass through chunks that may be shorter than their own.
pub(super) struct ShortChunks {
    /// `None` if no chunk of a caller's buffer is ever short.
    counts: Option<Counts>,
    /// Addresses of a chunk.
    chunk: u64,
    ranks: Ranks,
    /// With symmetry reduction, whether a value was written to a chunk with a greater number.
    failed: bool,
    /// By node, the first address of a chunk, and the number that all contributions have there.
    known: BTreeMap<(Node, u64), Option<u32>>,
}

/// How numbers of chunks relate to those of real ranks.
enum Ranks {
    /// They are those of the ranks.
    Real,
    /// Numbers within parts are those of all ranks that a rank represents.
    Alike,
    /// Inputs are numbered as at representatives.
    Renumbered(Arc<Numbers>),
    /// Numbers at different ranks have nothing in common.
    Unrelated,
}

impl ShortChunks {
    pub(super) fn of(model: &Model) -> Self {
        let ranks = match model.symmetry.map(|symmetry| symmetry.numbers()) {
            None => Ranks::Real,
            Some(None) => Ranks::Unrelated,
            Some(Some(numbers)) if numbers.are_equal() => Ranks::Alike,
            Some(Some(numbers)) => Ranks::Renumbered(numbers),
        };
        let counts = Counts::of(model.view, model.has_packets());
        Self { counts, chunk: model.size.chunk(), ranks, failed: false, known: BTreeMap::new() }
    }

    /// Tracks nothing.
    #[cfg(test)]
    pub(super) fn none() -> Self {
        Self { counts: None, chunk: 1, ranks: Ranks::Real, failed: false, known: BTreeMap::new() }
    }

    /// Returns whether values that are written to a buffer have to be examined.
    pub(super) fn concern(&self, memory: usize) -> bool {
        self.counts.is_some() && memory % 4 < 2
    }

    /// Returns the counts, if chunks may be short.
    pub(super) fn counts(&self) -> Option<&Counts> {
        self.counts.as_ref()
    }

    /// Returns whether the representatives do not show that no other rank loses data.
    pub(super) fn failed(&self) -> bool {
        self.failed
    }

    /// Returns whether no chunk from an address on, to which a range is written, has a greater number than a
    /// contribution.
    pub(super) fn is_safe(&mut self, values: &Values, piece: &ValueRange, position: u64, budget: &mut u64) -> bool {
        let Some(counts) = &self.counts else { return true };
        if piece.node == UNKNOWN {
            return true;
        }
        let (first, last) = (position / self.chunk, (position + piece.len.max(1) - 1) / self.chunk);
        match &self.ranks {
            Ranks::Real | Ranks::Alike => {
                let least = piece.at.wrapping_add_signed(values.least_shift(piece.node));
                match counts.period() {
                    None => least >= position,
                    Some(period) => least.abs_diff(position).is_multiple_of(period * self.chunk),
                }
            }
            Ranks::Renumbered(_) => {
                // Each chunk is examined, of which a short plan may have billions.
                *budget = budget.saturating_sub(last - first + 1);
                *budget > 0
                    && (first..=last).all(|chunk| {
                        let at = piece.at.wrapping_add((chunk - first) * self.chunk);
                        let number = self.counts.as_ref().map(|counts| counts.within_part(chunk));
                        self.number(values, piece.node, at) == number
                    })
            }
            Ranks::Unrelated => false,
        }
    }

    /// Returns the number at its real rank that all contributions to a node have at a coordinate.
    fn number(&mut self, values: &Values, node: Node, at: u64) -> Option<u32> {
        let Ranks::Renumbered(numbers) = &self.ranks else { return None };
        let chunk = self.chunk;
        *self.known.entry((node, at / chunk)).or_insert_with(|| {
            let (mut open, mut common) = (vec![(node, at)], None);
            let mut left = 2 * values.ranks() as usize;
            while let Some((node, at)) = open.pop() {
                left = left.checked_sub(1)?;
                match values.kind(node) {
                    Kind::Unknown => return None,
                    Kind::Input(rank) => {
                        let number = numbers.input(rank, at / chunk)?;
                        if *common.get_or_insert(number) != number {
                            return None;
                        }
                    }
                    Kind::Reduction(_, terms) => {
                        open.extend(terms.iter().map(|term| (term.node, at.wrapping_add_signed(term.shift))));
                    }
                }
            }
            common
        })
    }

    /// Updates the reach of ranges that a step writes to consecutive addresses of a caller's buffer. Each chunk whose data may be lost
    /// takes one of `budget`; without any left, ranges remain as they are.
    pub(super) fn pass(
        &mut self,
        values: &Values,
        by: u32,
        start: u64,
        pieces: &mut Vec<ValueRange>,
        budget: &mut u64,
    ) {
        let mut position = start;
        let is_safe = pieces.iter().all(|piece| {
            let is_safe = self.is_safe(values, piece, position, budget);
            position += piece.len;
            is_safe
        });
        if is_safe {
            return;
        }
        if !matches!(self.ranks, Ranks::Real) {
            self.failed = true;
            return;
        }
        let Some(counts) = &self.counts else { return };
        let mut position = start;
        for piece in std::mem::take(pieces) {
            let shift = values.least_shift(piece.node);
            let mut done = 0;
            while done < piece.len {
                let Some(left) = budget.checked_sub(1) else {
                    pieces.push(piece.part(done, piece.len));
                    break;
                };
                *budget = left;
                let chunk = (position + done) / self.chunk;
                let to = ((chunk + 1) * self.chunk - position).min(piece.len);
                let mut part = piece.part(done, to);
                let least = counts.within_part(part.at.wrapping_add_signed(shift) / self.chunk);
                let threshold = counts.threshold(counts.within_part(chunk));
                let is_tracked = counts.period().is_none() || values.has_one_shift(piece.node);
                if piece.node != UNKNOWN && is_tracked && threshold > least.max(part.reach) {
                    (part.reach, part.lost_by) = (threshold, by);
                }
                pieces.push(part);
                done = to;
            }
            position += piece.len;
        }
    }

    /// Returns whether a range of an output loses a contribution at some count.
    pub(super) fn is_lost(&self, piece: &ValueRange, position: u64) -> bool {
        let Some(counts) = self.counts.as_ref().filter(|_| piece.reach > 0) else { return false };
        let chunks = position / self.chunk..=(position + piece.len.max(1) - 1) / self.chunk;
        chunks.into_iter().any(|chunk| piece.reach > counts.within_part(chunk))
    }
}
