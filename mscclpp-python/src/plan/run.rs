//! Running plans on the CPU executor, all ranks in this process.

use std::sync::Arc;
use std::time::Instant;

use mscclpp_core::types::ReduceOp;
use mscclpp_exec::cpu::{Executor, Options};
use mscclpp_exec::{AccumType, DataType, Error, Message};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyByteArray;

use super::Plan;
use crate::failure::Failure;

/// Returns the value with a name, or what a name is expected to be.
fn named<T>(what: &str, name: &str, find: impl FnOnce(&str) -> Option<T>) -> PyResult<T> {
    find(name).ok_or_else(|| PyValueError::new_err(format!("expected {what}, found `{name}`")))
}

/// Returns a data type by its name.
pub(crate) fn data_type(name: &str) -> PyResult<DataType> {
    named("a data type such as float32", name, DataType::from_name)
}

/// Returns a reduction by its name.
pub(crate) fn reduction(name: &str) -> PyResult<ReduceOp> {
    named("a reduction (sum, prod, min, max or avg)", name, ReduceOp::from_name)
}

/// Returns the type in which sources are combined, by its name.
pub(crate) fn accumulator(name: &str) -> PyResult<AccumType> {
    let find = |name: &str| {
        [AccumType::Native, AccumType::F32, AccumType::F64].into_iter().find(|accumulate| accumulate.name() == name)
    };
    named("native, f32 or f64 as the type of sums", name, find)
}

fn failed(error: Error) -> PyErr {
    Failure::from(error).into()
}

/// A message of any size, in the plan's range or outside of it: type, elements, reduction, accumulator, workers.
type Given = (String, u64, Option<String>, String, Option<usize>);

/// A message, and the threads that run it.
#[derive(Clone, Copy)]
struct Bound {
    message: Message,
    workers: Option<usize>,
}

impl Bound {
    fn new((dtype, count, op, accumulate, workers): Given) -> PyResult<Self> {
        let mut message = Message::new(data_type(&dtype)?, count).accumulate(accumulator(&accumulate)?).any_size();
        message.op = op.as_deref().map(reduction).transpose()?;
        Ok(Self { message, workers })
    }

    fn executor(&self, ranks: u32) -> Executor {
        Executor::with_options(ranks, Options::default().workers(self.workers))
    }
}

/// Runs a plan once. `inputs[r]`: the bytes of rank `r`'s input; returns those of its output.
#[pyfunction]
pub(crate) fn run_plan(
    py: Python<'_>,
    plan: &Plan,
    inputs: Vec<PyBuffer<u8>>,
    message: Given,
) -> PyResult<Vec<Py<PyByteArray>>> {
    let bound = Bound::new(message)?;
    let count = bound.message.count;
    let ranks = plan.image().num_ranks();
    if inputs.len() != ranks as usize {
        let found = inputs.len();
        return Err(PyValueError::new_err(format!("expected an input for each of {ranks} ranks, found {found}")));
    }
    let executor = bound.executor(ranks);
    let (mut prepared, mut buffers) = py
        .detach(|| {
            let prepared = executor.prepare(plan.image(), bound.message)?;
            let buffers = prepared.buffers()?;
            Ok((prepared, buffers))
        })
        .map_err(failed)?;
    for (rank, input) in (0..).zip(&inputs) {
        let memory = buffers.input_mut(rank);
        let (expected, found) = (memory.len(), input.len_bytes());
        if expected != found {
            let text = format!(
                "rank {rank}: expected an input of {expected} bytes for a message of {count} elements, found {found}"
            );
            return Err(PyValueError::new_err(text));
        }
        input.copy_to_slice(py, memory)?;
    }
    py.detach(|| prepared.launch_buffers(&mut buffers)).map_err(failed)?;
    Ok((0..ranks).map(|rank| PyByteArray::new(py, buffers.output(rank)).unbind()).collect())
}

/// Launches a plan `warmup` times, and then `launches` times; returns the seconds of each of these.
#[pyfunction]
pub(crate) fn time_plan(py: Python<'_>, plan: &Plan, message: Given, warmup: u32, launches: u32) -> PyResult<Vec<f64>> {
    let bound = Bound::new(message)?;
    let executor = bound.executor(plan.image().num_ranks());
    let image = Arc::new(plan.image().clone());
    let (mut prepared, mut buffers) = py
        .detach(|| {
            let prepared = executor.prepare(&image, bound.message)?;
            let buffers = prepared.buffers()?;
            Ok((prepared, buffers))
        })
        .map_err(failed)?;
    let mut seconds = Vec::new();
    for launch in 0..u64::from(warmup) + u64::from(launches) {
        let begin = Instant::now();
        py.detach(|| prepared.launch_buffers(&mut buffers)).map_err(failed)?;
        if launch >= u64::from(warmup) {
            seconds.push(begin.elapsed().as_secs_f64());
        }
        // Ctrl-C ends the measurement.
        py.check_signals()?;
    }
    Ok(seconds)
}

/// Returns the elements of a rank's input and output for a message of `count` elements.
#[pyfunction]
pub(crate) fn plan_sizes(py: Python<'_>, plan: &Plan, dtype: String, count: u64) -> PyResult<(usize, usize)> {
    let bound = Bound::new((dtype, count, None, "native".into(), Some(1)))?;
    let executor = bound.executor(plan.image().num_ranks());
    let prepared = py.detach(|| executor.prepare(plan.image(), bound.message)).map_err(failed)?;
    Ok((prepared.input_len(), prepared.output_len()))
}

/// Returns the bytes of an element. Raises `ValueError` for an unknown type.
#[pyfunction]
pub(crate) fn type_size(dtype: &str) -> PyResult<usize> {
    Ok(data_type(dtype)?.size())
}
