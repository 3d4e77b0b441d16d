//! One rank of a process group: its calls on tensors.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use mscclpp_bootstrap::{Options, RootListener, UniqueId};
use mscclpp_exec::{Communicator, Error};
use pyo3::prelude::*;

use crate::buffer::PyBuffer;
use crate::call::{Call, Staging};
use crate::device::{Devices, Transfer};
use crate::failure::Failure;
use crate::gloo_order;
use crate::operator::{Operator, TorchOp};
use crate::point_to_point::PointToPoint;
use crate::queue::Queue;
use crate::signals::{interruptible, raise_signal};
use crate::tensor::{View, current_stream, views};
use crate::work::{Completion, PyWork, SIGNAL_INTERVAL};

/// Timeouts, from the environment and the process group.
fn options(timeout_ms: u64) -> Result<Options, Failure> {
    let timeout = Duration::from_millis(timeout_ms);
    Ok(Options::from_env().map_err(Failure::from)?.timeout(timeout).rendezvous_timeout(timeout))
}

/// Rank 0 before the others have joined.
#[pyclass(module = "mscclpp_rs._native", frozen)]
pub(crate) struct Listener(Mutex<Option<RootListener>>);

#[pymethods]
impl Listener {
    /// Listens on a free port of this host.
    #[new]
    fn new() -> PyResult<Self> {
        Ok(Self(Mutex::new(Some(RootListener::new().map_err(Failure::from)?))))
    }

    /// Returns the address and secret that the other ranks need.
    fn unique_id(&self) -> PyResult<String> {
        let listener = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let listener = listener.as_ref().ok_or_else(used)?;
        Ok(listener.unique_id().to_string())
    }
}

fn used() -> Failure {
    Failure::invalid("Listener", "expected a listener whose ranks have not joined; make another one".into())
}

/// What the calls of a rank share.
pub(crate) struct Ranks {
    pub(crate) comm: Communicator,
    queue: Arc<Queue>,
    staging: Mutex<Staging>,
    devices: Mutex<Devices>,
    point_to_point: PointToPoint,
    /// The process that joined; a copy of it is no rank.
    process: u32,
    /// Milliseconds that calls wait by default; negative for the communicator's.
    timeout: AtomicI64,
    num_calls: AtomicU64,
}

impl Ranks {
    fn new(comm: Communicator) -> Result<Self, Failure> {
        gloo_order::adopt(&comm)?;
        let point_to_point = PointToPoint::new(&comm)?;
        let process = std::process::id();
        let (timeout, num_calls) = (AtomicI64::new(-1), AtomicU64::new(0));
        Ok(Self {
            comm,
            queue: Arc::default(),
            staging: Mutex::default(),
            devices: Mutex::default(),
            point_to_point,
            process,
            timeout,
            num_calls,
        })
    }

    fn run(&self, call: &Call, timeout: Option<Duration>) -> Result<(), Failure> {
        let mut staging = self.staging.lock().unwrap_or_else(PoisonError::into_inner);
        let made = match timeout {
            Some(timeout) => call.run(&self.comm.with_timeout(timeout), &mut staging),
            None => call.run(&self.comm, &mut staging),
        };
        made.map_err(|failure| failure.on(self.comm.rank(), call.name()))
    }

    /// Returns the timeout of a call in milliseconds, of which a negative one is the default; none for the communicator's.
    fn timeout(&self, timeout: i64) -> Option<Duration> {
        let timeout = if timeout < 0 { self.timeout.load(Relaxed) } else { timeout };
        u64::try_from(timeout).ok().map(Duration::from_millis)
    }

    /// Returns whether this process is a copy of the one that joined.
    fn is_copy(&self) -> bool {
        std::process::id() != self.process
    }

    fn check_process(&self, name: &str) -> Result<(), Failure> {
        if !self.is_copy() {
            return Ok(());
        }
        let message = format!(
            "expected the process {} that joined as rank {}, found its copy {}; make calls in the process that joined, or start \
             workers with the method `spawn`",
            self.process,
            self.comm.rank(),
            std::process::id()
        );
        Err(Failure::of_kind("unsupported", name, message).on(self.comm.rank(), name))
    }
}

/// One rank's handle to a set of ranks. Calls take tensors whose elements are contiguous. A call that is not asynchronous returns `None`
/// when it is done; an asynchronous one returns a `Work` at once. Timeouts are milliseconds; a negative one is that of the communicator.
///
/// All methods raise the exceptions of `mscclpp_rs`: `InvalidInputError` for arguments, others if the call fails.
#[pyclass(name = "Communicator", module = "mscclpp_rs._native", frozen)]
pub(crate) struct PyCommunicator {
    ranks: Arc<Ranks>,
}

