//! Fills inputs and compares outputs.

use std::fmt;

use mscclpp_core::plan::Expectation;

use super::expected::{Expected, ExpectedElement};
use super::pattern::{Inputs, Pattern};
use super::value::{read, write};
use crate::cpu::{Buffers, PreparedPlan};
use crate::dtype::DataType;
use crate::layout::{ByteRun, Layout, View};

/// Fills the inputs of a prepared plan and compares its outputs with its collective's postcondition, and with its
/// program's expectations.
#[derive(Clone, Debug)]
pub struct Verifier {
    expected: Expected,
    layout: Layout,
    /// Whether the plan has several reductions, so that the reduction of an expectation is ambiguous.
    mixed: bool,
    expectations: Vec<Expectation>,
}

/// Result of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct VerifyReport {
    /// Number of compared elements; 0 if the postcondition covers none.
    pub checked: u64,
    /// Number of elements that differ.
    pub wrong: u64,
    /// The first of them.
    pub first: Option<Mismatch>,
}

/// An element that differs from the expected value.
#[derive(Clone, Debug, PartialEq)]
pub struct Mismatch {
    /// The rank.
    pub rank: u32,
    /// The element of its output.
    pub element: u64,
    /// The output chunk that contains it.
    pub chunk: u64,
    /// The expected value.
    pub expected: f64,
    /// The found value.
    pub found: f64,
}

impl VerifyReport {
    /// Returns whether no element differs; also if none was compared, see [`is_unverified`](Self::is_unverified).
    pub fn is_correct(&self) -> bool {
        self.wrong == 0
    }

    /// Returns whether no element was compared: a custom collective, or a fragment for tests whose program states no
    /// expectations.
    pub fn is_unverified(&self) -> bool {
        self.checked == 0
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rank, element, chunk, expected, found } = self;
        write!(f, "rank {rank}, output element {element} (chunk {chunk}): expected {expected}, found {found}")
    }
}

impl fmt::Display for VerifyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.first {
            None if self.is_unverified() => f.write_str("not verified"),
            None => write!(f, "{} elements are correct", self.checked),
            Some(first) => write!(f, "{} of {} elements are wrong: {first}", self.wrong, self.checked),
        }
    }
}

/// Byte that fills all memory that is not input, so that elements that no operation writes are detected.
const FILL_BYTE: u8 = 0xa5;

impl Verifier {
    /// Creates a verifier with exact values.
    pub fn new(run: &PreparedPlan, seed: u64) -> Self {
        Self::with_pattern(run, seed, Pattern::Exact)
    }

    /// Creates a verifier with values of a pattern.
    pub fn with_pattern(run: &PreparedPlan, seed: u64, pattern: Pattern) -> Self {
        let inputs = Inputs { seed, pattern, dtype: run.message().dtype, op: run.reduction(), ranks: run.num_ranks() };
        let expected = Expected {
            collective: run.collective(),
            inputs,
            input_len: run.input_len() as u64,
            output_len: run.output_len() as u64,
            distance: run.send_distance(),
        };
        Self { expected, layout: run.layout(), mixed: run.mixes_reductions(), expectations: Vec::new() }
    }

    /// Adds the expectations of the plan's program: [`PlanTree::expectations`], which are the only postcondition of a
    /// custom collective. Reductions in a plan with several reductions are skipped.
    ///
    /// [`PlanTree::expectations`]: mscclpp_core::plan::PlanTree::expectations
    #[must_use]
    pub fn with_expectations(mut self, expectations: &[Expectation]) -> Self {
        self.expectations = expectations.to_vec();
        self
    }

    /// Fills all inputs, and everything else with bytes that no result has.
    pub fn fill(&self, buffers: &mut Buffers) {
        let dtype = self.dtype();
        for rank in 0..buffers.num_ranks() {
            buffers.output_mut(rank).fill(FILL_BYTE);
        }
        for rank in 0..buffers.num_ranks() {
            for (index, element) in buffers.input_mut(rank).chunks_exact_mut(dtype.size()).enumerate() {
                write(dtype, self.expected.inputs.value(rank, index as u64), element);
            }
        }
    }

