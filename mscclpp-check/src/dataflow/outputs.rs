//! Comparison of the final values with the postconditions.

use std::ops::Range;

use super::contents::Contents;
use super::contributions::{Contributions, all_ranks, each_rank};
use super::distance::distance;
use super::memory::ValueRange;
use super::values::{How, Kind, Node};
use crate::place::canonical_buffer;
use crate::symmetry::Symmetry;
use mscclpp_plan::collective::{ChunkCounts, CollectiveKind, OutputContent, Postcondition};
use mscclpp_plan::origin::Origin;
use mscclpp_plan::raw::{Expectation, PlanTree};
use mscclpp_plan::types::{BufferKind, ReduceOp};

/// A part of an output, or of an input, with a wrong value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OutputError {
    pub(super) rank: u32,
    pub(super) buffer: BufferKind,
    /// Chunk of that buffer.
    pub(super) chunk: u64,
    /// Location of that chunk: the buffer's number, and the first address.
    pub(super) place: (usize, u64),
    /// Length of the part of the chunk, in addresses.
    pub(super) len: u64,
    /// The required inputs by rank and coordinate, in order, each with its multiplicity.
    pub(super) expected: Vec<(u32, u64)>,
    /// Source location of the expectation, if the program states it.
    pub(super) demanded: Option<Origin>,
    pub(super) found: Found,
}

/// The value that is there instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Uninitialized.
    Nothing,
    /// Other inputs, or a combination of inputs, or too few of them.
    Inputs(ValueRange, Contributions),
    /// The required inputs, combined in another way than another output is.
    Mixed(ValueRange, How, How),
    /// The required input, which the end of a plan that averages divides.
    Divided(ValueRange),
    /// The required inputs, of which some are lost where chunks are short.
    Lost(ValueRange),
    /// In a plan with rows: a value that is not normalized, or one that was computed from normalized values.
    NotNormalized(ValueRange, Contributions),
}

/// Compares outputs with postconditions.
pub(super) struct OutputChecker<'a> {
    plan: &'a PlanTree,
    /// The reason why the outputs of representative ranks are enough.
    symmetry: Option<&'a Symmetry>,
    contents: &'a Contents,
    /// Addresses of a chunk.
    chunk: u64,
    extent: ChunkCounts,
    /// By node, the result of checking it as a reduction over all ranks.
    verdicts: Vec<Verdict>,
    /// Per rank, the last node that was checked; see [`all_ranks`].
    seen: Vec<u32>,
    /// Where inputs are renamed, the last such mark.
    mark: u32,
    /// How the first output is combined. All others must be combined in the same way, those with expectations included: these
    /// do not state a reduction.
    how: Option<How>,
    /// Whether executors divide all outputs by the number of ranks.
    averages: bool,
    /// Maximum number of terms that may be checked where reductions are not plain sums over all ranks.
    budget: u64,
    faults: Vec<OutputError>,
    /// Number of errors, of which not all are kept.
    pub(super) count: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Open,
    /// All ranks at one coordinate, at the given distance from the node's own.
    All(i64, Option<How>),
    /// It depends on uninitialized memory.
    Unknown,
    Other,
}

/// A required value.
struct Demand {
    /// Inputs by rank and coordinate, in order.
    inputs: Vec<(u32, u64)>,
    /// Source location, if the program states it.
    origin: Option<Origin>,
}

/// How a value is wrong.
enum Wrong {
    Missing,
    Inputs,
    /// Combined in one way, and an earlier output in another.
    Mixed(How, How),
    Divided,
    /// Lost where chunks are short.
    Lost,
    /// Not normalized, or computed from normalized values.
    NotNormalized,
}

/// Far more than any useful plan needs; a plan that shares its partial results repeatedly would need ever more.
const BUDGET: u64 = 1 << 24;

/// Maximum number of errors that are kept: each takes time to explain.
const MAX_ERRORS: usize = 64;

