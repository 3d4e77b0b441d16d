//! One rank of a process group: its calls on tensors.
//!
//! `join` connects the ranks, `arguments` checks what Python passes, `submit` makes calls, and `ranks` has what they share.

mod arguments;
mod join;
mod ranks;
mod submit;

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use mscclpp_bootstrap::{UniqueId, place};
use mscclpp_communicator::{Communicator, ExpertShape, RowLayout};
use mscclpp_exec::DataType;
use mscclpp_select::{Algorithm, RegistryError, defaults};
use pyo3::prelude::*;

use self::arguments::{pairs_of, same_bytes, same_kind};
pub(crate) use self::join::Listener;
use self::join::options;
use self::ranks::Ranks;
use crate::buffer::PyBuffer;
use crate::call::{Call, RowNormCall};
use crate::device::{OnDevice, Transfer};
use crate::experts::{PyExperts, Received, Sent};
use crate::failure::Failure;
use crate::operator::{Operator, TorchOp};
use crate::plan::Plan;
use crate::selection::order_policy;
use crate::signals::{interruptible, raise_signal};
use crate::symmetric::{PySymmetricMemory, PySymmetricWindow, SignalAction};
use crate::tensor::{Kind, View, current_stream, views};
use crate::work::{PyWork, SIGNAL_INTERVAL};

/// Where a half of a call of expert parallelism is made.
enum Where<'a> {
    Host(&'a Communicator),
    Device(&'a OnDevice<'a>),
}

/// A tensor, or a list of tensors.
type Object<'py> = Bound<'py, PyAny>;

/// What a call returns: nothing when it is done, a work when it was started.
type Submitted = PyResult<Option<PyWork>>;

/// One rank's handle to a set of ranks. Calls take tensors whose elements are contiguous. A call that is not asynchronous returns `None`
/// when it is done; an asynchronous one returns a `Work` at once. Timeouts are milliseconds; a negative one is that of the communicator.
///
/// All methods raise the exceptions of `mscclpp_rs`: `InvalidInputError` for arguments, others if the call fails.
#[pyclass(name = "Communicator", module = "mscclpp_rs._native", frozen)]
pub(crate) struct PyCommunicator {
    ranks: Arc<Ranks>,
}

impl PyCommunicator {
    /// Enqueues a signal or a wait on the current stream.
    fn signal(
        &self,
        py: Python<'_>,
        name: &'static str,
        window: &PySymmetricWindow,
        action: SignalAction,
        at: (u32, u32),
        timeout: i64,
    ) -> PyResult<()> {
        let (number, timeout) = (window.device(), self.ranks.timeout(timeout));
        let stream = current_stream(py, number)?;
        self.enqueue(py, name, timeout, |comm, devices| {
            let timeout = timeout.unwrap_or_else(|| comm.timeout());
            comm.check()?;
            devices.on_stream(comm, number, stream, 0, |device| window.enqueue(action, at, timeout, device.stream))
        })
    }

    /// Makes a half of a call of expert parallelism, on the CPU or on the current stream.
    fn on_experts(
        &self,
        py: Python<'_>,
        name: &'static str,
        experts: &PyExperts,
        half: impl FnOnce(Where<'_>) -> Result<(), Failure> + Send,
    ) -> PyResult<()> {
        let Some(number) = experts.device else {
            return self.enqueue(py, name, None, |comm, _| {
                let _name = place::enter_name(name);
                half(Where::Host(comm))
            });
        };
        let stream = current_stream(py, number)?;
        self.enqueue(py, name, None, |comm, devices| {
            let _name = place::enter_name(name);
            devices.on_stream(comm, number, stream, 0, |device| half(Where::Device(device)))
        })
    }

    /// Makes a call in the order of those that were started.
    fn in_turn<R: Send>(
        &self,
        py: Python<'_>,
        name: &'static str,
        call: impl FnOnce(&Communicator) -> Result<R, mscclpp_exec::Error> + Send,
    ) -> PyResult<R> {
        self.ranks.check_caller(name)?;
        let made = py.detach(|| {
            let _name = place::enter_name(name);
            loop {
                let Some(_turn) = self.ranks.queue.try_enter() else {
                    // Started calls come first.
                    thread::yield_now();
                    continue;
                };
                return interruptible(|| call(&self.ranks.comm));
            }
        });
        raise_signal()?;
        Ok(made.map_err(|error| Failure::from(error).on(self.ranks.comm.rank(), name))?)
    }
}

#[pymethods]
impl PyCommunicator {
    /// Starts the ranks of a listener, as rank 0.
    #[staticmethod]
    fn from_listener(py: Python<'_>, listener: &Listener, num_ranks: u32, timeout: u64) -> PyResult<Self> {
        let listener = listener.take()?;
        let options = options(timeout)?;
        Self::create(py, (0, "join"), move || Ok(Communicator::from_listener(listener, num_ranks, options)?))
    }

