//! Checks of arguments.

use pyo3::prelude::*;

use super::PyCommunicator;
use crate::failure::Failure;
use crate::tensor::{View, views};

impl PyCommunicator {
    /// Returns the views of a list with a tensor per rank.
    pub(super) fn list(&self, call: &str, tensors: &Bound<'_, PyAny>) -> PyResult<Vec<View>> {
        let views = views(tensors)?;
        let ranks = self.ranks.comm.num_ranks() as usize;
        if views.len() != ranks {
            let message = format!("expected a list of {ranks} tensors, one per rank, found {}", views.len());
            return Err(Failure::invalid(call, message).on(self.ranks.comm.rank(), call).into());
        }
        Ok(views)
    }

    /// Checks that a tensor has as many elements as the parts of all ranks together.
    pub(super) fn check_parts(&self, call: &str, whole: &View, part: &View) -> Result<(), Failure> {
        let ranks = self.ranks.comm.num_ranks() as usize;
        if part.bytes.checked_mul(ranks) == Some(whole.bytes) {
            return Ok(());
        }
        let (rank, count, found) = (self.ranks.comm.rank(), part.count(), whole.count());
        let message =
            format!("expected {count} elements of the output for each of {ranks} ranks, found {found} of the input");
        Err(Failure::invalid(call, message).on(rank, call))
    }

    /// Checks that this rank's entry of a list with an output per rank has as many elements as its input.
    pub(super) fn check_own(&self, call: &str, outputs: &[View], input: &View) -> Result<(), Failure> {
        let rank = self.ranks.comm.rank();
        match outputs.get(rank as usize) {
            Some(own) if own.bytes != input.bytes => {
                let (expected, found) = (input.count(), own.count());
                let message = format!("expected {expected} elements of the input in output {rank}, found {found}");
                Err(Failure::invalid(call, message).on(rank, call))
            }
            _ => Ok(()),
        }
    }

    /// Checks that this rank's entry of a list with an input per rank has as many elements as its output.
    pub(super) fn check_own_input(&self, call: &str, inputs: &[View], output: &View) -> Result<(), Failure> {
        let rank = self.ranks.comm.rank();
        match inputs.get(rank as usize) {
            Some(own) if own.bytes != output.bytes => {
                let (expected, found) = (output.count(), own.count());
                let message = format!("expected {expected} elements of the output in input {rank}, found {found}");
                Err(Failure::invalid(call, message).on(rank, call))
            }
            _ => Ok(()),
        }
    }

    /// Returns the views of a list that only rank `root` passes.
    pub(super) fn on_root(&self, call: &str, tensors: &Bound<'_, PyAny>, root: u32) -> PyResult<Vec<View>> {
        if self.ranks.comm.rank() == root { self.list(call, tensors) } else { Ok(Vec::new()) }
    }
}

/// Returns the views of pairs of tensors of one type.
pub(super) fn pairs_of(pairs: &Bound<'_, PyAny>) -> PyResult<Vec<(View, View)>> {
    let pair = |pair: PyResult<Bound<'_, PyAny>>| {
        let pair = pair?;
        let (output, input) = (View::new(&pair.get_item(0)?)?, View::new(&pair.get_item(1)?)?);
        same_kind("a call with input and output", &output, &input)?;
        Ok((output, input))
    };
    pairs.try_iter()?.map(pair).collect()
}

pub(super) fn same_kind(call: &str, output: &View, input: &View) -> Result<(), Failure> {
    if output.kind == input.kind {
        return Ok(());
    }
    let message = format!("expected an output of the input's type {}, found {}", input.kind.name(), output.kind.name());
    Err(Failure::invalid(call, message))
}

pub(super) fn same_bytes(call: &str, of_list: &View, single: &View) -> Result<(), Failure> {
    same_kind(call, of_list, single)?;
    if of_list.bytes == single.bytes {
        return Ok(());
    }
    let message = format!("expected tensors of {} elements in the list, found {}", single.count(), of_list.count());
    Err(Failure::invalid(call, message))
}
