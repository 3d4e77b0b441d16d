//! Calls of one rank on memory by address, as the reference's Python interface makes them.

mod allocation;
mod call;
mod memory;
mod symmetric;
mod target;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use mscclpp_bootstrap::{Address, Options, RootListener, Secret, UniqueId, place};
use mscclpp_communicator::Communicator;
use mscclpp_core::collective::CollectiveKind;
use mscclpp_exec::cuda::{Device, Stream, current_device, device_count};
use mscclpp_exec::{Error, PacketType};
use mscclpp_select::{Algorithm, Choice, Config};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

pub(crate) use self::allocation::Allocation;
use self::call::Call;
use self::symmetric::SymmetricMemory;
pub(crate) use self::target::Target;
use crate::failure::Failure;
use crate::plan::{data_type, reduction};
use crate::signals::{interruptible, raise_signal};

/// Maximum number of streams that are kept.
const MAX_STREAMS: usize = 64;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn failed(error: Error) -> PyErr {
    Failure::from(error).into()
}

/// Returns the failure of a call. Of kind `unsupported`, and the same on all ranks, if another algorithm may serve it.
fn of_call(collective: &str, error: Error) -> Failure {
    match error {
        Error::Select { .. }
        | Error::NoPlan { .. }
        | Error::MessageSize { .. }
        | Error::IndivisibleCount { .. }
        | Error::NotDividing { .. }
        | Error::FixedReduction { .. }
        | Error::NotCoResident { .. }
        | Error::NotShareable { .. } => Failure::of_kind("unsupported", collective, error.to_string()),
        error => error.into(),
    }
}

/// Returns the current device of this thread; `None` on a machine without CUDA devices.
pub(crate) fn device() -> PyResult<Option<Device>> {
    device_or(None)
}

/// As above, with another device than the first one for a thread without a current one.
fn device_or(other: Option<u32>) -> PyResult<Option<Device>> {
    if !has_devices() {
        return Ok(None);
    }
    let open = || Device::new(current_device()?.or(other).unwrap_or(0));
    open().map(Some).map_err(|error| failed(error.into()))
}

/// Returns whether the current device has multicast objects (NVLS); false on a machine without CUDA devices.
#[pyfunction]
pub(crate) fn is_nvls_supported() -> PyResult<bool> {
    Ok(device()?.is_some_and(|device| device.is_nvls_supported()))
}

/// Returns whether there are CUDA devices: then memory and calls are of them, else of the host.
#[pyfunction]
pub(crate) fn has_devices() -> bool {
    matches!(device_count(), Ok(1..))
}

/// Rank 0 of a job before the others have joined.
#[pyclass(frozen, module = "mscclpp_rs._native")]
pub(crate) struct JobListener(Mutex<Option<RootListener>>, String);

#[pymethods]
impl JobListener {
    /// Listens on a free port of this host.
    #[new]
    fn new() -> PyResult<Self> {
        let listener = RootListener::new().map_err(Failure::from)?;
        let id = listener.unique_id().to_string();
        Ok(Self(Mutex::new(Some(listener)), id))
    }

    /// The address and secret that the other ranks need.
    #[getter]
    fn unique_id(&self) -> &str {
        &self.1
    }
}

/// What serves the following calls of a communicator.
struct Forced {
    key: (u64, Config),
    choice: (CollectiveKind, Choice),
}

/// An algorithm, bytes that were copied, thread blocks and threads.
type LastCall = (Option<String>, u64, u32, u32);

/// One rank of a job, whose collective calls take addresses and bytes. Addresses are those of the rank's device, or of host
/// memory on a machine without CUDA devices.
#[pyclass(frozen, module = "mscclpp_rs._native")]
pub(crate) struct AddressCommunicator {
    comm: Communicator,
    /// The current device of the thread that joined, if it had one.
    first_device: Option<u32>,
    /// The device whose memory addresses are of, once a call needs it: programs choose it after they have joined, too.
    device: OnceLock<Option<Device>>,
    streams: Mutex<BTreeMap<usize, Arc<Stream>>>,
    /// What serves the following calls.
    forced: Mutex<Option<Forced>>,
    symmetric: SymmetricMemory,
}

impl AddressCommunicator {
    fn new(py: Python<'_>, join: impl FnOnce(Options) -> Result<Communicator, Error> + Send) -> PyResult<Self> {
        let first_device = current_device().ok().flatten();
        let options = Options::from_env().map_err(Failure::from)?;
        let comm = py.detach(|| join(options)).map_err(failed)?;
        Ok(Self {
            comm,
            first_device,
            device: OnceLock::new(),
            streams: Mutex::default(),
            forced: Mutex::default(),
            symmetric: SymmetricMemory::default(),
        })
    }

