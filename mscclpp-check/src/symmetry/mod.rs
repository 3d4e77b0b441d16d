//! Symmetry reduction: plans that are invariant under a rotation of the ranks. Rank r + s does to rank p + s what rank
//! r does to rank p.
//!
//! The first `representatives` ranks are the representative ranks, and rank r + k `representatives` is the
//! representative rank r *rotated by k*, with numbers modulo the number of ranks. It is of the *class* of r. A plan is
//! symmetric if, for some `representatives`,
//!
//! 1. a rotated rank has the thread blocks and operations of its representative, with channels and memory of ranks that
//!    are rotated equally, except for the order of unordered items: the sources that are combined, and the triggers
//!    that several threads post, each to its own port, if the block has no other operations of single threads
//!    ([`programs`]);
//! 2. for every rank the chunks of its memory can be renumbered so that, in all accesses of all ranks to it, the
//!    numbers are those at its representative ([`chunks`]);
//! 3. with these numbers its postconditions are those of its representative ([`postconditions`]).
//!
//! # Why checking representatives is enough
//!
//! A rotation of all ranks, with the renumbering of chunks, maps such a plan to itself. Hence every property of a
//! representative rank holds for the rotated ranks, with everything in it rotated. If the ranks of a class execute
//! their operations in step, which is one of the possible schedules, and one schedule represents all others
//! (`deadlock`, `race`), the execution of the representatives determines that of all ranks: when a representative
//! accesses the memory of one rotated by k, the rank rotated by -k accesses the memory of the representative in the
//! same way. So a model contains the steps of the representative ranks and their memory; an observer rotates everything
//! that crosses ranks: the agent, its clock, and the ranks of inputs. Inputs are identified by rank and by their number
//! at the representative.
//!
//! If this analysis of a plan has findings, all ranks are checked without it: reports are about the real ranks.

mod chunks;
mod numbers;
mod postconditions;
mod programs;

use std::sync::Arc;

use super::pairing::Pairs;
use super::space::Space;
use super::view::View;
use chunks::{Chunks, IncomingAccess};
use mscclpp_plan::raw::PlanTree;
pub(super) use numbers::Numbers;
use postconditions::Renumbering;
use programs::Programs;

/// The part of a plan that is checked for all of it.
pub(super) struct Symmetry {
    /// Number of representative ranks.
    pub(super) representatives: u32,
    /// The chunks that their operations access, one after the other, by the numbers at the representatives; those of an
    /// operation in a loop once.
    pub(super) chunks: Vec<u32>,
    /// The channels that their operations use, in the same order: the counter on which a representative waits, and the
    /// rotation of the waiting rank.
    pub(super) counters: Vec<(u32, u32)>,
    /// The renumbering of inputs.
    inputs: Renumbering,
    /// The numbers of chunks within their parts.
    numbers: Option<Arc<Numbers>>,
}

/// Average number of a rank's chunks that may be examined for each of its accesses.
const MAX_CHUNKS: u64 = 64;

impl Symmetry {
    /// Returns the symmetry with the fewest representative ranks.
    pub(super) fn of(view: View, pairs: &Pairs) -> Option<Self> {
        let plan = view.plan;
        let ranks = plan.ranks.len() as u32;
        if !plan.expectations.is_empty() {
            return None;
        }
        let mut owns = (1..ranks).filter(|own| ranks.is_multiple_of(*own) && Programs::may_be(view, pairs, *own));
        // If programs are equal while chunks or postconditions are not, they are for more representatives as well.
        let (own, programs) = owns.find_map(|own| Some((own, Programs::of(view, pairs, own)?)))?;
        Self::with(plan, own, &programs)
    }

    fn with(plan: &PlanTree, own: u32, programs: &Programs) -> Option<Self> {
        let all = plan.ranks.len() as u32 / own;
        let mut names = Vec::with_capacity(programs.access_shapes.iter().map(Vec::len).sum());
        let mut counters = Vec::new();
        // The accesses to the memory of each representative, and to those of its class.
        let mut done: Vec<Vec<IncomingAccess>> = Vec::new();
        done.resize_with(own as usize, Vec::new);
        for (by, access_shapes) in (0..own).zip(&programs.access_shapes) {
            for (number, access) in (0..).zip(access_shapes) {
                let chunk = programs.chunks(by, (all - access.shift) % all)[number as usize];
                names.push(chunk);
                done[access.owner as usize].push(IncomingAccess { by, number, access: *access, chunk });
            }
            let shifts = programs.shifts(by).enumerate();
            counters.extend(shifts.map(|(i, shift)| (programs.counters(by, (all - shift) % all)[i], shift)));
        }
        let fuel = (1 << 12) + names.len() as u64 * u64::from(all) * MAX_CHUNKS;
        let mut chunks = Chunks::new(fuel);
        let mut postconditions = Renumbering::new(plan, own, fuel)?;
        for (rank, done) in (0..own).zip(&done) {
            let tables = &plan.ranks[rank as usize];
            let count = Space::ALL.map(|space| {
                let is_used = done.iter().any(|done| done.access.space == space);
                if is_used { tables.chunks(space.buffer()) } else { 0 }
            });
            if count.iter().map(|count| u64::from(*count)).sum::<u64>() * u64::from(all) > fuel {
                return None;
            }
            for shift in 1..all {
                chunks.find(programs, done, shift, all, count)?;
                [Space::Input, Space::Output].into_iter().for_each(|space| chunks.fill(space));
                postconditions.note(plan, &chunks, rank, rank + shift * own);
            }
        }
        postconditions.hold(plan).then(|| Self {
            representatives: own,
            chunks: names,
            counters,
            numbers: Numbers::of(plan, own, &postconditions).map(Arc::new),
            inputs: postconditions,
        })
    }

    /// Returns the number of a chunk of a rank's input at its representative.
    pub(super) fn input(&self, rank: u32, chunk: u32) -> u32 {
        self.inputs.input(rank, chunk)
    }

    /// Returns the numbers of chunks within their parts, if one rotation determines all of them.
    pub(super) fn numbers(&self) -> Option<Arc<Numbers>> {
        self.numbers.clone()
    }

    /// Returns whether inputs keep their numbers.
    pub(super) fn keeps_inputs(&self) -> bool {
        self.inputs.keeps_inputs()
    }
}

#[cfg(test)]
mod tests;
