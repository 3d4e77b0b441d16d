//! Collectives whose rows are normalized in the same launch.

use mscclpp_communicator::Communicator;
use mscclpp_core::collective::CollectiveKind;
use mscclpp_exec::{AccumType, DataType, E4m3, Element, RowNorm, with_type};

use super::memory::{Staging, copied, read, written};
use super::moves::{form, input_of};
use crate::failure::Failure;
use crate::tensor::{Kind, View};

/// An all-reduce of rows of `hidden` elements, to which the residual is added and which are normalized; with no `eps`, they are not. Or an
/// all-gather, before which each rank does so with its rows.
#[derive(Debug)]
pub(crate) struct RowNormCall {
    pub(crate) input: View,
    pub(crate) output: View,
    pub(crate) residual: Option<View>,
    pub(crate) residual_out: Option<View>,
    pub(crate) gamma: Option<View>,
    /// Quantized rows, with scales that are computed and written; that of all rows where there are none, on the device or as a number.
    pub(crate) quantized: Option<View>,
    pub(crate) scales: Option<View>,
    pub(crate) device_scale: Option<View>,
    pub(crate) scale: f32,
    pub(crate) hidden: usize,
    /// Whether rows are gathered and not added.
    pub(crate) gathers: bool,
    pub(crate) eps: Option<f32>,
    pub(crate) bias: f32,
    /// Whether the rows of ranks are added in f32, and rounded once.
    pub(crate) adds_in_f32: bool,
}

impl RowNormCall {
    /// Returns the name of the call.
    pub(super) const fn name(&self) -> &'static str {
        if self.gathers { "all_gather_rms_norm" } else { "all_reduce_rms_norm" }
    }

    /// Returns the collective.
    pub(crate) const fn kind(&self) -> CollectiveKind {
        if self.gathers { CollectiveKind::AllGather } else { CollectiveKind::AllReduce }
    }

    /// Returns where a call in place has its input; `None` if the lengths do not match, which the call reports.
    pub(crate) fn own(&self, comm: &Communicator) -> Option<View> {
        let Self { input, output, .. } = *self;
        let parts = if self.gathers { comm.num_ranks() as usize } else { 1 };
        let begin = if self.gathers { comm.rank() as usize * input.bytes } else { 0 };
        let is_whole = input.bytes.checked_mul(parts) == Some(output.bytes);
        is_whole.then(|| View { address: output.address + begin, bytes: input.bytes, ..output })
    }

    /// Returns the tensors besides the input, with their names, and whether the call writes them.
    fn operands(&self) -> [(&'static str, Option<&View>, bool); 7] {
        [
            ("the output", Some(&self.output), true),
            ("the output of the residual", self.residual_out.as_ref(), true),
            ("the output of quantized rows", self.quantized.as_ref(), true),
            ("the output of scales", self.scales.as_ref(), true),
            ("the residual", self.residual.as_ref(), false),
            ("gamma", self.gamma.as_ref(), false),
            ("the scale", self.device_scale.as_ref(), false),
        ]
    }

    /// Returns the tensors.
    pub(super) fn views(&self) -> Vec<&View> {
        let operands = self.operands().into_iter().filter_map(|(_, view, _)| view);
        std::iter::once(&self.input).chain(operands).collect()
    }

    /// Checks the types of the tensors, and that outputs have memory of their own: the residual may be replaced by its output, and the
    /// input by any output.
    ///
    /// # Errors
    /// An invalid input.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let operands = self.operands();
        let expected = |what| match what {
            "the output of quantized rows" => Kind::Plain(DataType::F8E4M3),
            "the output of scales" | "the scale" => Kind::Plain(DataType::F32),
            _ => self.input.kind,
        };
        for (at, (what, view, is_written)) in operands.iter().enumerate() {
            let Some(view) = view else { continue };
            if view.kind != expected(what) {
                let (expected, found) = (expected(what).name(), view.kind.name());
                return Err(Failure::invalid(self.name(), format!("expected {expected} for {what}, found {found}")));
            }
            let in_place = |other: &View| *what == "the output of the residual" && other.is_same(view);
            for (other, memory, _) in operands.iter().skip(at + 1).filter(|_| *is_written) {
                let shared = memory.filter(|memory| memory.overlaps(view));
                if shared.is_some_and(|memory| !(*other == "the residual" && in_place(memory))) {
                    let message =
                        format!("expected memory of its own for {what}, found that of {other}; pass another tensor");
                    return Err(Failure::invalid(self.name(), message));
                }
            }
        }
        Ok(())
    }

    /// Returns the type in which the rows of ranks are added.
    pub(crate) const fn accumulator(&self) -> AccumType {
        if self.adds_in_f32 { AccumType::F32 } else { AccumType::Native }
    }

    /// Returns whether the sums with the residual replace it.
    pub(crate) fn replaces_residual(&self) -> bool {
        self.residual.zip(self.residual_out).is_some_and(|(residual, sums)| residual.is_same(&sums))
    }

    /// Returns whether an output other than the normalized rows has memory in common with the input.
    pub(crate) fn others_overlap_input(&self) -> bool {
        let others = [self.residual_out, self.quantized, self.scales];
        others.iter().flatten().any(|other| other.overlaps(&self.input))
    }

    /// Returns whether any output has memory in common with the input.
    pub(crate) fn overwrites_input(&self) -> bool {
        self.others_overlap_input() || self.output.overlaps(&self.input)
    }

    pub(super) fn run(&self, comm: &Communicator, staging: &mut Staging) -> Result<(), Failure> {
        let comm = comm.with_row_accumulator(self.accumulator());
        let own = self.own(&comm);
        let in_place = match &own {
            Some(own) => form(&comm, self.kind(), &self.output, self.input.address == own.address)?,
            None => false,
        };
        // Other outputs are written before the last row of the input is read.
        let input = match self.others_overlap_input() {
            true => copied(&self.input, staging)?,
            false => self.input,
        };
        let input = input_of(&input, &own.unwrap_or(self.output), &self.output, in_place, staging)?;
        let hidden = self.hidden;
        with_type!(self.input.kind.moved().0, T => {
            let (input, output, norm) = (read(&input), written(&self.output), self.norm());
            match (self.gathers, in_place) {
                (false, true) => comm.all_reduce_rms_norm_in_place::<T>(output, hidden, norm),
                (false, false) => comm.all_reduce_rms_norm::<T>(input, output, hidden, norm),
                (true, true) => comm.all_gather_rms_norm_in_place::<T>(output, hidden, norm),
                (true, false) => comm.all_gather_rms_norm::<T>(input, output, hidden, norm),
            }
        })?;
        Ok(())
    }

    fn norm<T: Element>(&self) -> RowNorm<'static, T> {
        let mut norm = self.eps.map_or_else(RowNorm::add_only, RowNorm::new).bias(self.bias);
        match (&self.residual, &self.residual_out) {
            (_, Some(sums)) if self.replaces_residual() => norm = norm.residual_in_place(written(sums)),
            (residual, sums) => {
                norm = residual.iter().fold(norm, |norm, residual| norm.residual(read(residual)));
                norm = sums.iter().fold(norm, |norm, sums| norm.residual_out(written(sums)));
            }
        }
        norm = self.gamma.iter().fold(norm, |norm, gamma| norm.gamma(read(gamma)));
        match (&self.quantized, &self.scales) {
            (Some(rows), Some(scales)) => norm.quantized_by_row(written::<E4m3>(rows), written(scales)),
            (Some(rows), None) => norm.quantized(written::<E4m3>(rows), self.scale),
            (None, _) => norm,
        }
    }
}