impl PyCommunicator {
    /// Creates a communicator on another thread, while this one handles signals.
    fn create(
        py: Python<'_>,
        create: impl FnOnce() -> Result<Communicator, Failure> + Send + 'static,
    ) -> PyResult<Self> {
        let (result, received) = mpsc::channel();
        let thread = thread::Builder::new().name("mscclpp-join".into()).spawn(move || {
            // Without a receiver, the thread that waited has been interrupted.
            let _ = result.send(create().and_then(Ranks::new));
        });
        thread.map_err(|error| Failure::of_kind("out-of-resources", "join", format!("no thread: {error}")))?;
        let received = Mutex::new(received);
        loop {
            let ranks =
                py.detach(|| received.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(SIGNAL_INTERVAL));
            match ranks {
                Ok(ranks) => return Ok(Self { ranks: Arc::new(ranks?) }),
                Err(RecvTimeoutError::Timeout) => py.check_signals()?,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Failure::from(Error::Internal("the thread that joins has ended".into())).into());
                }
            }
        }
    }

    fn submit(
        &self,
        py: Python<'_>,
        call: Call,
        timeout: i64,
        is_async: bool,
        keep: &Bound<'_, PyAny>,
    ) -> PyResult<Option<PyWork>> {
        let timeout = self.ranks.timeout(timeout);
        self.ranks.num_calls.fetch_add(1, Relaxed);
        let name = call.name();
        if let Some(device) = call.device()? {
            let stream = current_stream(py, device)?;
            self.enqueue(py, name, timeout, |comm, devices| devices.run(comm, device, stream, &call))?;
            return Ok(None);
        }
        if !is_async {
            let made = py.detach(|| {
                let _turn = self.ranks.queue.try_enter()?;
                Some(interruptible(|| self.ranks.run(&call, timeout)))
            });
            if let Some(made) = made {
                raise_signal()?;
                made?;
                return Ok(None);
            }
        }
        self.ranks.check_process(name)?;
        let work = self.start(call, timeout, keep.clone().unbind())?;
        if is_async {
            return Ok(Some(work));
        }
        work.completion.wait(py, name, None)?;
        Ok(None)
    }

    /// Makes a call on a device, in turn with the others.
    fn enqueue(
        &self,
        py: Python<'_>,
        name: &'static str,
        timeout: Option<Duration>,
        call: impl FnOnce(&Communicator, &mut Devices) -> Result<(), Failure> + Send,
    ) -> PyResult<()> {
        self.ranks.check_process(name)?;
        let made = py.detach(|| {
            let _turn = self.ranks.queue.enter();
            let mut devices = self.ranks.devices.lock().unwrap_or_else(PoisonError::into_inner);
            let comm = match timeout {
                Some(timeout) => self.ranks.comm.with_timeout(timeout),
                None => self.ranks.comm.clone(),
            };
            interruptible(|| call(&comm, &mut devices))
        });
        raise_signal()?;
        Ok(made.map_err(|failure| failure.on(self.ranks.comm.rank(), name))?)
    }

    fn start(&self, call: Call, timeout: Option<Duration>, keep: Py<PyAny>) -> Result<PyWork, Failure> {
        let (ranks, completion, name) = (Arc::clone(&self.ranks), Arc::new(Completion::default()), call.name());
        let work = PyWork { completion: Arc::clone(&completion), name };
        self.ranks.queue.push(
            name,
            Box::new(move || {
                let made = catch_unwind(AssertUnwindSafe(|| ranks.run(&call, timeout)));
                let made = made.unwrap_or_else(|_| Err(Error::Internal(format!("{name} panicked")).into()));
                // The tensors exist until here.
                drop(keep);
                completion.finish(made.map(|()| 0));
            }),
        )?;
        Ok(work)
    }
}

#[pymethods]
impl PyCommunicator {
    /// Starts the ranks of a listener, as rank 0.
    #[staticmethod]
    fn from_listener(py: Python<'_>, listener: &Listener, num_ranks: u32, timeout: u64) -> PyResult<Self> {
        let listener = listener.0.lock().unwrap_or_else(PoisonError::into_inner).take().ok_or_else(used)?;
        let options = options(timeout)?;
        Self::create(py, move || Ok(Communicator::from_listener(listener, num_ranks, options)?))
    }

