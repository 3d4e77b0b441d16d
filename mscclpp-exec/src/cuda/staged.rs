//! Launches on memory that callers lend: as it is, if peers can access it or need not, or through buffers of the library.

use std::sync::Arc;

use mscclpp_core::collective::{Collective, CollectiveKind};

use super::buffers::Binding;
use super::counts::DeviceCounts;
use super::prepared_plan::{PreparedPlan, RankParams};
use super::rows::LentRows;
use mscclpp_base::dtype::DataType;
use mscclpp_base::error::Error;
use mscclpp_cuda::buffer::DeviceBuffer;
use mscclpp_cuda::device::stream::Stream;
use mscclpp_cuda::lend::Lent;
use mscclpp_cuda::slice::DeviceSlice;

/// A binding to two buffers of the library, for input and output.
pub struct Staged {
    // Dropped first: its destructor waits for pending launches.
    binding: Binding,
    buffers: Arc<[DeviceBuffer; 2]>,
}

/// A part of lent memory, in bytes.
#[derive(Clone, Copy)]
pub struct StagedPart<'a> {
    /// The memory.
    pub lent: &'a Lent<'a>,
    /// The first byte.
    pub offset: u64,
    /// The number of bytes.
    pub bytes: u64,
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

/// Counts in lent memory.
#[derive(Clone, Copy)]
pub struct LentCounts<'a> {
    /// Elements for each rank.
    pub sent: &'a Lent<'a>,
    /// Elements from each rank, which the launch writes.
    pub received: &'a Lent<'a>,
    /// Type of the counts.
    pub dtype: DataType,
    /// Elements of what a count counts.
    pub unit: u64,
}

/// What a rank passes to a launch besides its buffers.
#[derive(Clone, Copy)]
pub enum LentParams<'a> {
    /// Nothing.
    None,
    /// Counts.
    Counts(LentCounts<'a>),
    /// The operands of row norms.
    Rows(&'a LentRows<'a>),
}

/// How a launch uses memory that callers lend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// No other rank accesses it, so that it may be any memory of the device.
    Own,
    /// Other ranks access it, so that it has to be bound.
    Peers,
    /// The plan writes to memory that was lent for reading, so that it gets a copy.
    Copy,
}

impl PreparedPlan {
    /// Returns how launches of a call use the memory that its caller lends; the same on all ranks.
    #[doc(hidden)]
    pub fn access(&self) -> Access {
        let program = self.program();
        let Collective { in_place, kind, root, .. } = self.collective();
        // The root of a broadcast lends its buffer for reading.
        let writes_root = || program.written.get(root as usize).is_none_or(|written| *written);
        let writes_read_only = match in_place {
            false => program.writes_input,
            true => kind == CollectiveKind::Broadcast && writes_root(),
        };
        match (writes_read_only, self.own_buffers_only) {
            (true, _) => Access::Copy,
            (false, true) => Access::Own,
            (false, false) => Access::Peers,
        }
    }

    /// Enqueues a launch of a plan with [`Access::Own`] on parts of lent memory; in place, `output` alone; with what the plan's launches need
    /// besides.
    ///
    /// # Errors
    /// As [`launch_bound`](Self::launch_bound).
    #[doc(hidden)]
    pub fn launch_own(
        &mut self,
        input: Option<StagedPart<'_>>,
        output: StagedPart<'_>,
        passed: LentParams<'_>,
        stream: &Stream,
    ) -> Result<(), Error> {
        let own = part_slices(input, output)?;
        let (rank, absent) = (self.rank(), self.lens().map(|bytes| DeviceSlice { address: 0, bytes }));
        let ranks = (0..self.num_ranks()).map(|other| if other == rank { own } else { absent });
        if !self.own_buffers_only {
            return Err(Error::Internal("a plan that accesses buffers of other ranks".into()));
        }
        let counts = match passed {
            LentParams::Counts(counts) => Some(counts.slices()),
            _ => None,
        };
        let passed = match passed {
            LentParams::None => RankParams::None,
            LentParams::Counts(_) => RankParams::Counts(counts.as_slice()),
            LentParams::Rows(rows) => RankParams::Rows(std::slice::from_ref(&rows.operands)),
        };
        // SAFETY: no operation accesses the buffers of other ranks, and those of this rank are lent memory, which exists until
        // the launch is complete, as its trait guarantees; so are its counts and operands.
        unsafe { self.launch_on(ranks, passed, None, stream) }
    }