    /// Joins the ranks of a listener's id as `rank`, which is not 0.
    #[staticmethod]
    fn join(py: Python<'_>, unique_id: &str, rank: u32, num_ranks: u32, timeout: u64) -> PyResult<Self> {
        let id: UniqueId = unique_id.parse().map_err(Failure::from)?;
        let options = options(timeout)?;
        Self::create(py, (rank, "join"), move || Ok(Communicator::join(&id, rank, num_ranks, options)?))
    }

    /// This rank.
    #[getter]
    fn rank(&self) -> u32 {
        self.ranks.comm.rank()
    }

    /// The number of ranks.
    #[getter]
    fn num_ranks(&self) -> u32 {
        self.ranks.comm.num_ranks()
    }

    /// The number of collective calls so far.
    #[getter]
    fn num_calls(&self) -> u64 {
        self.ranks.num_calls.load(Relaxed)
    }

    /// Sets the timeout of calls that name none, in milliseconds; a negative one is that of the communicator.
    fn set_timeout(&self, timeout: i64) {
        self.ranks.timeout.store(timeout, Relaxed);
    }

    /// Returns a communicator of the remaining ranks, all of which call this.
    fn shrink(&self, py: Python<'_>, lost: Vec<u32>) -> PyResult<Self> {
        let comm = self.ranks.comm.clone();
        Self::create(py, (comm.rank(), "shrink"), move || Ok(comm.shrink(&lost)?))
    }

    /// Allocates registered memory of a number of bytes, zero at first. A call of all ranks; lengths may differ.
    fn new_buffer(&self, py: Python<'_>, num_bytes: usize) -> PyResult<PyBuffer> {
        Ok(PyBuffer::new(self.in_turn(py, "new_buffer", |comm| comm.alloc::<u8>(num_bytes))?))
    }

    /// Sets what the following calls demand of the order in which they reduce floats, by the name of an order policy. All ranks
    /// set the same.
    fn set_order(&self, py: Python<'_>, order: &str) -> PyResult<()> {
        let policy = order_policy("set_order", order)?;
        self.in_turn(py, "set_order", |comm| {
            comm.set_order_policy(policy);
            Ok(())
        })
    }

    /// What calls demand of the order in which they reduce floats.
    #[getter]
    fn order(&self) -> &'static str {
        self.ranks.comm.order_policy().name()
    }

    /// Adds a plan, which serves the calls that it is for. A call of all ranks, with the same plan. Returns its name among the
    /// algorithms.
    fn register_plan(&self, py: Python<'_>, plan: &Plan, name: Option<String>) -> PyResult<String> {
        const NAME: &str = "register_plan";
        let algorithm = Algorithm::plan(plan.image().clone());
        let algorithm = name.into_iter().fold(algorithm, Algorithm::with_name);
        let name = algorithm.name().to_owned();
        let refused = |error: RegistryError| Failure::invalid(NAME, error.to_string()).on(self.ranks.comm.rank(), NAME);
        defaults::check_plan(plan.image(), &name).map_err(refused)?;
        let added = self.in_turn(py, NAME, |comm| comm.configure(|registry| registry.add(algorithm)))?;
        added.map_err(refused)?;
        Ok(name)
    }

    /// Returns how often each algorithm has served a call.
    fn call_counts(&self, py: Python<'_>) -> HashMap<String, u64> {
        let comm = &self.ranks.comm;
        py.detach(|| comm.call_counts().into_iter().collect())
    }

