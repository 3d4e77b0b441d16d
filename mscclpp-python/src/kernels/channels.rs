//! Channels between kernels of several ranks.

use mscclpp_exec::cuda::channels::{ChannelOptions, Channels};
use mscclpp_exec::cuda::{Device, DeviceSlice, Stream};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::address::{AddressCommunicator, failed};
use crate::failure::Failure;
use crate::signals::{interruptible, raise_signal};

/// Name of the operation in failures.
const CONNECT: &str = "channels";

/// Channels of this rank's kernels with those of all ranks, over memory of each rank. They are bytes, parts of a kernel's argument, and are
/// valid as long as this object exists. Other ranks access the memory until they have dropped theirs.
#[pyclass(frozen, module = "mscclpp_rs._native")]
pub(crate) struct KernelChannels {
    device: Device,
    channels: Channels<u8>,
}

#[pymethods]
impl KernelChannels {
    /// Connects all ranks over `bytes` bytes of each, which are zero at first. A call of all ranks with the same arguments: the numbers of
    /// memory and of port channels with each rank, and of barriers of the rank's blocks.
    ///
    /// Raises `UnsupportedError` without devices, `Error` if the ranks cannot be connected.
    #[new]
    fn new(
        py: Python<'_>,
        comm: &AddressCommunicator,
        bytes: usize,
        num_memory: u32,
        num_port: u32,
        num_barriers: u32,
    ) -> PyResult<Self> {
        let (comm, device) = comm.parts()?;
        let Some(device) = device.clone() else {
            let message = "expected a communicator of CUDA devices, found one of host memory".into();
            return Err(Failure::of_kind("unsupported", CONNECT, message).on(comm.rank(), CONNECT).into());
        };
        if bytes == 0 {
            return Err(Failure::invalid(CONNECT, "expected at least 1 byte, found 0".into())
                .on(comm.rank(), CONNECT)
                .into());
        }
        let options = ChannelOptions::default().num_memory(num_memory).num_port(num_port).num_barriers(num_barriers);
        let connect = || {
            let stream = device.stream()?;
            let memory = comm.on(&stream).alloc::<u8>(bytes)?;
            comm.on(&stream).channels(memory, options)
        };
        let made = py.detach(|| interruptible(connect));
        raise_signal()?;
        let channels = made.map_err(|error| Failure::from(error).on(comm.rank(), CONNECT))?;
        Ok(Self { device, channels })
    }

    /// The address of this rank's memory.
    #[getter]
    fn address(&self) -> u64 {
        self.channels.local().as_slice().address
    }

    /// The number of bytes of the memory of each rank.
    #[getter]
    fn bytes(&self) -> u64 {
        self.channels.local().as_slice().bytes
    }

    /// Returns the memory channel `index` with a rank: `mscclpp::MemoryChannel`. `source`: address and bytes of the memory that puts read and
    /// gets write, that of the channels unless given.
    #[pyo3(signature = (peer, index=0, source=None))]
    fn memory<'py>(
        &self,
        py: Python<'py>,
        peer: u32,
        index: u32,
        source: Option<(u64, u64)>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let channel = self.channels.memory(peer, index).map_err(failed)?;
        let channel = source.map_or(channel, |(address, bytes)| channel.with_source(DeviceSlice { address, bytes }));
        Ok(PyBytes::new(py, bytemuck::bytes_of(&channel)))
    }

    /// Returns the port channel `index` with a rank: `mscclpp::PortChannel`.
    #[pyo3(signature = (peer, index=0, source=None))]
    fn port<'py>(
        &self,
        py: Python<'py>,
        peer: u32,
        index: u32,
        source: Option<(u64, u64)>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let channel = self.channels.port(peer, index).map_err(failed)?;
        let channel = source.map_or(channel, |(address, bytes)| channel.with_source(DeviceSlice { address, bytes }));
        Ok(PyBytes::new(py, bytemuck::bytes_of(&channel)))
    }

    /// Returns barrier `index` of this rank's thread blocks: `mscclpp::DeviceBarrier`.
    #[pyo3(signature = (index=0))]
    fn barrier<'py>(&self, py: Python<'py>, index: u32) -> PyResult<Bound<'py, PyBytes>> {
        let barrier = self.channels.barrier(index).map_err(failed)?;
        Ok(PyBytes::new(py, bytemuck::bytes_of(&barrier)))
    }

    /// Waits until the work of a stream is complete. Raises `Error` with the channel if a kernel has waited longer than the timeout, and
    /// `RankLostError` if another rank is lost.
    fn synchronize(&self, py: Python<'_>, stream: usize) -> PyResult<()> {
        let synchronize = || {
            // SAFETY: callers pass 0 or a stream of the device, in its primary context, which exists during the call.
            let stream = unsafe { Stream::from_raw(&self.device, stream) };
            self.channels.synchronize(&stream)
        };
        py.detach(synchronize).map_err(failed)
    }

    /// Raises `Error` with the channel if a kernel has waited longer than the timeout. Does not wait for kernels.
    fn check(&self) -> PyResult<()> {
        self.channels.check().map_err(failed)
    }

    /// Ends all waits of this rank's kernels, now and later.
    fn stop(&self) {
        self.channels.stop();
    }
}
