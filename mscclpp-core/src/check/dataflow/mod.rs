//! Rule 6: the plan computes what its collective promises.
//!
//! The plan runs once in the abstract, on symbols: every byte of every memory holds a value, which is an input, a
//! reduction of values, or nothing ([`values`]). No two accesses collide that nothing orders, or an earlier rule would have
//! said so; hence all orders of execution compute the same, and the one of this run speaks for them. Ports act at once for
//! the same reason.
//!
//! * Nothing is read that nobody has written: scratch, or an output out of place, holds anything before it is written.
//! * At the end every promised output ([`Collective::promises`](crate::collective::Collective::promises)) holds the inputs
//!   it should, each once, combined with one reduction throughout. Sums are taken to be free of order, as collectives
//!   take them; which order a plan sums in, [`order`] tells. Under `min` and `max` an input may occur several times.
//! * Out of place, inputs hold at the end what they held at the start.
//!
//! The distance of a send-receive is what rank 0 receives over, since plans send from group to group as well as from rank
//! to rank; all others must have the same. Fragments (`Test`) promise nothing and may read what others would write, so
//! they are not followed.

mod contents;
mod judge;
mod leaves;
mod memory;
mod order;
mod story;
mod values;

pub use order::{ReductionOrder, reduction_order};

use std::ops::Range;

use super::effect::effects;
use super::machine::{Machine, Survey, Watch};
use super::pairing::Pairs;
use super::place::{Placed, home};
use crate::collective::CollectiveKind;
use crate::diag::Diagnostics;
use crate::plan::PlanTree;
use crate::vocab::BufferKind;
use contents::{Contents, Spot};
use judge::Judge;

/// Looks on while a plan runs, and knows what its memories hold.
struct Dataflow<'p> {
    plan: &'p PlanTree,
    contents: Contents,
    /// Positions of a chunk.
    chunk: u64,
    /// Steps done.
    steps: u32,
    misreads: Vec<Misread<'p>>,
    reads: Vec<Spot>,
    writes: Vec<Spot>,
    /// All that happened, if somebody is to be told.
    log: Option<story::Log<'p>>,
}

/// An operation that reads what nobody has written.
struct Misread<'p> {
    at: Placed<'p>,
    spot: Spot,
}

/// Misreads that are kept.
const MOST_MISREADS: usize = 64;

/// Number of a rank's memory: one for each buffer, and one for the packets in scratch.
fn memory_of(rank: u32, buffer: BufferKind, packets: bool) -> usize {
    rank as usize * 4 + if packets { 3 } else { buffer as usize }
}

/// Whether anything is demanded of a plan's results.
fn applies(plan: &PlanTree) -> bool {
    !matches!(plan.collective.kind, CollectiveKind::Test { .. })
}

/// Follows the contents of all memories through a plan that runs to its end and has no races.
pub(super) fn check(plan: &PlanTree, pairs: &Pairs) -> Diagnostics {
    if !applies(plan) {
        return Diagnostics::default();
    }
    let survey = Survey::of(plan);
    for &chunk_bytes in &survey.sizes {
        let end = run(plan, pairs, &survey, chunk_bytes, None);
        if end.contents.is_spent() {
            return story::too_intricate().into();
        }
        if !end.is_right() {
            // Once more, and everything is noted down.
            let log = Some(story::Log::default());
            return story::tell(&run(plan, pairs, &survey, chunk_bytes, log));
        }
    }
    Diagnostics::default()
}

fn run<'p>(
    plan: &'p PlanTree,
    pairs: &'p Pairs,
    survey: &Survey,
    chunk_bytes: u64,
    log: Option<story::Log<'p>>,
) -> Dataflow<'p> {
    let mut machine = Machine::new(plan, pairs, survey, chunk_bytes);
    let mut watch = Dataflow::new(plan, &machine, log);
    machine.run(&mut watch);
    watch
}

impl<'p> Dataflow<'p> {
    fn new(plan: &'p PlanTree, machine: &Machine<'p>, log: Option<story::Log<'p>>) -> Self {
        let ranks = plan.ranks.len() as u32;
        let chunk = machine.chunk_bytes().saturating_mul(machine.parts());
        let mut contents = Contents::new(ranks, 4 * ranks as usize);
        for (rank, tables) in (0..).zip(&plan.ranks) {
            let (buffer, first) = home(plan, rank, BufferKind::Input, 0);
            let input = contents.values.input(rank);
            let (start, len) = (u64::from(first) * chunk, u64::from(tables.input_chunks) * chunk);
            contents.set(memory_of(rank, buffer, false), start, len, input);
        }
        Self { plan, contents, chunk, steps: 0, misreads: Vec::new(), reads: Vec::new(), writes: Vec::new(), log }
    }

    /// Whether the plan, having run to its end, did what it should.
    fn is_right(&self) -> bool {
        self.misreads.is_empty() && self.judge().faults().0.is_empty()
    }

    fn judge(&self) -> Judge<'_> {
        Judge::new(self.plan, &self.contents, self.chunk)
    }
}

impl<'p> Watch<'p> for Dataflow<'p> {
    fn done(&mut self, machine: &Machine<'p>, agent: usize, at: &Placed<'p>) {
        self.steps = self.steps.saturating_add(1);
        if !at.op.kind.is_data() {
            return;
        }
        let Self { reads, writes, .. } = self;
        reads.clear();
        writes.clear();
        effects(self.plan, at, &mut |effect| {
            let (buffer, index) = home(self.plan, effect.owner, effect.buffer, effect.range.index);
            let range = extent(machine, agent, at, index, effect.range.size);
            let memory = memory_of(effect.owner, buffer, effect.packets);
            if effect.write { &mut *writes } else { &mut *reads }.push(Spot { memory, range });
        });
        if reads.first().is_none_or(|spot| spot.range.is_empty()) {
            return;
        }
        if let Some(log) = &mut self.log {
            log.begin(at, self.steps, &self.contents, reads);
        }
        let misreads = &mut self.misreads;
        self.contents.step(at.op, self.steps, reads, writes, |memory, range| {
            if misreads.len() < MOST_MISREADS {
                misreads.push(Misread { at: *at, spot: Spot { memory, range } });
            }
        });
        if let Some(log) = &mut self.log {
            log.end(&self.contents, writes);
        }
    }

    fn met(&mut self, _: &[usize]) {}
}

/// Where a range of chunks lies at the size of this run: the slice of its operation, in the window of its loop.
fn extent(machine: &Machine, agent: usize, at: &Placed, index: u32, size: u32) -> Range<u64> {
    let parts = u128::from(machine.parts());
    let chunk = u128::from(machine.chunk_bytes()) * parts;
    let start = u128::from(index) * chunk;
    let length = u128::from(size) * chunk;
    let (from, to) = match at.op.slice {
        None => (0, length),
        Some(slice) => {
            let cut = |number: u32| length * u128::from(number) / u128::from(slice.of.max(1));
            (cut(slice.index), cut(slice.index + 1))
        }
    };
    let (from, to) = match machine.window(agent) {
        None => (from, to),
        Some((iteration, unit)) => {
            let begin = from + u128::from(iteration) * u128::from(unit) * parts;
            (begin.min(to), (begin + u128::from(unit) * parts).min(to))
        }
    };
    (start + from) as u64..(start + to) as u64
}

#[cfg(test)]
mod tests;
