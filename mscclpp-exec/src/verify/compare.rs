//! Fills inputs and compares outputs.

use std::fmt;
use std::ops::Range;

use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::plan::Plan;
use mscclpp_core::plan::raw::Expectation;

use super::prepared::{BoundPlan, Prepared};
use mscclpp_base::dtype::{DataType, Element};
use mscclpp_base::error::Error;
use mscclpp_base::interpret::Space;
use mscclpp_base::interpret::program::Reductions;
use mscclpp_base::layout::{ByteRun, Layout, View};
use mscclpp_base::oracle::{Expected, ExpectedElement, Inputs, Pattern, read, write};

/// Fills the inputs of a prepared plan and compares its outputs with its collective's postcondition, and with its
/// program's expectations ([`Plan::expectations`](mscclpp_core::plan::Plan::expectations)), which are the only postcondition of a custom
/// collective. Expected reductions in a plan with several reductions are skipped. In a plan that normalizes rows, the outputs are expected that
/// [`RowNorm::new(1e-6)`](mscclpp_base::interpret::RowNorm) without further operands has, within the rounding of the type.
#[derive(Clone, Debug)]
pub struct Verifier {
    expected: Expected,
    layout: Layout,
    /// Whether the plan has several reductions, so that the reduction of an expectation is ambiguous.
    mixed: bool,
    expectations: Vec<Expectation>,
    /// Elements of the rows that launches normalize; 0 if they normalize none.
    hidden: u64,
    /// By rank: the bytes of its input and of its output in the buffer of an in-place launch.
    in_place: Vec<[Range<usize>; 2]>,
}

/// Result of a comparison.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
#[must_use = "it has the wrong elements"]
pub struct VerifyReport {
    /// Number of compared elements; 0 if the postcondition covers none.
    pub checked: u64,
    /// Number of elements that differ.
    pub wrong: u64,
    /// The first of them.
    pub first_mismatch: Option<Mismatch>,
}

/// An element that differs from the expected value.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
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
    /// Returns whether elements were compared and none differs. A result that was not compared
    /// ([`is_unverified`](Self::is_unverified)) is not correct.
    pub fn is_correct(&self) -> bool {
        self.wrong == 0 && !self.is_unverified()
    }

    /// Returns whether no element was compared: of a message without elements, of a rank without a result, or of a custom collective
    /// or a fragment for tests whose program states no expectations.
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
        match &self.first_mismatch {
            None if self.is_unverified() => f.write_str("not verified"),
            None => write!(f, "{} elements are correct", self.checked),
            Some(first) => write!(f, "{} of {} elements are wrong: {first}", self.wrong, self.checked),
        }
    }
}

/// Returns over how many ranks a send-receive sends; 1 for other collectives, and for plans that do not run to their end.
fn send_distance(plan: &Plan) -> u32 {
    let sends = plan.collective().kind == CollectiveKind::SendRecv;
    sends.then(|| mscclpp_core::check::send_distance(&plan.tree())).flatten().unwrap_or(1)
}

/// What is added to the mean of the squares of a row by launches that are verified.
pub const ROW_EPS: f32 = 1e-6;

/// Byte that fills all memory that is not input, so that elements that no operation writes are detected.
pub const FILL_BYTE: u8 = 0xa5;

impl Verifier {
    /// Creates a verifier with exact values.
    pub fn new(prepared: &impl Prepared, seed: u64) -> Self {
        Self::with_pattern(prepared, seed, Pattern::Exact)
    }

    /// Creates a verifier with values of a pattern.
    #[doc(hidden)]
    pub fn with_pattern(prepared: &impl Prepared, seed: u64, pattern: Pattern) -> Self {
        let BoundPlan { program, params } = prepared.bound();
        let (dtype, layout) = (params.message.dtype, params.layout);
        let ranks = params.places.len() as u32;
        let len = |view: View| view.len / dtype.size() as u64;
        let expected = Expected {
            collective: program.shape.collective,
            inputs: Inputs { seed, pattern, dtype, op: params.reduction, ranks },
            input_len: len(layout.input),
            output_len: len(layout.output),
            distance: send_distance(&program.plan),
        };
        let part = |rank, space| {
            let area = params.area(rank, space);
            area.base as usize..(area.base + area.view.len) as usize
        };
        let in_place = (0..ranks).map(|rank| [part(rank, Space::Input), part(rank, Space::Output)]).collect();
        let mixed = program.reductions == Reductions::Mixed;
        let hidden = params.message.row;
        Self { expected, layout, mixed, expectations: program.plan.expectations().collect(), hidden, in_place }
    }

    /// Sets expectations other than those of the plan.
    #[must_use]
    #[doc(hidden)]
    pub fn with_expectations(mut self, expectations: &[Expectation]) -> Self {
        self.expectations = expectations.to_vec();
        self
    }