    /// Returns the communicator, and the device whose memory addresses are of.
    pub(crate) fn parts(&self) -> PyResult<(&Communicator, &Option<Device>)> {
        Ok((&self.comm, self.device()?))
    }

    /// Returns the device of calls: the current one of the thread that makes the first one.
    fn device(&self) -> PyResult<&Option<Device>> {
        if let Some(device) = self.device.get() {
            return Ok(device);
        }
        let device = device_or(self.first_device)?;
        Ok(self.device.get_or_init(|| device))
    }

    /// Returns the stream of a handle.
    fn stream(&self, device: &Device, handle: usize) -> Arc<Stream> {
        let mut streams = lock(&self.streams);
        if streams.len() >= MAX_STREAMS && !streams.contains_key(&handle) {
            streams.clear();
        }
        // SAFETY: callers pass 0 or the handle of a stream of the rank's device, in its primary context, which exists
        // during the call: the contract of `execute`.
        let open = || Arc::new(unsafe { Stream::from_raw(device, handle) });
        Arc::clone(streams.entry(handle).or_insert_with(open))
    }

    /// Lets a target serve the following calls, as all ranks do.
    fn force(&self, target: &Target, config: Config) -> Result<(), Failure> {
        let mut forced = lock(&self.forced);
        let key = target.key(&config);
        if forced.as_ref().is_some_and(|forced| forced.key == key) {
            return Ok(());
        }
        let name = match &target.algorithm {
            target::Algorithm::Plan(plan) => self.register(plan)?,
            target::Algorithm::Builtin(name) => name.clone(),
        };
        let choice = (target.kind, Choice { name, config });
        // Another target may be the same algorithm, whose preparations are kept.
        if forced.as_ref().is_none_or(|forced| forced.choice != choice) {
            self.comm.force_algorithm(Some(choice.clone()))?;
        }
        *forced = Some(Forced { key, choice });
        Ok(())
    }

    /// Returns the name of a plan in the registry, where it is added at first use, as on all ranks.
    fn register(&self, plan: &mscclpp_core::plan::Plan) -> Result<String, Failure> {
        let name = format!("{}-{:032x}", plan.name(), plan.hash());
        if self.comm.registry()?.find(&name).is_none() {
            let algorithm = Algorithm::plan(plan.clone()).with_name(name.clone());
            let added = self.comm.configure(|registry| registry.add(algorithm))?;
            added.map_err(|error| Failure::invalid("execute", error.to_string()))?;
        }
        Ok(name)
    }
}

#[pymethods]
impl AddressCommunicator {
    /// Starts a job of `size` ranks as rank 0, with a listener whose id the others have.
    #[staticmethod]
    fn listen(py: Python<'_>, listener: &JobListener, size: u32) -> PyResult<Self> {
        let Some(listener) = lock(&listener.0).take() else {
            return Err(PyValueError::new_err("expected a listener whose ranks have not joined; make another one"));
        };
        Self::new(py, |options| Communicator::from_listener(listener, size, options))
    }

    /// Joins the job of an id as `rank`, which is not 0.
    #[staticmethod]
    fn join(py: Python<'_>, id: &str, rank: u32, size: u32) -> PyResult<Self> {
        let id: UniqueId = id.parse().map_err(Failure::from)?;
        Self::new(py, |options| Communicator::join(&id, rank, size, options))
    }

    /// Joins the job of the environment: that of torchrun, `mpirun`, `srun` or `mscclpp launch`.
    #[staticmethod]
    fn from_env(py: Python<'_>) -> PyResult<Self> {
        Self::new(py, |_| Communicator::from_env())
    }

    /// Joins the job of `size` ranks as `rank`; rank 0 listens at `host` and `port`. The secret is that of
    /// `MSCCLPP_SECRET`, if that is set, or else derived from the address: then any process that reaches it may join.
    #[staticmethod]
    fn connect(py: Python<'_>, host: &str, port: u16, rank: u32, size: u32) -> PyResult<Self> {
        let address = Address::new(host, port);
        let secret = match std::env::var("MSCCLPP_SECRET") {
            Ok(secret) => Secret::derived(&["secret", &secret]),
            Err(_) => Secret::derived(&["address", host, &port.to_string(), &size.to_string()]),
        };
        Self::new(py, |options| Communicator::connect(&address, rank, size, &secret, options))
    }

    /// This rank.
    #[getter]
    fn rank(&self) -> u32 {
        self.comm.rank()
    }

    /// The number of ranks.
    #[getter]
    fn size(&self) -> u32 {
        self.comm.num_ranks()
    }

    /// The number of ranks per node.
    #[getter]
    fn ranks_per_node(&self) -> u32 {
        self.comm.bootstrap().ranks_per_node()
    }

