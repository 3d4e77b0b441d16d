//! Memory of callers that kernels of other ranks access.

use mscclpp_exec::cuda::{DeviceSlice, PeerRegions};
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
        let (comm, device) = comm.parts();
        let Some(device) = device.clone() else {
            let message = "expected a communicator of CUDA devices, found one of host memory".into();
            return Err(Failure::of_kind("unsupported", REGISTER, message).on(comm.rank(), REGISTER).into());
        };
        let is_range = |(address, bytes): &(u64, u64)| *address != 0 && address.checked_add(*bytes).is_some();
        if let Some((address, bytes)) = regions.iter().find(|region| !is_range(region)) {
            let message = format!("expected a range of device memory, found {bytes} bytes at {address:#x}");
            return Err(Failure::invalid(REGISTER, message).on(comm.rank(), REGISTER).into());
        }
        let slices = regions.into_iter().map(|(address, bytes)| DeviceSlice { address, bytes }).collect();
        let register = || {
            let stream = device.stream()?;
            comm.on(&stream).peer_regions(slices)
        };
        let made = py.detach(|| interruptible(register));
        raise_signal()?;
        made.map(Self).map_err(|error| Failure::from(error).on(comm.rank(), REGISTER).into())
    }

    /// Returns address and bytes of the ranges of a rank, in the order in which it named them.
    fn of_rank(&self, rank: u32) -> Vec<(u64, u64)> {
        self.0.of_rank(rank).iter().map(|slice| (slice.address, slice.bytes)).collect()
    }
}