impl<'a> OutputChecker<'a> {
    pub(super) fn new(plan: &'a PlanTree, symmetry: Option<&'a Symmetry>, contents: &'a Contents, chunk: u64) -> Self {
        let tables = plan.ranks.first();
        let mut extent = ChunkCounts {
            num_ranks: plan.ranks.len() as u32,
            input: tables.map_or(0, |rank| rank.input_chunks),
            output: tables.map_or(0, |rank| rank.output_chunks),
            distance: 1,
        };
        if plan.collective.kind == CollectiveKind::SendRecv {
            extent.distance = distance(plan, contents);
        }
        Self {
            plan,
            symmetry,
            contents,
            chunk,
            extent,
            verdicts: vec![Verdict::Open; contents.values.len()],
            seen: vec![0; plan.ranks.len()],
            mark: 0,
            how: None,
            averages: plan.ranks.len() > 1 && plan.reductions().contains(&ReduceOp::Avg),
            budget: BUDGET,
            faults: Vec::new(),
            count: 0,
        }
    }

    /// Returns all errors.
    pub(super) fn faults(mut self) -> (Vec<OutputError>, u64) {
        let collective = self.plan.collective;
        let renaming = self.symmetry.filter(|symmetry| !symmetry.keeps_inputs());
        for rank in 0..self.symmetry.map_or(self.extent.num_ranks, |symmetry| symmetry.representatives) {
            for postcondition in collective.postconditions(self.extent, rank) {
                match renaming {
                    None => self.check_postcondition(rank, postcondition),
                    Some(symmetry) => self.check_renamed(symmetry, rank, postcondition),
                }
            }
            if !collective.in_place {
                self.input(rank);
            }
        }
        for expectation in &self.plan.expectations {
            self.check_expectation(expectation);
        }
        let is_custom = matches!(collective.kind, CollectiveKind::Custom { .. });
        if collective.rows && is_custom && self.faults.is_empty() {
            (0..self.extent.num_ranks).for_each(|rank| self.check_custom_rows(rank));
        }
        (self.faults, self.count)
    }

    /// Returns whether outputs meet some postconditions, given with their ranks; those of the plan do not count.
    pub(super) fn all_hold(mut self, mut postconditions: impl Iterator<Item = (u32, Postcondition)>) -> bool {
        postconditions.all(|(rank, postcondition)| {
            self.check_postcondition(rank, postcondition);
            self.faults.is_empty()
        })
    }

    /// Visits the values of outputs whose postconditions are reductions, with the rank and the coordinate of the
    /// inputs.
    pub(super) fn reductions(&self, mut visit: impl FnMut(u32, u64, ValueRange)) {
        for rank in 0..self.extent.num_ranks {
            for postcondition in self.plan.collective.postconditions(self.extent, rank) {
                let chunk = postcondition.content.chunk();
                if postcondition.content.is_reduction() {
                    let (memory, range) = self.output(rank, postcondition.chunk, postcondition.len);
                    let first = u64::from(chunk) * self.chunk;
                    self.contents.memories.read(memory, range.clone(), |part, piece| {
                        if let Some(piece) = piece {
                            let piece = self.before_norm(piece).unwrap_or(piece);
                            visit(rank, first + part.start - range.start, piece);
                        }
                    });
                }
            }
        }
    }

    /// Returns what a normalized value was before; `None` for other values.
    fn before_norm(&self, piece: ValueRange) -> Option<ValueRange> {
        let term = self.contents.values.before_norm(piece.node)?;
        Some(ValueRange { node: term.node, at: piece.at.wrapping_add_signed(term.shift), ..piece })
    }

    /// Returns the location of chunks of an output.
    fn output(&self, rank: u32, chunk: u32, len: u32) -> (usize, Range<u64>) {
        let (buffer, first) = canonical_buffer(self.plan, rank, BufferKind::Output, chunk);
        let start = u64::from(first) * self.chunk;
        (super::memory_of(rank, buffer, false), start..start + u64::from(len) * self.chunk)
    }

