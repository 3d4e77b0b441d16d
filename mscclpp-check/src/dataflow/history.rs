//! The steps of an execution and their values, for reports.

use super::contents::{Contents, MemoryRange};
use super::memory::ValueRange;
use crate::place::LocatedOp;

/// All steps of an execution.
#[derive(Default)]
pub(super) struct History<'p> {
    pub(super) steps: Vec<Logged<'p>>,
}

/// What one step read and wrote.
pub(super) struct Logged<'p> {
    pub(super) at: LocatedOp<'p>,
    pub(super) number: u32,
    pub(super) reads: Vec<(MemoryRange, Vec<ValueRange>)>,
    pub(super) writes: Vec<(MemoryRange, Vec<ValueRange>)>,
}

impl<'p> History<'p> {
    pub(super) fn begin(&mut self, at: &LocatedOp<'p>, number: u32, contents: &Contents, reads: &[MemoryRange]) {
        let reads = reads.iter().map(|spot| (spot.clone(), held(contents, spot))).collect();
        self.steps.push(Logged { at: *at, number, reads, writes: Vec::new() });
    }

    pub(super) fn end(&mut self, contents: &Contents, writes: &[MemoryRange]) {
        if let Some(step) = self.steps.last_mut() {
            step.writes = writes.iter().map(|spot| (spot.clone(), held(contents, spot))).collect();
        }
    }

    pub(super) fn step(&self, number: u32) -> Option<&Logged<'p>> {
        self.steps.binary_search_by_key(&number, |step| step.number).ok().map(|i| &self.steps[i])
    }
}

/// Returns what a range holds, without gaps.
fn held(contents: &Contents, spot: &MemoryRange) -> Vec<ValueRange> {
    let mut pieces = Vec::new();
    if spot.range.is_empty() {
        return pieces;
    }
    contents.memories.read_from(spot.cell, spot.range.clone(), |range, piece| {
        let gap = ValueRange::new(range.end - range.start, super::values::UNKNOWN, 0, 0);
        pieces.push(piece.unwrap_or(gap));
    });
    pieces
}
