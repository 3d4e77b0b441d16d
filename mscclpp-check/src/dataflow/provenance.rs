//! Provenance: where inputs were copied or reduced on their way to an output.

use std::collections::BTreeMap;

use super::history::Logged;
use super::memory::ValueRange;
use super::report::Reporter;
use super::values::{Kind, Node};
use crate::place::canonical_buffer;
use mscclpp_plan::types::BufferKind;

/// A location that held an input at some time, alone or in a reduction.
pub(super) struct Occurrence {
    pub(super) memory: usize,
    pub(super) position: u64,
    /// The step that wrote it there; 0 for an input at the start.
    pub(super) written: u32,
    /// Whether a step has copied or reduced it from there.
    pub(super) read: bool,
    /// The step that overwrote it.
    pub(super) gone: Option<u32>,
}

/// Maximum number of steps of a path that are reported.
const MAX_PATH_STEPS: usize = 8;

impl<'p> Reporter<'_, 'p> {
    /// Returns all locations that held an input at some time, in the order in which it was written there.
    pub(super) fn trace(&self, (rank, at): (u32, u64)) -> Vec<Occurrence> {
        if rank as usize >= self.plan.ranks.len() {
            return Vec::new();
        }
        let shifts = self.shifts(rank);
        let (buffer, first) = canonical_buffer(self.plan, rank, BufferKind::Input, 0);
        let start = super::memory_of(rank, buffer, false);
        let position = u64::from(first) * self.chunk + at;
        let mut occurrences = vec![Occurrence { memory: start, position, written: 0, read: false, gone: None }];
        // The current locations.
        let mut now = BTreeMap::from([((start, position), 0)]);
        let mut kept = Vec::new();
        for step in &self.log.steps {
            for (spot, _) in &step.reads {
                for (_, &holder) in now.range((spot.memory, spot.range.start)..(spot.memory, spot.range.end)) {
                    kept.push(holder);
                }
            }
            let mut carried = false;
            for (spot, pieces) in &step.writes {
                let over: Vec<_> = now
                    .range((spot.memory, spot.range.start)..(spot.memory, spot.range.end))
                    .map(|(k, v)| (*k, *v))
                    .collect();
                for (key, holder) in over {
                    occurrences[holder].gone = Some(step.number);
                    now.remove(&key);
                }
                let mut start = spot.range.start;
                for piece in pieces {
                    if let Some(shift) = shifts.get(piece.node as usize).copied().flatten() {
                        let inside = at.wrapping_sub(piece.at.wrapping_add_signed(shift));
                        if inside < piece.len {
                            carried = true;
                            now.insert((spot.memory, start + inside), occurrences.len());
                            occurrences.push(Occurrence {
                                memory: spot.memory,
                                position: start + inside,
                                written: step.number,
                                read: false,
                                gone: None,
                            });
                        }
                    }
                    start += piece.len;
                }
            }
            for holder in kept.drain(..) {
                occurrences[holder].read |= carried;
            }
        }
        occurrences
    }

    /// Returns, per node, the distance from its coordinate to that of an input of a rank, if it contains one.
    fn shifts(&self, rank: u32) -> Vec<Option<i64>> {
        let mut shifts: Vec<Option<i64>> = Vec::with_capacity(self.values.len());
        for node in 0..self.values.len() {
            let shift = match self.values.kind(node as Node) {
                Kind::Unknown => None,
                Kind::Input(other) => (other == rank).then_some(0),
                Kind::Reduction(_, terms) => {
                    terms.iter().find_map(|term| shifts[term.node as usize].map(|shift| term.shift.wrapping_add(shift)))
                }
            };
            shifts.push(shift);
        }
        shifts
    }

    /// Returns the first step that created a node, and the offset of the node's coordinate in its ranges.
    pub(super) fn maker(&self, node: Node, at: u64) -> Option<(&Logged<'p>, u64)> {
        self.log.steps.iter().find_map(|step| {
            let (_, pieces) = step.writes.first()?;
            let mut start = 0;
            for piece in pieces {
                let inside = at.wrapping_sub(piece.at);
                if piece.node == node && inside < piece.len {
                    return Some((step, start + inside));
                }
                start += piece.len;
            }
            None
        })
    }

    /// Returns the steps that moved a value to its location, the first one first, and the source of each. A path of a
    /// single step is not reported.
    pub(super) fn path(&self, piece: &ValueRange) -> Vec<(&Logged<'p>, usize, u64)> {
        let mut path = Vec::new();
        let mut by = piece.by;
        while let Some(step) = self.log.step(by).filter(|_| path.len() < MAX_PATH_STEPS) {
            let held = |piece: &ValueRange, other: &ValueRange| {
                piece.node == other.node && other.at.wrapping_sub(piece.at) < piece.len
            };
            let from = step.reads.iter().find_map(|(spot, pieces)| {
                let mut start = spot.range.start;
                for other in pieces {
                    if held(other, piece) {
                        return Some((spot.memory, start + piece.at.wrapping_sub(other.at), other.by));
                    }
                    start += other.len;
                }
                None
            });
            let Some((memory, position, before)) = from else { break };
            path.push((step, memory, position));
            by = before;
        }
        path.reverse();
        if path.len() < 2 { Vec::new() } else { path }
    }
}