    /// Fills the buffers of one rank, as [`fill`](Self::fill) does: of a process of a job, for example.
    ///
    /// # Errors
    /// [`Error::NotLocalRank`] if the plan has no such rank, [`Error::ElementType`], [`Error::BufferSize`].
    pub fn fill_rank<T: Element>(&self, rank: u32, input: &mut [T], output: &mut [T]) -> Result<(), Error> {
        let (input, output) = (self.bytes_of(rank, "input", input)?, self.bytes_of(rank, "output", output)?);
        output.fill(FILL_BYTE);
        self.write_input(rank, input);
        Ok(())
    }

    /// Does what [`fill_rank`](Self::fill_rank) does for the one buffer of an in-place launch.
    ///
    /// # Errors
    /// Those of [`fill_rank`](Self::fill_rank).
    pub fn fill_rank_in_place<T: Element>(&self, rank: u32, buffer: &mut [T]) -> Result<(), Error> {
        let buffer = self.bytes_of(rank, "buffer", buffer)?;
        buffer.fill(FILL_BYTE);
        self.write_input(rank, &mut buffer[self.in_place[rank as usize][0].clone()]);
        Ok(())
    }

    /// Compares the output of one rank.
    ///
    /// # Errors
    /// Those of [`fill_rank`](Self::fill_rank).
    pub fn check_rank<T: Element>(&self, rank: u32, output: &[T]) -> Result<VerifyReport, Error> {
        self.check_len::<T>(rank, "output", output.len())?;
        Ok(self.compare_outputs(&[(rank, bytemuck::cast_slice(output))]))
    }

    /// Compares the output of one rank in the one buffer of an in-place launch.
    ///
    /// # Errors
    /// Those of [`fill_rank`](Self::fill_rank).
    pub fn check_rank_in_place<T: Element>(&self, rank: u32, buffer: &[T]) -> Result<VerifyReport, Error> {
        self.check_len::<T>(rank, "buffer", buffer.len())?;
        let output = &bytemuck::cast_slice(buffer)[self.in_place[rank as usize][1].clone()];
        Ok(self.compare_outputs(&[(rank, output)]))
    }

    /// Writes the input of one rank.
    #[doc(hidden)]
    pub fn write_input(&self, rank: u32, input: &mut [u8]) {
        let dtype = self.dtype();
        for (index, element) in input.chunks_exact_mut(dtype.size()).enumerate() {
            write(dtype, self.expected.inputs.value(rank, index as u64), element);
        }
    }

    /// Checks the type and the length of a rank's slice.
    fn check_len<T: Element>(&self, rank: u32, buffer: &'static str, found: usize) -> Result<(), Error> {
        if rank as usize >= self.in_place.len() {
            return Err(Error::NotLocalRank { rank });
        }
        if T::TYPE != self.dtype() {
            return Err(Error::ElementType { expected: self.dtype(), found: T::TYPE });
        }
        let Layout { input, output, .. } = self.layout;
        let expected = match buffer {
            "input" => input.len,
            "output" => output.len,
            _ => input.len.max(output.len),
        };
        let found = (found as u64).saturating_mul(size_of::<T>() as u64);
        if found == expected { Ok(()) } else { Err(Error::BufferSize { rank, buffer, expected, found }) }
    }