    /// Replaces the tensor by the reduction of all ranks' tensors.
    fn all_reduce(&self, tensor: &Object<'_>, op: u8, timeout: i64, is_async: bool) -> Submitted {
        let view = View::new(tensor)?;
        let call = Call::AllReduce { tensor: view, operator: Operator::new(TorchOp::new(op)?, view.kind)? };
        self.submit(call, timeout, is_async, tensor)
    }

    /// Replaces each tensor of a list by the reduction of all ranks' tensors.
    fn all_reduce_coalesced(&self, tensors: &Object<'_>, op: u8, timeout: i64, is_async: bool) -> Submitted {
        let (op, views) = (TorchOp::new(op)?, views(tensors)?);
        let call = |tensor: View| Ok(Call::AllReduce { tensor, operator: Operator::new(op, tensor.kind)? });
        let call = match views[..] {
            [first, _, ..] if views.iter().all(|view| view.kind == first.kind) => {
                Call::AllReduceList { operator: Operator::new(op, first.kind)?, tensors: views }
            }
            [tensor] => call(tensor)?,
            _ => Call::Several(views.into_iter().map(call).collect::<Result<_, Failure>>()?),
        };
        self.submit(call, timeout, is_async, tensors)
    }

    /// Adds the rows of all ranks' inputs, which have `hidden` elements, and the residual, writes the sums to `residual_out`, and the normalized
    /// rows to the output; with no `eps`, the sums. Rows are also quantized, by `scale` or by scales that are written. With `gathers`, each rank
    /// normalizes its own rows, and the output receives those of all ranks.
    #[expect(clippy::too_many_arguments, reason = "those of the call in Python")]
    fn rms_norm(
        &self,
        output: &Object<'_>,
        input: &Object<'_>,
        residual: Option<Object<'_>>,
        residual_out: Option<Object<'_>>,
        gamma: Option<Object<'_>>,
        quantized: Option<Object<'_>>,
        scales: Option<Object<'_>>,
        device_scale: Option<Object<'_>>,
        scale: f32,
        hidden: usize,
        eps: Option<f32>,
        bias: f32,
        adds_in_f32: bool,
        gathers: bool,
    ) -> Submitted {
        let view = |tensor: &Option<Object<'_>>| tensor.as_ref().map(View::new).transpose();
        let call = RowNormCall {
            input: View::new(input)?,
            output: View::new(output)?,
            residual: view(&residual)?,
            residual_out: view(&residual_out)?,
            gamma: view(&gamma)?,
            quantized: view(&quantized)?,
            scales: view(&scales)?,
            device_scale: view(&device_scale)?,
            scale,
            hidden,
            eps,
            bias,
            adds_in_f32,
            gathers,
        };
        call.check()?;
        let keep = (output, input, residual, residual_out, gamma, quantized, scales, device_scale)
            .into_pyobject(output.py())?;
        self.submit(Call::RowNorm(Box::new(call)), -1, false, keep.as_any())
    }

    /// Replaces the tensor by that of rank `root`.
    fn broadcast(&self, tensor: &Object<'_>, root: u32, timeout: i64, is_async: bool) -> Submitted {
        self.submit(Call::Broadcast { tensor: View::new(tensor)?, root }, timeout, is_async, tensor)
    }

    /// Replaces the tensor of rank `root` by the reduction of all ranks' tensors.
    fn reduce(&self, tensor: &Object<'_>, op: u8, root: u32, timeout: i64, is_async: bool) -> Submitted {
        let view = View::new(tensor)?;
        let call = Call::Reduce { tensor: view, operator: Operator::new(TorchOp::new(op)?, view.kind)?, root };
        self.submit(call, timeout, is_async, tensor)
    }

    /// Writes all ranks' inputs to the output, in the order of ranks: pairs `(output, input)`.
    fn all_gather(&self, pairs: &Object<'_>, timeout: i64, is_async: bool) -> Submitted {
        let call = |(output, input)| Call::AllGather { input, output };
        let calls = pairs_of(pairs)?.into_iter().map(call).collect();
        self.submit(Call::Several(calls), timeout, is_async, pairs)
    }

