//! Plans of which all ranks do the same, but for a shift: rank r + s does to rank p + s what rank r does to rank p.
//!
//! Let the first `representatives` ranks be called own ones, and let rank r + k `representatives` be the own rank r *shifted by k*, numbers taken modulo
//! the number of ranks. A plan is symmetric if, for some `representatives`,
//!
//! 1. a shifted rank has the thread blocks and operations of the own one, with channels and memory of ranks that are shifted as
//!    far, up to the order of what has none: the sources that are combined, and what several threads give each to a port of its own
//!    where the block does nothing else by single threads ([`programs`]);
//! 2. for every rank the chunks of its memory can be numbered anew so that, of all that all ranks do to it, the numbers are those
//!    at the own rank of its kind ([`chunks`]);
//! 3. with these numbers it is promised what the own rank is promised ([`postconditions`]).
//!
//! # Why looking at own ranks is enough
//!
//! To shift all ranks, and to number chunks anew, turns such a plan into itself. Hence all that can be said of an own rank can be
//! said of the shifted ones, with everything in it shifted. If the ranks of a kind do their operations in step, which is one of the
//! orders in which the plan may run, and an order speaks for all others (`deadlock`, `race`), the run of the own ranks tells that of
//! all: what an own rank does to the memory of one shifted by k, the rank shifted by -k does at that time to the memory of the own
//! one. So a model holds the steps of the own ranks and their memory; whoever looks on shifts what crosses over: who it is, what
//! it knows, and whose inputs it carries. Inputs are told apart by rank and by their number at the own rank.
//!
//! Of a plan in which this finds faults, all ranks are looked at as they are: what is told to people is told of them.

mod chunks;
mod postconditions;
mod programs;

use super::model::Space;
use super::pairing::Pairs;
use super::view::View;
use crate::plan::PlanTree;
use chunks::{Chunks, IncomingAccess};
use postconditions::Promises;
use programs::Programs;

/// What of a plan is looked at for all of it.
pub(super) struct Symmetry {
    /// Ranks that stand for all.
    pub(super) representatives: u32,
    /// The chunks that their operations touch, one after the other, by the numbers at the own ranks; those of an operation that is
    /// repeated once.
    pub(super) chunks: Vec<u32>,
    /// The channels that their operations use, likewise: the counter on which an own rank waits, and by how much the waiting rank
    /// is shifted.
    pub(super) counters: Vec<(u32, u32)>,
    /// What inputs are called.
    inputs: Promises,
}

/// Chunks of a rank that are looked at for each of its accesses, on average.
const MOST_CHUNKS: u64 = 64;

impl Symmetry {
    /// The fewest ranks that stand for all others.
    pub(super) fn of(view: View, pairs: &Pairs) -> Option<Self> {
        let plan = view.plan;
        let ranks = plan.ranks.len() as u32;
        if !plan.expectations.is_empty() {
            return None;
        }
        let mut owns = (1..ranks).filter(|own| ranks.is_multiple_of(*own) && Programs::may_be(view, pairs, *own));
        // Programs that are alike while chunks or promises are not, are so for more own ranks as well.
        let (own, programs) = owns.find_map(|own| Some((own, Programs::of(view, pairs, own)?)))?;
        Self::with(plan, own, &programs)
    }

    fn with(plan: &PlanTree, own: u32, programs: &Programs) -> Option<Self> {
        let all = plan.ranks.len() as u32 / own;
        let mut names = Vec::with_capacity(programs.deeds.iter().map(Vec::len).sum());
        let mut counters = Vec::new();
        // What is done to the memory of each own rank, and to those of its kind.
        let mut done: Vec<Vec<IncomingAccess>> = Vec::new();
        done.resize_with(own as usize, Vec::new);
        for (by, deeds) in (0..own).zip(&programs.deeds) {
            for (number, deed) in (0..).zip(deeds) {
                let chunk = programs.chunks(by, (all - deed.shift) % all)[number as usize];
                names.push(chunk);
                done[deed.owner as usize].push(IncomingAccess { by, number, deed: *deed, chunk });
            }
            let shifts = programs.shifts(by).enumerate();
            counters.extend(shifts.map(|(i, shift)| (programs.counters(by, (all - shift) % all)[i], shift)));
        }
        let fuel = (1 << 12) + names.len() as u64 * u64::from(all) * MOST_CHUNKS;
        let mut chunks = Chunks::new(fuel);
        let mut promises = Promises::new(plan, own, fuel)?;
        for (rank, done) in (0..own).zip(&done) {
            let tables = &plan.ranks[rank as usize];
            let count = Space::ALL.map(|space| {
                let is_used = done.iter().any(|done| done.deed.space == space);
                if is_used { tables.chunks(space.buffer()) } else { 0 }
            });
            if count.iter().map(|count| u64::from(*count)).sum::<u64>() * u64::from(all) > fuel {
                return None;
            }
            for shift in 1..all {
                chunks.find(programs, done, shift, all, count)?;
                [Space::Input, Space::Output].into_iter().for_each(|space| chunks.fill(space));
                promises.note(plan, &chunks, rank, rank + shift * own);
            }
        }
        promises.hold(plan).then_some(Self { representatives: own, chunks: names, counters, inputs: promises })
    }

    /// What a chunk of a rank's input is called.
    pub(super) fn input(&self, rank: u32, chunk: u32) -> u32 {
        self.inputs.input(rank, chunk)
    }

    /// Whether inputs are called what they are.
    pub(super) fn keeps_inputs(&self) -> bool {
        self.inputs.keeps_inputs()
    }
}

#[cfg(test)]
mod tests;
