//! Memory of callers that kernels of other ranks access.

use mscclpp_communicator::OnStream;
use mscclpp_exec::Error;
use mscclpp_exec::cuda::{DeviceSlice, PeerRegions, PeerWindow};
use pyo3::prelude::*;

use crate::address::AddressCommunicator;
use crate::failure::Failure;
use crate::signals::{interruptible, raise_signal};

/// Name of the operation in failures.
const REGISTER: &str = "registration of memory";

/// Ranges of device memory of all ranks, at the addresses by which this rank's kernels and port channels use them. The memory of other ranks
/// stays mapped as long as this object exists.
#[pyclass(frozen, module = "mscclpp_rs._native")]
pub(crate) struct KernelRegions(PeerRegions);

#[pymethods]
impl KernelRegions {
    /// Maps ranges, each an address and a number of bytes, of all ranks. A call of all ranks, each with any number of ranges.
    ///
    /// Raises `UnsupportedError` without devices, `Error` on all ranks if one of them cannot share its memory.
    #[new]
    fn new(py: Python<'_>, comm: &AddressCommunicator, regions: Vec<(u64, u64)>) -> PyResult<Self> {
        let slices: Vec<_> = regions.into_iter().map(|(address, bytes)| DeviceSlice { address, bytes }).collect();
        on_device(py, comm, &slices.clone(), |on| on.peer_regions(slices)).map(Self)
    }

    /// Returns address and bytes of the ranges of a rank, in the order in which it named them.
    fn of_rank(&self, rank: u32) -> Vec<(u64, u64)> {
        self.0.of_rank(rank).iter().map(|slice| (slice.address, slice.bytes)).collect()
    }
}

/// Memory of all ranks behind one multicast address, by which this rank's kernels use it: a store reaches all of them, and a load combines
/// theirs. It stays bound as long as this object exists.
#[pyclass(frozen, module = "mscclpp_rs._native")]
pub(crate) struct KernelWindow(PeerWindow);

#[pymethods]
impl KernelWindow {
    /// Binds `bytes` bytes at `address` of each rank. A call of all ranks with as many bytes.
    ///
    /// Raises `UnsupportedError` without devices, `Error` on all ranks if one of them cannot share its memory.
    #[new]
    fn new(py: Python<'_>, comm: &AddressCommunicator, address: u64, bytes: u64) -> PyResult<Self> {
        let memory = DeviceSlice { address, bytes };
        on_device(py, comm, &[memory], |on| on.peer_window(memory)).map(Self)
    }

    /// The multicast address; 0 if devices or memory have none.
    #[getter]
    fn multicast_address(&self) -> u64 {
        self.0.multicast_address().unwrap_or(0)
    }
}

/// Makes a call of all ranks on ranges of device memory.
fn on_device<T: Send>(
    py: Python<'_>,
    comm: &AddressCommunicator,
    regions: &[DeviceSlice],
    call: impl FnOnce(&OnStream<'_>) -> Result<T, Error> + Send,
) -> PyResult<T> {
    let (comm, device) = comm.parts()?;
    let Some(device) = device.clone() else {
        let message = "expected a communicator of CUDA devices, found one of host memory".into();
        return Err(Failure::of_kind("unsupported", REGISTER, message).on(comm.rank(), REGISTER).into());
    };
    let is_range = |region: &DeviceSlice| region.address != 0 && region.address.checked_add(region.bytes).is_some();
    if let Some(DeviceSlice { address, bytes }) = regions.iter().find(|region| !is_range(region)) {
        let message = format!("expected a range of device memory, found {bytes} bytes at {address:#x}");
        return Err(Failure::invalid(REGISTER, message).on(comm.rank(), REGISTER).into());
    }
    let register = || {
        let stream = device.stream()?;
        call(&comm.on(&stream))
    };
    let made = py.detach(|| interruptible(register));
    raise_signal()?;
    made.map_err(|error| Failure::from(error).on(comm.rank(), REGISTER).into())
}