    /// Binds the plan to the first bytes of two buffers. A call of all ranks.
    ///
    /// # Errors
    /// As [`bind`](Self::bind).
    #[doc(hidden)]
    pub fn stage(&self, buffers: &Arc<[DeviceBuffer; 2]>) -> Result<Staged, Error> {
        let [input, output] = self.lens();
        let slice = |at: usize, bytes| DeviceSlice { bytes, ..buffers[at].whole() };
        let second = if output == 0 { DeviceSlice::EMPTY } else { slice(1, output) };
        if input > buffers[0].whole().bytes || output > buffers[1].whole().bytes {
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
    #[doc(hidden)]
    pub fn launch_staged(
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
        let part = |at: usize, bytes: u64| DeviceSlice { bytes, ..buffers[at].whole() };
        let [_, second] = self.lens();
        if let Some(input) = input {
            copy(part(0, input.bytes), input.slice()?)?;
        }
        // SAFETY: the memory of this rank is that of `buffers`, which is used for launches alone, one after the other on
        // whatever stream, and lives as long as `binding`, whose destructor waits for them.
        unsafe { self.launch_bound(binding, stream)? };
        if let Some(output) = output {
            copy(output.slice()?, part(usize::from(second > 0), output.bytes))?;
            self.extend_launch(stream)?;
        }
        Ok(())
    }

    /// Enqueues a launch on lent memory to which the plan was bound; in place, `output` alone.
    ///
    /// # Errors
    /// As [`launch_bound`](Self::launch_bound).
    #[doc(hidden)]
    pub fn launch_lent(
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

    /// Enqueues a launch of a plan with counts on lent memory to which the plan was bound.
    ///
    /// # Errors
    /// As [`launch_counted`](Self::launch_counted).
    #[doc(hidden)]
    pub fn launch_lent_counted(
        &mut self,
        binding: &Binding,
        (input, output): (&Lent<'_>, &Lent<'_>),
        counts: LentCounts<'_>,
        stream: &Stream,
    ) -> Result<(), Error> {
        if binding.of_rank(self.rank()) != lent_slices(Some(input), output) {
            return Err(Error::Internal("a binding of other memory".into()));
        }
        // SAFETY: as for `launch_lent`; the counts are lent memory of numbers of their type.
        unsafe { self.launch_counted(binding, &[counts.slices()], stream) }
    }
}

impl LentCounts<'_> {
    /// Returns the counts as memory of the device.
    fn slices(&self) -> DeviceCounts {
        let [sent, received] = [self.sent, self.received].map(|lent| lent.as_slice());
        DeviceCounts { sent, received, dtype: self.dtype, unit: self.unit }
    }
}

/// Returns the slices of parts of lent memory; in place, of `output` and none.
///
/// # Errors
/// [`Error::Internal`] if the memory does not contain a part.
pub fn part_slices(input: Option<StagedPart<'_>>, output: StagedPart<'_>) -> Result<[DeviceSlice; 2], Error> {
    match input {
        Some(input) => Ok([input.slice()?, output.slice()?]),
        None => Ok([output.slice()?, DeviceSlice::EMPTY]),
    }
}

/// Returns the slices of lent memory for a binding.
pub fn lent_slices(input: Option<&Lent<'_>>, output: &Lent<'_>) -> [DeviceSlice; 2] {
    match input {
        Some(input) => [input.as_slice(), output.as_slice()],
        None => [output.as_slice(), DeviceSlice::EMPTY],
    }
}