    /// Joins the ranks of a listener's id as `rank`, which is not 0.
    #[staticmethod]
    fn join(py: Python<'_>, unique_id: &str, rank: u32, num_ranks: u32, timeout: u64) -> PyResult<Self> {
        let id: UniqueId = unique_id.parse().map_err(Failure::from)?;
        let options = options(timeout)?;
        Self::create(py, move || Ok(Communicator::join(&id, rank, num_ranks, options)?))
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
        Self::create(py, move || Ok(comm.shrink(&lost)?))
    }

    /// Allocates registered memory of a number of bytes, zero at first. A call of all ranks; lengths may differ.
    fn new_buffer(&self, py: Python<'_>, num_bytes: usize) -> PyResult<PyBuffer> {
        const NAME: &str = "new_buffer";
        self.ranks.check_process(NAME)?;
        let made = py.detach(|| {
            loop {
                let Some(_turn) = self.ranks.queue.try_enter() else {
                    // Started calls come first.
                    thread::yield_now();
                    continue;
                };
                return interruptible(|| self.ranks.comm.alloc::<u8>(num_bytes));
            }
        });
        raise_signal()?;
        let buffer = made.map_err(|error| Failure::from(error).on(self.ranks.comm.rank(), NAME))?;
        Ok(PyBuffer::new(buffer))
    }

    /// Replaces the tensor by the reduction of all ranks' tensors.
    fn all_reduce(
        &self,
        py: Python<'_>,
        tensor: &Bound<'_, PyAny>,
        op: u8,
        timeout: i64,
        is_async: bool,
    ) -> PyResult<Option<PyWork>> {
        let view = View::new(tensor)?;
        let call = Call::AllReduce { tensor: view, operator: Operator::new(TorchOp::new(op)?, view.kind)? };
        self.submit(py, call, timeout, is_async, tensor)
    }

    /// Replaces each tensor of a list by the reduction of all ranks' tensors.
    fn all_reduce_coalesced(
        &self,
        py: Python<'_>,
        tensors: &Bound<'_, PyAny>,
        op: u8,
        timeout: i64,
        is_async: bool,
    ) -> PyResult<Option<PyWork>> {
        let op = TorchOp::new(op)?;
        let call = |tensor: View| Ok(Call::AllReduce { tensor, operator: Operator::new(op, tensor.kind)? });
        let calls: Result<Vec<Call>, Failure> = views(tensors)?.into_iter().map(call).collect();
        self.submit(py, Call::Several(calls?), timeout, is_async, tensors)
    }

    /// Replaces the tensor by that of rank `root`.
    fn broadcast(
        &self,
        py: Python<'_>,
        tensor: &Bound<'_, PyAny>,
        root: u32,
        timeout: i64,
        is_async: bool,
    ) -> PyResult<Option<PyWork>> {
        self.submit(py, Call::Broadcast { tensor: View::new(tensor)?, root }, timeout, is_async, tensor)
    }

    /// Replaces the tensor of rank `root` by the reduction of all ranks' tensors.
    fn reduce(
        &self,
        py: Python<'_>,
        tensor: &Bound<'_, PyAny>,
        op: u8,
        root: u32,
        timeout: i64,
        is_async: bool,
    ) -> PyResult<Option<PyWork>> {
        let view = View::new(tensor)?;
        let call = Call::Reduce { tensor: view, operator: Operator::new(TorchOp::new(op)?, view.kind)?, root };
        self.submit(py, call, timeout, is_async, tensor)
    }

    /// Writes all ranks' inputs to the output, in the order of ranks: pairs `(output, input)`.
    fn all_gather(
        &self,
        py: Python<'_>,
        pairs: &Bound<'_, PyAny>,
        timeout: i64,
        is_async: bool,
    ) -> PyResult<Option<PyWork>> {
        let call = |(output, input)| Call::AllGather { input, output };
        let calls = pairs_of(pairs)?.into_iter().map(call).collect();
        self.submit(py, Call::Several(calls), timeout, is_async, pairs)
    }