    /// Writes rank r's input to the tensor r of a list: pairs `(outputs, input)`.
    fn all_gather_list(&self, pairs: &Object<'_>, timeout: i64, is_async: bool) -> Submitted {
        let mut calls = Vec::new();
        for pair in pairs.try_iter()? {
            let pair = pair?;
            let (outputs, input) = (self.list("all_gather", &pair.get_item(0)?)?, View::new(&pair.get_item(1)?)?);
            outputs.iter().try_for_each(|output| same_kind("all_gather", output, &input))?;
            self.check_own("all_gather", &outputs, &input)?;
            calls.push(Call::AllGatherList { input, outputs });
        }
        self.submit(Call::Several(calls), timeout, is_async, pairs)
    }

    /// Reduces all ranks' inputs and writes part r to the output of rank r: pairs `(output, input)`.
    fn reduce_scatter(&self, pairs: &Object<'_>, op: u8, timeout: i64, is_async: bool) -> Submitted {
        let op = TorchOp::new(op)?;
        let call = |(output, input): (View, View)| {
            self.check_parts("reduce_scatter_tensor", &input, &output)?;
            Ok(Call::ReduceScatter { input, output, operator: Operator::new(op, output.kind)? })
        };
        let calls: Result<Vec<Call>, Failure> = pairs_of(pairs)?.into_iter().map(call).collect();
        self.submit(Call::Several(calls?), timeout, is_async, pairs)
    }

    /// Reduces all ranks' tensors r and writes the result to the output of rank r: pairs `(output, inputs)`. Lengths may differ between
    /// ranks r.
    fn reduce_scatter_list(&self, pairs: &Object<'_>, op: u8, timeout: i64, is_async: bool) -> Submitted {
        let op = TorchOp::new(op)?;
        let mut calls = Vec::new();
        for pair in pairs.try_iter()? {
            let pair = pair?;
            let (output, inputs) = (View::new(&pair.get_item(0)?)?, self.list("reduce_scatter", &pair.get_item(1)?)?);
            inputs.iter().try_for_each(|input| same_kind("reduce_scatter", &output, input))?;
            self.check_own_input("reduce_scatter", &inputs, &output)?;
            calls.push(Call::ReduceScatterList { inputs, output, operator: Operator::new(op, output.kind)? });
        }
        self.submit(Call::Several(calls), timeout, is_async, pairs)
    }

    /// Sends part r of the input to rank r, and writes what rank r sends to part r of the output; parts are equally long.
    fn all_to_all(&self, output: &Object<'_>, input: &Object<'_>, timeout: i64, is_async: bool) -> Submitted {
        let (to, from) = (View::new(output)?, View::new(input)?);
        same_kind("all_to_all_single", &to, &from)?;
        let keep = (output, input).into_pyobject(output.py())?;
        self.submit(Call::AllToAll { input: from, output: to }, timeout, is_async, keep.as_any())
    }

    /// Sends tensor r of the inputs to rank r, and writes what rank r sends to tensor r of the outputs; lengths may differ.
    fn all_to_all_list(&self, outputs: &Object<'_>, inputs: &Object<'_>, timeout: i64, is_async: bool) -> Submitted {
        let keep = (outputs, inputs).into_pyobject(outputs.py())?;
        let (outputs, inputs) = (self.list("all_to_all", outputs)?, self.list("all_to_all", inputs)?);
        let first = outputs.first().copied();
        let is_alike = |view| first.map_or(Ok(()), |first| same_kind("all_to_all", &first, view));
        outputs.iter().chain(&inputs).try_for_each(is_alike)?;
        self.submit(Call::AllToAllList { inputs, outputs }, timeout, is_async, keep.as_any())
    }

