//! Launches on memory that callers lend: in place of registered memory, and through buffers of the library.

use std::sync::Arc;

use super::buffers::{Binding, DeviceBuffer, DeviceSlice};
use super::lend::Lent;
use super::prepared_plan::PreparedPlan;
use super::stream::Stream;
use crate::error::Error;

/// A binding to two buffers of the library, for input and output.
pub(crate) struct Staged {
    // Dropped first: its destructor waits for pending launches.
    binding: Binding,
    buffers: Arc<[DeviceBuffer; 2]>,
}

/// A part of lent memory, in bytes.
#[derive(Clone, Copy)]
pub(crate) struct StagedPart<'a> {
    pub(crate) lent: &'a Lent<'a>,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

impl StagedPart<'_> {
    /// Returns the addresses of the part.
    fn slice(&self) -> Result<DeviceSlice, Error> {
        let whole = self.lent.as_slice();
        let is_inside = self.offset.checked_add(self.bytes).is_some_and(|end| end <= whole.bytes);
        let inside = is_inside.then_some(DeviceSlice { address: whole.address + self.offset, bytes: self.bytes });
        inside.ok_or_else(|| Error::Internal("a part that is not inside of its memory".into()))
    }
}

impl PreparedPlan {
    /// Binds the plan to the first bytes of two buffers. A call of all ranks.
    ///
    /// # Errors
    /// As [`bind`](Self::bind).
    pub(crate) fn stage(&self, buffers: &Arc<[DeviceBuffer; 2]>) -> Result<Staged, Error> {
        let [input, output] = self.lens();
        let slice = |at: usize, bytes| DeviceSlice { bytes, ..buffers[at].as_slice() };
        let second = if output == 0 { DeviceSlice::EMPTY } else { slice(1, output) };
        if input > buffers[0].as_slice().bytes || output > buffers[1].as_slice().bytes {
            return Err(Error::Internal("buffers that are too short for a plan".into()));
        }
        let binding = self.bind([[slice(0, input), second]])?;
        Ok(Staged { binding, buffers: Arc::clone(buffers) })
    }

    /// Enqueues a launch on buffers of the library. Before it, `input` is copied to them, after it, the result to
    /// `output`; in place both are the one buffer. The copies are in the order of the stream, after earlier launches.
    ///
    /// # Errors
    /// As [`launch_bound`](Self::launch_bound).
    pub(crate) fn launch_staged(
        &mut self,
        staged: &Staged,
        input: Option<StagedPart<'_>>,
        output: Option<StagedPart<'_>>,
        stream: &Stream,
    ) -> Result<(), Error> {
        let Staged { binding, buffers } = staged;
        let lane = stream.on(buffers[0].driver())?;
        self.follow_launches(stream)?;
        let copy =
            |to: DeviceSlice, from: DeviceSlice| lane.driver().copy(to.address, from.address, to.bytes, lane.handle());
        let part = |at: usize, bytes: u64| DeviceSlice { bytes, ..buffers[at].as_slice() };
        let [_, second] = self.lens();
        if let Some(input) = input {
            copy(part(0, input.bytes), input.slice()?)?;
        }
        // SAFETY: the memory of this rank is that of `buffers`, which is used for launches alone, one after the other on
        // whatever stream, and lives as long as `binding`, whose destructor waits for them.
        unsafe { self.launch_bound(binding, stream)? };
        if let Some(output) = output {
            copy(output.slice()?, part(usize::from(second > 0), output.bytes))?;
        }
        Ok(())
    }

    /// Enqueues a launch on lent memory to which the plan was bound; in place, `output` alone.
    ///
    /// # Errors
    /// As [`launch_bound`](Self::launch_bound).
    pub(crate) fn launch_lent(
        &mut self,
        binding: &Binding,
        input: Option<&Lent<'_>>,
        output: &Lent<'_>,
        stream: &Stream,
    ) -> Result<(), Error> {
        if binding.of_rank(self.rank()) != lent_slices(input, output) {
            return Err(Error::Internal("a binding of other memory".into()));
        }
        // SAFETY: the binding's memory of this rank is the lent one, which exists until the launch is complete, as its
        // trait guarantees. Other ranks guarantee it for theirs.
        unsafe { self.launch_bound(binding, stream) }
    }
}

/// Returns the slices of lent memory for a binding.
pub(crate) fn lent_slices(input: Option<&Lent<'_>>, output: &Lent<'_>) -> [DeviceSlice; 2] {
    match input {
        Some(input) => [input.as_slice(), output.as_slice()],
        None => [output.as_slice(), DeviceSlice::EMPTY],
    }
}

impl Stream {
    /// Enqueues a copy between lent memories of equal length on a device.
    ///
    /// # Errors
    /// [`Error::StreamDeviceMismatch`], [`Error::Driver`].
    pub(crate) fn copy_lent(&self, device: &super::Device, to: &Lent<'_>, from: &Lent<'_>) -> Result<(), Error> {
        let lane = self.on(device.driver())?;
        let (to, from) = (to.as_slice(), from.as_slice());
        Ok(lane.driver().copy(to.address, from.address, to.bytes.min(from.bytes), lane.handle())?)
    }
}