    fn check_postcondition(&mut self, rank: u32, postcondition: Postcondition) {
        let contents = self.contents;
        let (memory, range) = self.output(rank, postcondition.chunk, postcondition.len);
        let origin = u64::from(postcondition.content.chunk()) * self.chunk;
        contents.memories.read(memory, range.clone(), |part, piece| {
            let at = origin + part.start - range.start;
            let wrong = match (piece, postcondition.content) {
                (None, _) => Some(Wrong::Missing),
                (Some(piece), OutputContent::Input { rank, .. }) => self.copy(piece, rank, at),
                (Some(piece), OutputContent::Reduction { .. }) => self.reduction(piece, at),
                (Some(piece), OutputContent::Normalized { .. }) => {
                    self.normalized(piece, |own, sum| own.reduction(sum, at))
                }
                (Some(piece), OutputContent::NormalizedInput { rank, .. }) => {
                    self.normalized(piece, |own, row| own.copy(row, rank, at))
                }
            };
            let Some(wrong) = wrong.or_else(|| self.lost(piece, part.start)) else { return };
            let ranks = match postcondition.content {
                OutputContent::Input { rank, .. } | OutputContent::NormalizedInput { rank, .. } => rank..rank + 1,
                OutputContent::Reduction { .. } | OutputContent::Normalized { .. } => 0..self.extent.num_ranks,
            };
            let first = u64::from(postcondition.chunk) * self.chunk + part.start - range.start;
            let demand = Demand { inputs: ranks.map(|rank| (rank, at)).collect(), origin: None };
            self.report((rank, BufferKind::Output), first, (memory, part), &demand, piece, &wrong);
        });
    }

    /// Checks a postcondition with inputs renamed to those of the representative ranks.
    fn check_renamed(&mut self, symmetry: &Symmetry, rank: u32, postcondition: Postcondition) {
        for i in 0..postcondition.len {
            let chunk = postcondition.chunk + i;
            match postcondition.content {
                OutputContent::Input { rank: from, chunk: first } => {
                    let content = OutputContent::Input { rank: from, chunk: symmetry.input(from, first + i) };
                    self.check_postcondition(rank, Postcondition { chunk, len: 1, content });
                }
                OutputContent::NormalizedInput { rank: from, chunk: first } => {
                    let chunk_of = symmetry.input(from, first + i);
                    let content = OutputContent::NormalizedInput { rank: from, chunk: chunk_of };
                    self.check_postcondition(rank, Postcondition { chunk, len: 1, content });
                }
                OutputContent::Reduction { chunk: first } | OutputContent::Normalized { chunk: first } => {
                    let chunk_of = |from| symmetry.input(from, first + i);
                    self.check_renamed_reduction(rank, chunk, chunk_of);
                }
            }
        }
    }

    /// Checks a chunk that must hold a reduction over all ranks, each of which contributes its own input chunk.
    fn check_renamed_reduction(&mut self, rank: u32, chunk: u32, chunk_of: impl Fn(u32) -> u32) {
        let (contents, length) = (self.contents, self.chunk);
        let (memory, range) = self.output(rank, chunk, 1);
        contents.memories.read(memory, range.clone(), |part, piece| {
            let offset = part.start - range.start;
            let rows = self.plan.collective.rows;
            let piece = piece.and_then(|piece| if rows { self.before_norm(piece) } else { Some(piece) });
            let how = piece.and_then(|piece| {
                self.mark += 1;
                each_rank(&contents.values, piece.node, &mut self.seen, self.mark, |from, shift| {
                    piece.at.wrapping_add_signed(shift) == u64::from(chunk_of(from)) * length + offset
                })
            });
            let as_usual =
                how.is_some_and(|how| how.is_none_or(|how| !how.norm && self.how.get_or_insert(how).is_like(how)));
            if !as_usual {
                let demand = Demand { inputs: Vec::new(), origin: None };
                let first = u64::from(chunk) * length + offset;
                self.report((rank, BufferKind::Output), first, (memory, part), &demand, piece, &Wrong::Inputs);
            }
        });
    }

    /// Checks that no output of a custom collective is computed from normalized rows, whether it has an expectation or not.
    fn check_custom_rows(&mut self, rank: u32) {
        let contents = self.contents;
        let (memory, range) = self.output(rank, 0, self.plan.ranks[rank as usize].output_chunks);
        contents.memories.read(memory, range.clone(), |part, piece| {
            let Some(piece) = piece else { return };
            let value = self.before_norm(piece).unwrap_or(piece);
            if Contributions::within(&contents.values, value.node, value.at, &mut self.budget).normalized {
                let (first, demand) = (part.start - range.start, Demand { inputs: Vec::new(), origin: None });
                let wrong = Wrong::NotNormalized;
                self.report((rank, BufferKind::Output), first, (memory, part), &demand, Some(piece), &wrong);
            }
        });
    }