    /// Sends the first `sent[0]` rows of the input to rank 0, the next `sent[1]` to rank 1 and so on; writes the rows of all ranks to the
    /// output, one after the other, and how many each rank sends to `received`. A row has this number of elements. Both lists are tensors of
    /// int64 with an entry for each rank. On a device, a rank sends at most `most` rows to another one.
    #[expect(clippy::too_many_arguments, reason = "those of the call in Python")]
    fn all_to_all_rows(
        &self,
        output: &Object<'_>,
        input: &Object<'_>,
        received: &Object<'_>,
        sent: &Object<'_>,
        elements: usize,
        most: usize,
        timeout: i64,
    ) -> Submitted {
        let keep = (output, input, received, sent).into_pyobject(output.py())?;
        let (output, input) = (View::new(output)?, View::new(input)?);
        let (received, sent) = (View::new(received)?, View::new(sent)?);
        same_kind("all_to_all_single", &output, &input)?;
        let ranks = self.ranks.comm.num_ranks() as usize;
        // Places may follow the sizes of the output.
        let are_sizes =
            [received.count(), sent.count()] == [ranks; 2] || [received.count(), sent.count()] == [2 * ranks, ranks];
        if !are_sizes || [&received, &sent].iter().any(|sizes| sizes.kind != Kind::Plain(DataType::I64)) {
            let message = format!("expected sizes of type int64, {ranks} of input and output, one for each rank");
            return Err(Failure::invalid("all_to_all_single", message).into());
        }
        self.submit(Call::AllToAllRows { input, output, sent, received, elements, most }, timeout, false, keep.as_any())
    }

    /// Returns the calls of expert parallelism of one shape, for results like `like`. Rows of an expert begin at a multiple of `alignment`; 0:
    /// each expert has as many places.
    #[staticmethod]
    fn new_experts(
        like: &Object<'_>,
        hidden: usize,
        num_experts: usize,
        top_k: usize,
        max_tokens: usize,
        alignment: usize,
    ) -> PyResult<PyExperts> {
        let shape = ExpertShape { hidden, num_experts, top_k, max_tokens };
        let layout = if alignment == 0 { RowLayout::Slots } else { RowLayout::ByExpert { alignment } };
        Ok(PyExperts::new(&View::new(like)?, shape, layout)?)
    }

    /// Sends rows of tokens to the experts in `choices`, with their scales if there are some, or rounded to e4m3.
    fn send_to_experts(
        &self,
        experts: &PyExperts,
        rows: &Object<'_>,
        scales: Option<&Object<'_>>,
        choices: &Object<'_>,
        quantizes: bool,
        starts: bool,
    ) -> PyResult<()> {
        let py = rows.py();
        let scales = scales.map(View::new).transpose()?;
        let sent = Sent { rows: View::new(rows)?, scales, choices: View::new(choices)?, quantizes, starts };
        self.on_experts(py, "low_latency_dispatch", experts, |on| match on {
            Where::Host(comm) => experts.send(comm, &sent),
            Where::Device(device) => experts.send_on(device, &sent),
        })
    }

    /// Writes the rows of this rank's experts, and their numbers.
    fn receive_at_experts(
        &self,
        experts: &PyExperts,
        rows: &Object<'_>,
        scales: Option<&Object<'_>>,
        counts: &Object<'_>,
    ) -> PyResult<()> {
        let scales = scales.map(View::new).transpose()?;
        let received = Received { rows: View::new(rows)?, scales, counts: View::new(counts)? };
        self.on_experts(rows.py(), "low_latency_dispatch", experts, |on| match on {
            Where::Host(_) => experts.receive(&received),
            Where::Device(device) => experts.receive_on(device, &received),
        })
    }

    /// Sends rows of experts back to their tokens.
    fn send_from_experts(
        &self,
        experts: &PyExperts,
        rows: &Object<'_>,
        weights: &Object<'_>,
        starts: bool,
    ) -> PyResult<()> {
        let (py, rows, weights) = (rows.py(), View::new(rows)?, View::new(weights)?);
        self.on_experts(py, "low_latency_combine", experts, |on| match on {
            Where::Host(comm) => experts.send_back(comm, &rows, &weights, starts),
            Where::Device(device) => experts.send_back_on(device, &rows),
        })
    }

    /// Writes the sums of the rows of each token.
    fn receive_from_experts(&self, experts: &PyExperts, weights: &Object<'_>, output: &Object<'_>) -> PyResult<()> {
        let (py, weights, output) = (weights.py(), View::new(weights)?, View::new(output)?);
        self.on_experts(py, "low_latency_combine", experts, |on| match on {
            Where::Host(_) => experts.receive_back(&output),
            Where::Device(device) => experts.receive_back_on(device, &weights, &output),
        })
    }

