//! Rule 6: the plan computes what its collective guarantees.
//!
//! The plan is executed once on symbols: every byte of every buffer holds a value, which is an input, a reduction of
//! values, or nothing ([`values`]). The earlier rules have proved that there is no data race; hence all schedules
//! compute the same, and the one of this execution represents them. For the same reason ports may act at once.
//!
//! * No operation reads uninitialized memory: scratch, or an output out of place, before it is written.
//! * At the end every output with a postcondition
//!   ([`Collective::postconditions`](mscclpp_plan::collective::Collective::postconditions)) holds the inputs that it requires,
//!   each once, combined with one reduction throughout. Sums are considered independent of order, as collectives do;
//!   [`order`] computes the order in which a plan sums. Under `min` and `max` an input may occur several times.
//! * The same holds for the expectations that a program states ([`Expectation`](mscclpp_plan::raw::Expectation)).
//! * Out of place, inputs hold at the end what they held at the start.
//! * No contribution to an output is lost where chunks of callers' buffers are short ([`short_chunks`]).
//!
//! The distance of a send-receive is the one over which rank 0 receives, since plans send from group to group as well
//! as from rank to rank; all other ranks must have the same. Fragments (`Test`) have no postconditions and may read
//! what other fragments would write, so their data is tracked only if they state expectations.

mod contents;
mod contributions;
mod distance;
mod history;
mod memory;
mod order;
mod outputs;
mod provenance;
mod recognize;
mod recorder;
mod redundant;
mod report;
mod short_chunks;
mod values;

pub use distance::send_distance;
pub use order::{ReductionOrder, reduction_order};
pub(super) use recorder::MemoryRecorder;
pub(super) use redundant::redundant_transfer;

use std::ops::Range;

use super::machine::{AbstractMachine, Observer};
use super::model::{Model, Space, memory_number};
use super::place::{LocatedOp, canonical_buffer};
use super::symmetry::Symmetry;
use contents::{Contents, MemoryRange};
use memory::Memories;
use mscclpp_plan::collective::CollectiveKind;
use mscclpp_plan::diag::Diagnostics;
use mscclpp_plan::raw::{Function, PlanTree};
use mscclpp_plan::types::BufferKind;
use outputs::OutputChecker;
use short_chunks::ShortChunks;

/// Observes the abstract execution of a plan, and tracks the values in its buffers.
pub(super) struct Dataflow<'p> {
    plan: &'p PlanTree,
    /// The reason why representative ranks are enough.
    symmetry: Option<&'p Symmetry>,
    contents: Contents,
    /// Addresses of a chunk.
    chunk: u64,
    /// Number of executed steps.
    steps: u32,
    uninitialized_reads: Vec<UninitializedRead<'p>>,
    reads: Vec<MemoryRange>,
    writes: Vec<MemoryRange>,
    /// All steps and their values, if a report needs them.
    log: Option<history::History<'p>>,
}

/// An operation that reads uninitialized memory.
struct UninitializedRead<'p> {
    at: LocatedOp<'p>,
    memory: usize,
    range: Range<u64>,
}

/// Maximum number of uninitialized reads that are kept.
const MAX_UNINITIALIZED_READS: usize = 64;

/// Returns the number of a rank's buffer: input, output, scratch, and packets in scratch are separate buffers.
fn memory_of(rank: u32, buffer: BufferKind, packets: bool) -> usize {
    memory_number(rank, Space::of(buffer, packets))
}

/// Returns whether the plan has postconditions or expectations.
fn applies(plan: &PlanTree) -> bool {
    !matches!(plan.collective.kind, CollectiveKind::Test { .. }) || !plan.expectations.is_empty()
}

impl<'p> Dataflow<'p> {
    /// Creates an observer for the values of a plan, if the plan has postconditions or expectations.
    pub(super) fn of(model: &Model<'p>) -> Option<Self> {
        applies(model.plan).then(|| Self::new(model, None))
    }