    /// Writes rank r's input to the tensor r of a list: pairs `(outputs, input)`.
    fn all_gather_list(
        &self,
        py: Python<'_>,
        pairs: &Bound<'_, PyAny>,
        timeout: i64,
        is_async: bool,
    ) -> PyResult<Option<PyWork>> {
        let mut calls = Vec::new();
        for pair in pairs.try_iter()? {
            let pair = pair?;
            let (outputs, input) = (self.list("all_gather", &pair.get_item(0)?)?, View::new(&pair.get_item(1)?)?);
            calls.push(Call::AllGatherList { input, outputs });
        }
        self.submit(py, Call::Several(calls), timeout, is_async, pairs)
    }

    /// Reduces all ranks' inputs and writes part r to the output of rank r: pairs `(output, input)`.
    fn reduce_scatter(
        &self,
        py: Python<'_>,
        pairs: &Bound<'_, PyAny>,
        op: u8,
        timeout: i64,
        is_async: bool,
    ) -> PyResult<Option<PyWork>> {
        let op = TorchOp::new(op)?;
        let call = |(output, input): (View, View)| {
            Ok(Call::ReduceScatter { input, output, operator: Operator::new(op, output.kind)? })
        };
        let calls: Result<Vec<Call>, Failure> = pairs_of(pairs)?.into_iter().map(call).collect();
        self.submit(py, Call::Several(calls?), timeout, is_async, pairs)
    }

    /// Reduces all ranks' tensors r and writes the result to the output of rank r: pairs `(output, inputs)`.
    fn reduce_scatter_list(
        &self,
        py: Python<'_>,
        pairs: &Bound<'_, PyAny>,
        op: u8,
        timeout: i64,
        is_async: bool,
    ) -> PyResult<Option<PyWork>> {
        let op = TorchOp::new(op)?;
        let mut calls = Vec::new();
        for pair in pairs.try_iter()? {
            let pair = pair?;
            let (output, inputs) = (View::new(&pair.get_item(0)?)?, self.list("reduce_scatter", &pair.get_item(1)?)?);
            if inputs.iter().any(|input| input.bytes != output.bytes || input.kind != output.kind) {
                let expected = format!("expected inputs of the output's {} bytes and type, found others", output.bytes);
                return Err(Failure::invalid("reduce_scatter", expected).into());
            }
            calls.push(Call::ReduceScatterList { inputs, output, operator: Operator::new(op, output.kind)? });
        }
        self.submit(py, Call::Several(calls), timeout, is_async, pairs)
    }

    /// Sends part r of the input to rank r, and writes what rank r sends to part r of the output; parts are equally long.
    fn all_to_all(
        &self,
        py: Python<'_>,
        output: &Bound<'_, PyAny>,
        input: &Bound<'_, PyAny>,
        timeout: i64,
        is_async: bool,
    ) -> PyResult<Option<PyWork>> {
        let (to, from) = (View::new(output)?, View::new(input)?);
        same_kind("all_to_all_single", &to, &from)?;
        let keep = (output, input).into_pyobject(py)?;
        self.submit(py, Call::AllToAll { input: from, output: to }, timeout, is_async, keep.as_any())
    }

    /// Sends tensor r of the inputs to rank r, and writes what rank r sends to tensor r of the outputs; lengths may differ.
    fn all_to_all_list(
        &self,
        py: Python<'_>,
        outputs: &Bound<'_, PyAny>,
        inputs: &Bound<'_, PyAny>,
        timeout: i64,
        is_async: bool,
    ) -> PyResult<Option<PyWork>> {
        let keep = (outputs, inputs).into_pyobject(py)?;
        let (outputs, inputs) = (self.list("all_to_all", outputs)?, self.list("all_to_all", inputs)?);
        self.submit(py, Call::AllToAllList { inputs, outputs }, timeout, is_async, keep.as_any())
    }

    /// Writes rank r's input to tensor r of the outputs of rank `root`; the others pass no outputs.
    fn gather(
        &self,
        py: Python<'_>,
        outputs: &Bound<'_, PyAny>,
        input: &Bound<'_, PyAny>,
        root: u32,
        timeout: i64,
        is_async: bool,
    ) -> PyResult<Option<PyWork>> {
        let (to, from) = (self.on_root("gather", outputs, root)?, View::new(input)?);
        to.iter().try_for_each(|to| same_bytes("gather", to, &from))?;
        let keep = (outputs, input).into_pyobject(py)?;
        self.submit(py, Call::Gather { input: from, outputs: to, root }, timeout, is_async, keep.as_any())
    }