    fn bytes_of<'a, T: Element>(
        &self,
        rank: u32,
        buffer: &'static str,
        slice: &'a mut [T],
    ) -> Result<&'a mut [u8], Error> {
        self.check_len::<T>(rank, buffer, slice.len())?;
        Ok(bytemuck::cast_slice_mut(slice))
    }

    /// Compares the outputs of some ranks.
    #[doc(hidden)]
    pub fn compare_outputs(&self, outputs: &[(u32, &[u8])]) -> VerifyReport {
        let mut report = VerifyReport { checked: 0, wrong: 0, first_mismatch: None };
        let covered = || outputs.iter().filter(|&&(rank, _)| self.expected.covers(rank));
        let mut row = ExpectedRow::default();
        if self.expected.is_uniform() {
            // One expected value for all ranks; the first mismatch is still the one of the lowest rank.
            let mut first: Vec<Option<Mismatch>> = vec![None; outputs.len()];
            for index in 0..self.expected.output_len {
                let expected_element = row.element(self, 0, index);
                for (slot, &(rank, output)) in first.iter_mut().zip(covered()) {
                    self.compare(output, rank, index, expected_element, &mut report, slot);
                }
            }
            report.first_mismatch = first.into_iter().flatten().next();
        } else {
            let mut first = None;
            for &(rank, output) in covered() {
                for index in 0..self.expected.output_len {
                    let expected_element = row.element(self, rank, index);
                    self.compare(output, rank, index, expected_element, &mut report, &mut first);
                }
            }
            report.first_mismatch = first;
        }
        for expectation in &self.expectations {
            if let Some((_, output)) = outputs.iter().find(|(rank, _)| *rank == expectation.rank) {
                self.check_expectation(expectation, output, &mut report);
            }
        }
        report
    }

    /// Compares the chunks of one output for which the program states an expectation: in a plan that normalizes rows, of the rows that
    /// are normalized.
    fn check_expectation(&self, expectation: &Expectation, found: &[u8], report: &mut VerifyReport) {
        let Expectation { rank, chunk, len, inputs, .. } = expectation;
        if self.mixed && inputs.len() > 1 {
            return;
        }
        let size = self.dtype().size() as u64;
        let Layout { stride, output, .. } = self.layout;
        let at = |chunk: u32, more: u64| (u64::from(chunk) + more).saturating_mul(stride);
        let piece = |view: View, chunk: u32, more: u64| view.piece(at(chunk, more), stride);
        // A plan that was not checked may name chunks that do not exist.
        let parts = output.len.checked_div(output.part()).unwrap_or(0);
        let max_magnitude = parts.saturating_mul(output.padded().div_ceil(stride.max(1)));
        let mut first = report.first_mismatch.take();
        for more in 0..u64::from(*len).min(max_magnitude) {
            let part = piece(output, *chunk, more);
            let sources: Vec<_> =
                inputs.iter().map(|(rank, chunk)| (*rank, piece(self.layout.input, *chunk, more))).collect();
            let combined = |at: u64| {
                // A shorter chunk continues with zeros.
                let index = |source: &ByteRun| (at < source.len).then(|| (source.at + at) / size);
                self.expected.combined(sources.iter().map(|(rank, source)| (*rank, index(source))))
            };
            let mut inverse = 1.0;
            for at in (0..part.len).step_by(size as usize) {
                let mut expected_element = combined(at);
                let row = self.hidden * size;
                if row > 0 {
                    if at % row == 0 {
                        inverse = self.inverse((at..at + row).step_by(size as usize).map(combined));
                    }
                    expected_element = self.normalized(expected_element, inverse);
                }
                let index = (part.at + at) / size;
                self.compare(found, *rank, index, expected_element, report, &mut first);
            }
        }
        report.first_mismatch = first;
    }

    /// Returns the factor that normalizes a row.
    fn inverse(&self, row: impl Iterator<Item = ExpectedElement>) -> f64 {
        let squares: f64 = row.map(|element| element.value.powi(2)).sum();
        1.0 / (squares / self.hidden as f64 + f64::from(ROW_EPS)).sqrt()
    }

    /// Returns an element of a row multiplied by the factor that normalizes it.
    fn normalized(&self, sum: ExpectedElement, inverse: f64) -> ExpectedElement {
        let value = sum.value * inverse;
        // The squares are added in f32, and the result is rounded once.
        let rounding = match self.dtype() {
            DataType::BF16 => f64::from(2.0_f32.powi(-8)),
            DataType::F16 => f64::from(2.0_f32.powi(-11)),
            _ => 0.0,
        };
        let tolerance = value.abs() * (rounding + f64::from(2.0_f32.powi(-18))) + f64::from(2.0_f32.powi(-24));
        ExpectedElement { value, tolerance: tolerance + sum.tolerance * inverse }
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
        let found = output.get(at..at + dtype.size()).map(|element| read(dtype, element));
        report.checked += 1;
        if found.is_some_and(|found| expected_element.is_met_by(found)) {
            return;
        }
        let found = found.unwrap_or(f64::NAN);
        report.wrong += 1;
        if first.is_none() {
            let byte = at as u64;
            let (part, stride) = (self.layout.output.part().max(1), self.layout.stride.max(1));
            let chunk = byte / part * self.layout.output.part().div_ceil(stride) + byte % part / stride;
            *first = Some(Mismatch { rank, element: index, chunk, expected: expected_element.value, found });
        }
    }
}

/// The row of which elements are compared.
#[derive(Default)]
struct ExpectedRow {
    /// Its rank and number.
    at: Option<(u32, u64)>,
    /// The factor of its elements.
    inverse: f64,
}

impl ExpectedRow {
    /// Returns the expected element of an output, normalized in a plan that normalizes rows.
    fn element(&mut self, verifier: &Verifier, rank: u32, index: u64) -> ExpectedElement {
        let Verifier { expected, hidden, .. } = verifier;
        let sum = expected.element(rank, index);
        let Some(number) = index.checked_div(*hidden) else { return sum };
        if self.at != Some((rank, number)) {
            let row = (number * hidden..(number + 1) * hidden).map(|index| expected.element(rank, index));
            self.inverse = verifier.inverse(row);
            self.at = Some((rank, number));
        }
        verifier.normalized(sum, self.inverse)
    }
}