    /// Writes rank r's input to tensor r of the outputs of rank `root`; the others pass no outputs.
    fn gather(&self, outputs: &Object<'_>, input: &Object<'_>, root: u32, timeout: i64, is_async: bool) -> Submitted {
        let (to, from) = (self.on_root("gather", outputs, root)?, View::new(input)?);
        to.iter().try_for_each(|to| same_bytes("gather", to, &from))?;
        let keep = (outputs, input).into_pyobject(outputs.py())?;
        self.submit(Call::Gather { input: from, outputs: to, root }, timeout, is_async, keep.as_any())
    }

    /// Writes tensor r of the inputs of rank `root` to the output of rank r; the others pass no inputs.
    fn scatter(&self, output: &Object<'_>, inputs: &Object<'_>, root: u32, timeout: i64, is_async: bool) -> Submitted {
        let (to, from) = (View::new(output)?, self.on_root("scatter", inputs, root)?);
        from.iter().try_for_each(|from| same_bytes("scatter", from, &to))?;
        let keep = (output, inputs).into_pyobject(output.py())?;
        self.submit(Call::Scatter { inputs: from, output: to, root }, timeout, is_async, keep.as_any())
    }

    /// Waits until all ranks have made this call.
    fn barrier(&self, py: Python<'_>, timeout: i64, is_async: bool) -> Submitted {
        self.submit(Call::Barrier, timeout, is_async, py.None().bind(py))
    }

    /// Sends a tensor to rank `peer`, which receives it with the same tag.
    fn send(&self, tensor: &Object<'_>, peer: u32, tag: i64) -> PyResult<PyWork> {
        self.ranks.check_caller("send")?;
        let view = View::new(tensor)?;
        let completion = self.ranks.point_to_point.send(view, peer, tag, tensor)?;
        Ok(PyWork { completion, name: "send", helper: Some(self.ranks.point_to_point.helper_of_send()) })
    }

    /// Receives a tensor from rank `peer`, from any rank if that is negative.
    fn recv(&self, tensor: &Object<'_>, peer: i64, tag: i64) -> PyResult<PyWork> {
        self.ranks.check_caller("recv")?;
        let view = View::new(tensor)?;
        let (completion, helper) = self.ranks.point_to_point.recv(view, peer, tag, tensor)?;
        Ok(PyWork { completion, name: "recv", helper: Some(helper) })
    }