    /// Writes tensor r of the inputs of rank `root` to the output of rank r; the others pass no inputs.
    fn scatter(
        &self,
        py: Python<'_>,
        output: &Bound<'_, PyAny>,
        inputs: &Bound<'_, PyAny>,
        root: u32,
        timeout: i64,
        is_async: bool,
    ) -> PyResult<Option<PyWork>> {
        let (to, from) = (View::new(output)?, self.on_root("scatter", inputs, root)?);
        from.iter().try_for_each(|from| same_bytes("scatter", from, &to))?;
        let keep = (output, inputs).into_pyobject(py)?;
        self.submit(py, Call::Scatter { inputs: from, output: to, root }, timeout, is_async, keep.as_any())
    }

    /// Waits until all ranks have made this call.
    fn barrier(&self, py: Python<'_>, timeout: i64, is_async: bool) -> PyResult<Option<PyWork>> {
        self.submit(py, Call::Barrier, timeout, is_async, py.None().bind(py))
    }

    /// Sends a tensor to rank `peer`, which receives it with the same tag.
    fn send(&self, tensor: &Bound<'_, PyAny>, peer: u32, tag: i64) -> PyResult<PyWork> {
        self.ranks.check_process("send")?;
        let view = View::new(tensor)?;
        let completion = self.ranks.point_to_point.send(view, peer, tag, tensor.clone().unbind())?;
        Ok(PyWork { completion, name: "send" })
    }

    /// Receives a tensor from rank `peer`, from any rank if that is negative.
    fn recv(&self, tensor: &Bound<'_, PyAny>, peer: i64, tag: i64) -> PyResult<PyWork> {
        self.ranks.check_process("recv")?;
        let view = View::new(tensor)?;
        let completion = self.ranks.point_to_point.recv(view, peer, tag, tensor.clone().unbind())?;
        Ok(PyWork { completion, name: "recv" })
    }

    /// Makes sends and receives of tensors on a device together, enqueued on its current stream: tuples of whether this rank sends, the
    /// tensor, and the other rank.
    fn transfer_on_device(&self, py: Python<'_>, transfers: Vec<(bool, Bound<'_, PyAny>, u32)>) -> PyResult<()> {
        const NAME: &str = "send and recv on a device";
        let view = |(is_sent, tensor, peer): (bool, Bound<'_, PyAny>, u32)| Ok((is_sent, View::new(&tensor)?, peer));
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

    /// Ends the threads of this rank after the calls that were made so far.
    fn close(&self) {
        if self.ranks.is_copy() {
            return;
        }
        self.ranks.queue.close();
        self.ranks.point_to_point.close();
    }
}

impl PyCommunicator {
    /// Returns the views of a list with a tensor per rank.
    fn list(&self, call: &str, tensors: &Bound<'_, PyAny>) -> PyResult<Vec<View>> {
        let views = views(tensors)?;
        let ranks = self.ranks.comm.num_ranks() as usize;
        if views.len() != ranks {
            let message = format!("expected a list of {ranks} tensors, one per rank, found {}", views.len());
            return Err(Failure::invalid(call, message).on(self.ranks.comm.rank(), call).into());
        }
        Ok(views)
    }

    /// Returns the views of a list that only rank `root` passes.
    fn on_root(&self, call: &str, tensors: &Bound<'_, PyAny>, root: u32) -> PyResult<Vec<View>> {
        if self.ranks.comm.rank() == root { self.list(call, tensors) } else { Ok(Vec::new()) }
    }
}

/// Returns the views of pairs of tensors of one type.
fn pairs_of(pairs: &Bound<'_, PyAny>) -> PyResult<Vec<(View, View)>> {
    let pair = |pair: PyResult<Bound<'_, PyAny>>| {
        let pair = pair?;
        let (output, input) = (View::new(&pair.get_item(0)?)?, View::new(&pair.get_item(1)?)?);
        same_kind("a call with input and output", &output, &input)?;
        Ok((output, input))
    };
    pairs.try_iter()?.map(pair).collect()
}

fn same_kind(call: &str, output: &View, input: &View) -> Result<(), Failure> {
    if output.kind == input.kind {
        return Ok(());
    }
    let message = format!("expected an output of the input's type {}, found {}", input.kind.name(), output.kind.name());
    Err(Failure::invalid(call, message))
}

fn same_bytes(call: &str, of_list: &View, single: &View) -> Result<(), Failure> {
    same_kind(call, of_list, single)?;
    if of_list.bytes == single.bytes {
        return Ok(());
    }
    let message = format!("expected tensors of {} elements in the list, found {}", single.count(), of_list.count());
    Err(Failure::invalid(call, message))
}