    fn check_expectation(&mut self, expectation: &Expectation) {
        let Expectation { rank, chunk, len, inputs, origin } = expectation;
        let contents = self.contents;
        if *rank >= self.extent.num_ranks {
            return;
        }
        let (memory, range) = self.output(*rank, *chunk, *len);
        contents.memories.read(memory, range.clone(), |part, piece| {
            let offset = part.start - range.start;
            let mut inputs: Vec<_> =
                inputs.iter().map(|(rank, chunk)| (*rank, u64::from(*chunk) * self.chunk + offset)).collect();
            inputs.sort_unstable();
            let wrong = match (piece, &inputs[..]) {
                (None, _) => Some(Wrong::Missing),
                (Some(piece), inputs) if self.plan.collective.rows => {
                    self.normalized(piece, |own, row| own.combination(row, inputs))
                }
                (Some(piece), inputs) => self.combination(piece, inputs),
            };
            let Some(wrong) = wrong.or_else(|| self.lost(piece, part.start)) else { return };
            let first = u64::from(*chunk) * self.chunk + offset;
            let demand = Demand { inputs, origin: Some(*origin) };
            self.report((*rank, BufferKind::Output), first, (memory, part), &demand, piece, &wrong);
        });
    }

    /// Returns how a range differs from an input, or from several, in order, combined in one way, if it does.
    fn combination(&mut self, piece: ValueRange, inputs: &[(u32, u64)]) -> Option<Wrong> {
        match inputs {
            [(rank, at)] => self.copy(piece, *rank, *at),
            _ => self.combined(piece, inputs),
        }
    }

    /// Returns how a range differs from some inputs, in order, combined in one way, if it does.
    fn combined(&mut self, piece: ValueRange, inputs: &[(u32, u64)]) -> Option<Wrong> {
        let contributions = Contributions::within(&self.contents.values, piece.node, piece.at, &mut self.budget);
        if self.budget > 0 && contributions.unknown {
            return None;
        }
        let idempotent = contributions.is_idempotent();
        let mut left = inputs;
        for (input, count) in &contributions.counts {
            let due = left.iter().take_while(|due| *due == input).count();
            if due == 0 || due as u64 != *count && !idempotent {
                return Some(Wrong::Inputs);
            }
            left = &left[due..];
        }
        if !left.is_empty() || contributions.mixed.is_some() {
            return Some(Wrong::Inputs);
        }
        self.as_others(contributions.how?)
    }

    /// Returns how an output that is combined in one way differs from others, if it does.
    fn as_others(&mut self, how: How) -> Option<Wrong> {
        let usual = *self.how.get_or_insert(how);
        (!usual.is_like(how)).then_some(Wrong::Mixed(how, usual))
    }

    /// Returns how a value differs from a normalized one, if it does; `compare` says how what was normalized differs.
    fn normalized(
        &mut self,
        piece: ValueRange,
        compare: impl FnOnce(&mut Self, ValueRange) -> Option<Wrong>,
    ) -> Option<Wrong> {
        let values = &self.contents.values;
        match self.before_norm(piece) {
            Some(before) => match compare(self, before) {
                Some(_) if Contributions::within(values, before.node, before.at, &mut self.budget).normalized => {
                    Some(Wrong::NotNormalized)
                }
                wrong => wrong,
            },
            None if values.kind(piece.node) == Kind::Unknown => None,
            None => Some(Wrong::NotNormalized),
        }
    }