    /// Compares all outputs.
    pub fn check(&self, buffers: &Buffers) -> VerifyReport {
        let mut report = VerifyReport { checked: 0, wrong: 0, first: None };
        let ranks: Vec<u32> = (0..buffers.num_ranks()).filter(|&rank| self.expected.covers(rank)).collect();
        if self.expected.is_uniform() {
            // One expected value for all ranks; the first mismatch is still the one of the lowest rank.
            let mut first: Vec<Option<Mismatch>> = vec![None; ranks.len()];
            for index in 0..self.expected.output_len {
                let expected_element = self.expected.element(0, index);
                for (slot, &rank) in first.iter_mut().zip(&ranks) {
                    self.compare(buffers.output(rank), rank, index, expected_element, &mut report, slot);
                }
            }
            report.first = first.into_iter().flatten().next();
        } else {
            let mut first = None;
            for rank in ranks {
                for index in 0..self.expected.output_len {
                    let expected_element = self.expected.element(rank, index);
                    self.compare(buffers.output(rank), rank, index, expected_element, &mut report, &mut first);
                }
            }
            report.first = first;
        }
        for expectation in &self.expectations {
            self.check_expectation(expectation, buffers, &mut report);
        }
        report
    }

    /// Compares the chunks of one output for which the program states an expectation.
    fn check_expectation(&self, expectation: &Expectation, buffers: &Buffers, report: &mut VerifyReport) {
        let Expectation { rank, chunk, len, inputs, .. } = expectation;
        if *rank >= buffers.num_ranks() || self.mixed && inputs.len() > 1 {
            return;
        }
        let size = self.dtype().size() as u64;
        let Layout { stride, output, .. } = self.layout;
        let at = |chunk: u32, more: u64| (u64::from(chunk) + more).saturating_mul(stride);
        let piece = |view: View, chunk: u32, more: u64| view.piece(at(chunk, more), stride);
        // A plan that was not checked may name chunks that do not exist.
        let parts = output.len.checked_div(output.part()).unwrap_or(0);
        let max_magnitude = parts.saturating_mul(output.padded().div_ceil(stride.max(1)));
        let mut first = report.first.take();
        for more in 0..u64::from(*len).min(max_magnitude) {
            let found = piece(output, *chunk, more);
            let sources: Vec<_> =
                inputs.iter().map(|(rank, chunk)| (*rank, piece(self.layout.input, *chunk, more))).collect();
            for at in (0..found.len).step_by(size as usize) {
                // A shorter chunk continues with zeros.
                let index = |source: &ByteRun| (at < source.len).then(|| (source.at + at) / size);
                let sources = sources.iter().map(|(rank, source)| (*rank, index(source)));
                let expected_element = self.expected.combined(sources);
                let index = (found.at + at) / size;
                self.compare(buffers.output(*rank), *rank, index, expected_element, report, &mut first);
            }
        }
        report.first = first;
    }

    fn dtype(&self) -> DataType {
        self.expected.inputs.dtype
    }

    fn compare(
        &self,
        output: &[u8],
        rank: u32,
        index: u64,
        expected_element: ExpectedElement,
        report: &mut VerifyReport,
        first: &mut Option<Mismatch>,
    ) {
        let dtype = self.dtype();
        let at = index as usize * dtype.size();
        let found = output.get(at..at + dtype.size()).map_or(f64::NAN, |element| read(dtype, element));
        report.checked += 1;
        // Not `>`: NaN differs too.
        if (found - expected_element.value).abs() <= expected_element.tolerance {
            return;
        }
        report.wrong += 1;
        if first.is_none() {
            let byte = at as u64;
            let (part, stride) = (self.layout.output.part().max(1), self.layout.stride.max(1));
            let chunk = byte / part * self.layout.output.part().div_ceil(stride) + byte % part / stride;
            *first = Some(Mismatch { rank, element: index, chunk, expected: expected_element.value, found });
        }
    }
}