    /// Makes sends and receives of tensors on a device together, enqueued on its current stream: tuples of whether this rank sends, the
    /// tensor, and the other rank.
    fn transfer_on_device(&self, py: Python<'_>, transfers: Vec<(bool, Object<'_>, u32)>) -> PyResult<()> {
        const NAME: &str = "send and recv on a device";
        let view = |(is_sent, tensor, peer): (bool, Object<'_>, u32)| Ok((is_sent, View::new(&tensor)?, peer));
        let transfers: Vec<Transfer> = transfers.into_iter().map(view).collect::<PyResult<_>>()?;
        let Some(device) = transfers.first().and_then(|(_, view, _)| view.device) else {
            return Err(Failure::invalid(NAME, "expected tensors on a CUDA device, found none".into()).into());
        };
        if transfers.iter().any(|(_, view, _)| view.device != Some(device)) {
            return Err(Failure::invalid(NAME, "expected tensors on one device, found several devices".into()).into());
        }
        let stream = current_stream(py, device)?;
        let timeout = self.ranks.timeout(-1);
        self.enqueue(py, NAME, timeout, |comm, devices| devices.transfer(comm, device, stream, &transfers))
    }

    /// Maps memory of all ranks, with counters for the signals of a number of channels. A call of all ranks with as many bytes and channels.
    fn map_symmetric(
        &self,
        py: Python<'_>,
        memory: &PySymmetricMemory,
        num_channels: u32,
    ) -> PyResult<PySymmetricWindow> {
        let number = memory.device();
        let stream = current_stream(py, number)?;
        let mut window = None;
        self.enqueue(py, "rendezvous", self.ranks.timeout(-1), |comm, devices| {
            let map = |on: &OnDevice<'_>| PySymmetricWindow::new(self.ranks.comm.clone(), memory, num_channels, on);
            window = Some(devices.on_stream(comm, number, stream, 0, map)?);
            Ok(())
        })?;
        window.ok_or_else(|| Failure::of_kind("error", "rendezvous", "no memory was mapped".into()).into())
    }

    /// Replaces a tensor of a window by the reduction of all ranks' tensors at the same place.
    fn all_reduce_symmetric(
        &self,
        window: &PySymmetricWindow,
        tensor: &Object<'_>,
        op: u8,
        timeout: i64,
    ) -> PyResult<()> {
        let (py, number, view, op) = (tensor.py(), window.device(), View::new(tensor)?, TorchOp::new(op)?);
        let stream = current_stream(py, number)?;
        self.enqueue(py, "all_reduce", self.ranks.timeout(timeout), |comm, devices| {
            devices.on_stream(comm, number, stream, 0, |device| window.all_reduce(&view, op, device))
        })
    }

    /// Returns the bytes that the last collective call on a device has copied to internal memory and from it.
    fn bytes_copied(&self, py: Python<'_>, device: u32) -> PyResult<u64> {
        let (stream, mut bytes) = (current_stream(py, device)?, 0);
        self.enqueue(py, "bytes_copied", None, |comm, devices| {
            let last = devices.on_stream(comm, device, stream, 0, |device| Ok(device.on.last_call()?))?;
            bytes = last.map_or(0, |call| call.bytes_copied);
            Ok(())
        })?;
        Ok(bytes)
    }

    /// Enqueues a signal to rank `peer` on the current stream of the window's device, after the work that precedes it.
    fn put_signal(&self, py: Python<'_>, window: &PySymmetricWindow, peer: u32, channel: u32) -> PyResult<()> {
        self.signal(py, "put_signal", window, SignalAction::Send, (peer, channel), -1)
    }

    /// Lets the current stream of the window's device wait for a signal of rank `peer`. A rank that is lost or late ends the wait and fails
    /// the group.
    fn wait_signal(
        &self,
        py: Python<'_>,
        window: &PySymmetricWindow,
        peer: u32,
        channel: u32,
        timeout: i64,
    ) -> PyResult<()> {
        self.signal(py, "wait_signal", window, SignalAction::Wait, (peer, channel), timeout)
    }

    /// Enqueues a barrier on the current stream of a device.
    fn barrier_on_device(&self, py: Python<'_>, device: u32, timeout: i64) -> PyResult<()> {
        let stream = current_stream(py, device)?;
        self.enqueue(py, "barrier", self.ranks.timeout(timeout), |comm, devices| {
            devices.on_stream(comm, device, stream, 0, |device| Ok(device.on.barrier()?))
        })
    }

    /// Waits for the calls on the current stream of the device, if there were any.
    fn synchronize(&self, py: Python<'_>) -> PyResult<()> {
        let number = self.ranks.devices.lock().unwrap_or_else(PoisonError::into_inner).number();
        let Some(number) = number else { return Ok(()) };
        let stream = current_stream(py, number)?;
        self.enqueue(py, "synchronize", None, |comm, devices| devices.synchronize(comm, number, stream))
    }

    /// Ends the communicator for all its ranks, whose calls then raise an exception with this rank and `reason`.
    fn abort(&self, py: Python<'_>, reason: &str) {
        py.detach(|| self.ranks.comm.abort(reason));
    }

    /// Ends the threads of this rank after the calls that were made so far. Waits for the other ranks to receive the sends that are
    /// buffered, at most for the timeout of calls, if it `waits`.
    #[pyo3(signature = (waits = true))]
    fn close(&self, py: Python<'_>, waits: bool) -> PyResult<()> {
        if self.ranks.is_copy() {
            return Ok(());
        }
        self.ranks.queue.close();
        let timeout =
            if waits { self.ranks.timeout(-1).unwrap_or_else(|| self.ranks.comm.timeout()) } else { Duration::ZERO };
        let started = Instant::now();
        loop {
            let left = timeout.saturating_sub(started.elapsed()).min(SIGNAL_INTERVAL);
            if py.detach(|| self.ranks.point_to_point.close(left)) || left.is_zero() {
                return Ok(());
            }
            py.check_signals()?;
        }
    }
}