    /// Records errors in a part of a buffer, chunk by chunk.
    fn report(
        &mut self,
        (rank, buffer): (u32, BufferKind),
        first: u64,
        (memory, range): (usize, Range<u64>),
        demand: &Demand,
        piece: Option<ValueRange>,
        wrong: &Wrong,
    ) {
        let len = range.end - range.start;
        let mut done = 0;
        while done < len {
            let chunk = (first + done) / self.chunk;
            let to = ((chunk + 1) * self.chunk - first).min(len);
            let same = |fault: &OutputError| (fault.rank, fault.buffer, fault.chunk) == (rank, buffer, chunk);
            if let Some(known) = self.faults.last_mut().filter(|fault| same(fault)) {
                known.len += to - done;
                done = to;
                continue;
            }
            if self.faults.len() >= MAX_ERRORS {
                self.count += (len - done).div_ceil(self.chunk);
                return;
            }
            self.count += 1;
            let values = &self.contents.values;
            // What is wrong with a normalized value is what it was before.
            let before = |piece| if matches!(wrong, Wrong::Inputs) { self.before_norm(piece) } else { None };
            let piece = piece.map(|piece| before(piece).unwrap_or(piece).part(done, to));
            let budget = &mut self.budget;
            let mut inputs_in =
                |piece: ValueRange| Found::Inputs(piece, Contributions::within(values, piece.node, piece.at, budget));
            self.faults.push(OutputError {
                rank,
                buffer,
                chunk,
                place: (memory, range.start + done),
                len: to - done,
                expected: demand.inputs.iter().map(|(rank, at)| (*rank, at + done)).collect(),
                demanded: demand.origin,
                found: match (piece, wrong) {
                    (Some(piece), Wrong::Mixed(how, usual)) => Found::Mixed(piece, *how, *usual),
                    (Some(piece), Wrong::Divided) => Found::Divided(piece),
                    (Some(piece), Wrong::Lost) => Found::Lost(piece),
                    (Some(piece), Wrong::NotNormalized) => {
                        Found::NotNormalized(piece, Contributions::within(values, piece.node, piece.at, budget))
                    }
                    (Some(piece), _) => inputs_in(piece),
                    (None, _) => Found::Nothing,
                },
            });
            done = to;
        }
    }

    /// Returns whether a part of a required value is lost where chunks are short.
    fn lost(&self, piece: Option<ValueRange>, position: u64) -> Option<Wrong> {
        piece.filter(|piece| self.contents.short_chunks.is_lost(piece, position)).map(|_| Wrong::Lost)
    }

    fn copy(&self, piece: ValueRange, rank: u32, at: u64) -> Option<Wrong> {
        match self.contents.values.kind(piece.node) {
            // A value from uninitialized memory is reported where it is read.
            Kind::Unknown => None,
            Kind::Input(other) if other == rank && piece.at == at => self.averages.then_some(Wrong::Divided),
            _ => Some(Wrong::Inputs),
        }
    }

    fn reduction(&mut self, piece: ValueRange, at: u64) -> Option<Wrong> {
        let verdict = match self.verdicts[piece.node as usize] {
            Verdict::Open => {
                let verdict = self.verdict(piece.node);
                self.verdicts[piece.node as usize] = verdict;
                verdict
            }
            known => known,
        };
        match verdict {
            Verdict::Unknown => None,
            Verdict::All(distance, how) if piece.at.wrapping_add_signed(distance) == at => self.as_others(how?),
            _ => Some(Wrong::Inputs),
        }
    }

    fn verdict(&mut self, node: Node) -> Verdict {
        let values = &self.contents.values;
        if values.kind(node) == Kind::Unknown {
            return Verdict::Unknown;
        }
        let all = all_ranks(values, node, &mut self.seen, node);
        if let Some((distance, how)) = all.filter(|(_, how)| how.is_none_or(|how| !how.norm)) {
            return Verdict::All(distance, how);
        }
        // The minimum of a number and itself is that number.
        let contributions = Contributions::within(values, node, 0, &mut self.budget);
        let Some(how) = contributions.how.filter(|_| contributions.is_idempotent()) else { return Verdict::Other };
        let Some((_, at)) = contributions.counts.keys().next().copied() else { return Verdict::Other };
        let all =
            contributions.counts.len() == self.seen.len() && contributions.counts.keys().all(|(_, other)| *other == at);
        if all && contributions.mixed.is_none() && !contributions.unknown {
            Verdict::All(at as i64, Some(how))
        } else {
            Verdict::Other
        }
    }

    /// Checks an input that a launch must not change.
    fn input(&mut self, rank: u32) {
        let contents = self.contents;
        let memory = super::memory_of(rank, BufferKind::Input, false);
        let end = u64::from(self.plan.ranks[rank as usize].input_chunks) * self.chunk;
        contents.memories.read(memory, 0..end, |part, piece| {
            let Some(piece) = piece else { return };
            let is_kept = contents.values.kind(piece.node) == Kind::Input(rank) && piece.at == part.start;
            let wrong = if is_kept { self.lost(Some(piece), part.start) } else { Some(Wrong::Inputs) };
            let Some(wrong) = wrong else { return };
            let place = (memory, part.clone());
            let demand = Demand { inputs: vec![(rank, part.start)], origin: None };
            self.report((rank, BufferKind::Input), part.start, place, &demand, Some(piece), &wrong);
        });
    }
}