    /// The number of the CUDA device; `None` if addresses are of host memory. The first call decides on it.
    #[getter(device)]
    fn device_number(&self) -> PyResult<Option<u32>> {
        Ok(self.device()?.as_ref().map(Device::ordinal))
    }

    /// Waits for all ranks.
    fn barrier(&self, py: Python<'_>) -> PyResult<()> {
        let barrier = || {
            let _name = place::enter_name("barrier");
            self.comm.bootstrap().barrier()
        };
        py.detach(barrier).map_err(|error| failed(error.into()))
    }

    /// Waits until the work of a stream of the rank's device is complete.
    fn synchronize(&self, py: Python<'_>, stream: usize) -> PyResult<()> {
        let Some(device) = self.device()? else { return Ok(()) };
        let stream = self.stream(device, stream);
        py.detach(|| stream.synchronize()).map_err(failed)
    }

    /// Sends bytes to a rank.
    fn send(&self, py: Python<'_>, peer: u32, tag: u64, bytes: &[u8]) -> PyResult<()> {
        py.detach(|| self.comm.bootstrap().send(peer, tag, bytes)).map_err(|error| failed(error.into()))
    }

    /// Receives bytes from a rank.
    fn recv(&self, py: Python<'_>, peer: u32, tag: u64) -> PyResult<Vec<u8>> {
        py.detach(|| self.comm.bootstrap().recv(peer, tag)).map_err(|error| failed(error.into()))
    }

    /// Returns the bytes of each rank, in the order of ranks. A call of all ranks.
    fn all_gather<'py>(&self, py: Python<'py>, bytes: &[u8]) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let gather = || {
            let _name = place::enter_name("all_gather");
            self.comm.bootstrap().all_gather(bytes)
        };
        let all = py.detach(gather).map_err(|error| failed(error.into()))?;
        Ok(all.iter().map(|bytes| PyBytes::new(py, bytes)).collect())
    }

    /// Makes a collective call with a target, configured with `blocks` and `threads`; `short_packets`: in packets of 8 bytes;
    /// `symmetric`: on memory of an [`Allocation`] at the same place on all ranks, which calls use in place.
    ///
    /// The caller guarantees that each address is that of the given number of bytes, on the communicator's device or else in host
    /// memory, which exist and are used by nothing else until the call is complete; and that `stream` is 0 or a stream of
    /// the device.
    #[allow(clippy::too_many_arguments, reason = "arguments of a call in Python")]
    fn execute(
        &self,
        py: Python<'_>,
        target: &Target,
        input: (u64, u64),
        output: (u64, u64),
        dtype: &str,
        op: &str,
        stream: usize,
        blocks: Option<u32>,
        threads: Option<u32>,
        short_packets: bool,
        symmetric: bool,
    ) -> PyResult<()> {
        let on = |failure: Failure| failure.on(self.comm.rank(), &target.collective);
        let (dtype, op) = (data_type(dtype)?, reduction(op)?);
        let call = Call::new(&self.comm, target, input, output, dtype, op).map_err(on)?;
        let device = self.device()?;
        let symmetric = symmetric && device.is_some() && call.has_elements();
        if symmetric {
            call.check_symmetric(&target.collective).map_err(on)?;
        }
        let make = || {
            let _name = place::enter_name("Algorithm.execute");
            self.force(target, Config { blocks, threads })?;
            let packet = if short_packets { PacketType::LL8 } else { PacketType::LL16 };
            let comm = self.comm.with_packets(packet);
            match device {
                Some(device) if symmetric => {
                    call.run_on_symmetric(&self.symmetric, &comm, &self.stream(device, stream))
                }
                Some(device) => call.run_on_device(&comm, &self.stream(device, stream)),
                None => call.run_on_host(&comm),
            }
            .map_err(|error| of_call(&target.collective, error))
        };
        let made: Result<(), Failure> = py.detach(|| interruptible(make));
        raise_signal()?;
        made.map_err(|failure| on(failure).into())
    }

    /// Returns the algorithm of the last call on the device, the bytes that it copied to internal buffers and from them, and its
    /// numbers of thread blocks and threads; `None` before the first call.
    fn last_call(&self, stream: usize) -> PyResult<Option<LastCall>> {
        let Some(device) = self.device()? else { return Ok(None) };
        let last = self.comm.on(&self.stream(device, stream)).last_call().map_err(failed)?;
        Ok(last.map(|call| (call.algorithm, call.bytes_copied, call.num_blocks, call.threads_per_block)))
    }

    /// Drops what was prepared for earlier calls.
    fn reset(&self) -> PyResult<()> {
        *lock(&self.forced) = None;
        let released = self.comm.force_algorithm(None).and_then(|()| self.comm.release_prepared());
        released.map_err(failed)
    }
}