    fn new(model: &Model<'p>, log: Option<history::History<'p>>) -> Self {
        let (plan, symmetry, chunk) = (model.plan, model.symmetry, model.size.chunk());
        let ranks = model.ranks;
        let mut memories = Memories::with_capacity(ranks as usize * Space::ALL.len(), model.atoms.count());
        for (rank, space) in (0..ranks).flat_map(|rank| Space::ALL.map(|space| (rank, space))) {
            memories.add(model.atoms.cuts(rank, space));
        }
        let mut contents = Contents::new(plan.ranks.len() as u32, memories, ShortChunks::of(model));
        for (rank, tables) in (0..ranks).zip(&plan.ranks) {
            let (buffer, first) = canonical_buffer(plan, rank, BufferKind::Input, 0);
            let input = contents.values.input(rank);
            let (start, len) = (u64::from(first) * chunk, u64::from(tables.input_chunks) * chunk);
            contents.set(memory_of(rank, buffer, false), start, len, input);
        }
        Self {
            plan,
            symmetry,
            contents,
            chunk,
            steps: 0,
            uninitialized_reads: Vec::new(),
            reads: Vec::new(),
            writes: Vec::new(),
            log,
        }
    }

    /// Returns the findings about a plan that has run to its end and has no races.
    pub(super) fn findings(self, model: &Model<'p>) -> Diagnostics {
        if self.contents.is_spent() {
            return report::analysis_limit().into();
        }
        if self.is_correct() {
            return Diagnostics::default();
        }
        if self.symmetry.is_some() {
            // The finding is made when all ranks are checked.
            return report::analysis_limit().into();
        }
        // The second execution records everything.
        let mut again = Self::new(model, Some(history::History::default()));
        AbstractMachine::new(model).run(&mut again);
        report::findings_of(&again)
    }

    /// Returns whether the plan, having run to its end, computes what it must.
    fn is_correct(&self) -> bool {
        let is_short = self.contents.short_chunks.failed();
        self.uninitialized_reads.is_empty() && !is_short && self.output_checker().faults().0.is_empty()
    }

    fn output_checker(&self) -> OutputChecker<'_> {
        OutputChecker::new(self.plan, self.symmetry, &self.contents, self.chunk)
    }
}

impl<'p> Observer<'p> for Dataflow<'p> {
    fn on_step(&mut self, model: &Model<'p>, agent: usize, step: usize) {
        self.steps = self.steps.saturating_add(1);
        // Most operations copy what is in one cell.
        if let [read, write] = model.effects(step)
            && (read.write, write.write, self.log.is_none()) == (false, true, true)
            && (read.atoms().len(), write.atoms().len()) == (1, 1)
            && (read.shift, write.shift) == (0, 0)
            && model.step_at(step).kind.function() == Some(Function::Copy)
        {
            let to = MemoryRange {
                memory: memory_number(write.owner, write.memory),
                range: model.range(write),
                cell: write.atoms().start,
                further: 0,
            };
            if self.contents.copy(self.steps, read.atoms().start, &to) {
                return;
            }
        }
        let Self { reads, writes, .. } = self;
        reads.clear();
        writes.clear();
        for effect in model.effects(step) {
            let memory = memory_number(effect.owner, effect.memory);
            let further = effect.shift * model.ranks;
            let spot = MemoryRange { memory, range: model.range(effect), cell: effect.atoms().start, further };
            if effect.write { &mut *writes } else { &mut *reads }.push(spot);
        }
        if reads.is_empty() {
            return;
        }
        if let Some(log) = &mut self.log {
            log.begin(&model.placed(agent, step), self.steps, &self.contents, reads);
        }
        let uninitialized_reads = &mut self.uninitialized_reads;
        self.contents.step(model.op(agent, step), self.steps, reads, writes, |memory, range| {
            if uninitialized_reads.len() < MAX_UNINITIALIZED_READS {
                uninitialized_reads.push(UninitializedRead { at: model.placed(agent, step), memory, range });
            }
        });
        if let Some(log) = &mut self.log {
            log.end(&self.contents, writes);
        }
    }

    fn on_barrier(&mut self, _: u32, _: &[usize]) {}
}

#[cfg(test)]
mod tests;
