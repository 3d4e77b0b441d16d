//! Launches: one kernel on each device, and the kernels that divide the sums of an average.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};

use smallvec::SmallVec;

use super::{Part, PreparedPlan};
use crate::cuda::buffers::{Binding, Buffers};
use crate::cuda::counts::DeviceCounts;
use crate::cuda::last_launch::LastLaunch;
use crate::cuda::proxy::Proxies;
use crate::cuda::rows::RowOperands;
use crate::cuda::specialize::VECTOR;
use crate::cuda::timeline::Recording;
use mscclpp_base::error::{Error, RowsError};
use mscclpp_cuda::abi;
use mscclpp_cuda::device::stream::{Lane, Stream};
use mscclpp_cuda::driver::{Driver, DriverError, Handle};
use mscclpp_cuda::slice::DeviceSlice;

/// Threads of a block, and blocks per rank, of the kernel that divides the sums of an average.
const DIVIDE: (u32, u32) = (512, 16);

/// What the ranks of this process pass to a launch besides their buffers, ascending.
#[derive(Clone, Copy)]
pub(in crate::cuda) enum RankParams<'a> {
    None,
    Counts(&'a [DeviceCounts]),
    Rows(&'a [RowOperands]),
}

impl PreparedPlan {
    /// Enqueues a launch on a stream, on buffers that [`PreparedPlan::buffers`] made for this or an equal prepared
    /// plan, and returns immediately. The result of the launch is available after [`synchronize`](Self::synchronize).
    /// Dropping the buffers or the prepared plan waits for it.
    ///
    /// # Errors
    /// [`Error::ForeignBuffers`] if the buffers were made in another executor, even on the same device;
    /// [`Error::ElementType`], [`Error::BufferCount`], [`Error::BufferSize`] if they were made for another prepared
    /// plan; [`Error::Stalled`] if an earlier launch aborted; [`Error::StreamDeviceMismatch`] if ranks are on a device
    /// that the stream does not cover; [`Error::Capturing`] in a capture after a launch that aborted;
    /// [`Error::Bootstrap`]; [`Error::Driver`].
    pub fn launch_buffers(&mut self, buffers: &mut Buffers, stream: &Stream) -> Result<(), Error> {
        let (expected, found) = (self.params.message.dtype, buffers.dtype);
        if expected != found {
            return Err(Error::ElementType { expected, found });
        }
        // SAFETY: memory of the ranks' devices, allocated for this use alone: `launch_bound` rejects memory of another
        // executor. It is freed only when the devices of its executor, which is this one, are idle. The contract of a
        // graph's launch states how long it must exist.
        unsafe { self.launch_bound(&buffers.binding, stream) }
    }

    /// Enqueues a launch of a plan that normalizes rows as [`launch_buffers`](Self::launch_buffers) does, by a norm without residual and gamma.
    ///
    /// # Errors
    /// Those of [`launch_buffers`](Self::launch_buffers); [`Error::Rows`].
    #[doc(hidden)]
    pub fn launch_buffers_normalized(&mut self, buffers: &mut Buffers, eps: f32, stream: &Stream) -> Result<(), Error> {
        let (expected, found) = (self.params.message.dtype, buffers.dtype);
        if expected != found {
            return Err(Error::ElementType { expected, found });
        }
        let rows = RowOperands { eps: Some(eps), ..RowOperands::default() };
        let rows = vec![rows; self.world.local().count()];
        // SAFETY: as in `launch_buffers`; there are no operands.
        unsafe { self.launch_rows(&buffers.binding, &rows, stream) }
    }

    /// Enqueues a launch on a stream, on the memory that [`bind`](Self::bind) bound for this or an equal prepared plan,
    /// and returns immediately. A binding for another plan of the same lengths is used without multicast objects.
    ///
    /// # Errors
    /// Those of [`launch_buffers`](Self::launch_buffers), except for the type.
    ///
    /// # Safety
    /// As for [`launch`](Self::launch), for the memory that the ranks of this process bound.
    pub unsafe fn launch_bound(&mut self, binding: &Binding, stream: &Stream) -> Result<(), Error> {
        self.world.check_same(&binding.world)?;
        let distances = binding.distances(&self.context);
        // SAFETY: guaranteed by the caller; ranks of other processes guarantee it for their memory.
        unsafe { self.launch_on(binding.slices.iter().copied(), RankParams::None, distances, stream) }
    }

    /// Enqueues a launch of a plan whose sizes are counts, as [`launch_bound`](Self::launch_bound) does: with counts of each rank of this
    /// process, ascending, which work that was enqueued on the stream before may write. [`synchronize`](Self::synchronize) reports counts
    /// that exceed what there is room for; data was moved by all ranks or by none.
    ///
    /// In an all-to-all-v, the input has the parts for rank 0, 1, … one directly after the other, and the output receives those from rank
    /// 0, 1, …; both may have any length, another one on every rank.
    ///
    /// # Errors
    /// Those of [`launch_bound`](Self::launch_bound); [`Error::CountMode`], [`Error::CountRow`].
    ///
    /// # Safety
    /// As for [`launch`](Self::launch), for the memory that the ranks of this process bound and for that of the counts, whose addresses
    /// are multiples of the size of a count.
    pub unsafe fn launch_counted(
        &mut self,
        binding: &Binding,
        counts: &[DeviceCounts],
        stream: &Stream,
    ) -> Result<(), Error> {
        self.world.check_same(&binding.world)?;
        // SAFETY: guaranteed by the caller; ranks of other processes guarantee it for their memory.
        unsafe { self.launch_on(binding.slices.iter().copied(), RankParams::Counts(counts), None, stream) }
    }

    /// Enqueues a launch of a plan that normalizes rows, as [`launch_bound`](Self::launch_bound) does: with the operands of each rank of
    /// this process, ascending.
    ///
    /// # Errors
    /// Those of [`launch_bound`](Self::launch_bound); [`Error::Rows`].
    ///
    /// # Safety
    /// As for [`launch`](Self::launch), for the memory that the ranks of this process bound and for that of the operands, whose addresses
    /// are multiples of the size of their elements.
    pub unsafe fn launch_rows(
        &mut self,
        binding: &Binding,
        rows: &[RowOperands],
        stream: &Stream,
    ) -> Result<(), Error> {
        self.world.check_same(&binding.world)?;
        let distances = binding.distances(&self.context);
        // SAFETY: guaranteed by the caller; ranks of other processes guarantee it for their memory.
        unsafe { self.launch_on(binding.slices.iter().copied(), RankParams::Rows(rows), distances, stream) }
    }

    /// Enqueues a launch on a stream, on any memory that the devices can access, and returns immediately: for each rank
    /// its input and its output, or, in place, its one buffer and an empty slice. It is one kernel on each device, so
    /// that it can be captured; only the first launch of more than 32 ranks on buffers allocates. In an executor of
    /// several processes the memory of other processes is available only through [`bind`](Self::bind), and so are
    /// multicast objects in every executor: here switch channels over input and output do without them.
    ///
    /// # Errors
    /// Those of [`launch_buffers`](Self::launch_buffers), except for the type.
    ///
    /// # Safety
    /// The slices must be memory that every device of the executor can access. No other work may use them until the
    /// launch is complete, and they must exist until then; if the launch is captured, until the last launch of the
    /// graph is complete.
    pub unsafe fn launch(
        &mut self,
        ranks: impl Iterator<Item = [DeviceSlice; 2]>,
        stream: &Stream,
    ) -> Result<(), Error> {
        // SAFETY: guaranteed by the caller.
        unsafe { self.launch_on(ranks, RankParams::None, None, stream) }
    }

    /// Enqueues a launch; `passed`: by the ranks of this process; `distances`: to the multicast addresses of the memory, by device.
    ///
    /// # Safety
    /// As for [`launch`](Self::launch); the distances must be those of this memory.
    pub(in crate::cuda) unsafe fn launch_on(
        &mut self,
        ranks: impl Iterator<Item = [DeviceSlice; 2]>,
        passed: RankParams<'_>,
        distances: Option<&[abi::Distances]>,
        stream: &Stream,
    ) -> Result<(), Error> {
        if let Some(group) = &self.world.group {
            group.check()?;
        }
        if self.context.has_aborted() {
            // Reading the reports requires waiting for the devices.
            return Err(match stream.is_capturing()? {
                true => Error::Capturing { what: "cannot read the reports of an aborted launch".into() },
                false => self.recover(stream),
            });
        }
        let (is_counted, rows) = (self.context.program.is_counted, self.collective().rows);
        let plan = || self.context.program.plan.name().to_owned();
        if is_counted != matches!(passed, RankParams::Counts([_, ..])) {
            return Err(Error::CountMode { plan: plan(), counted: is_counted });
        }
        if rows != matches!(passed, RankParams::Rows(_)) {
            return Err(RowsError::Mode { plan: plan(), rows }.into());
        }
        self.bases.clear();
        self.counts.clear();
        for ((rank, sides), slices) in (0..).zip(&self.sides).zip(ranks) {
            self.check(rank, &slices)?;
            self.bases.extend(sides.map(|(memory, at)| slices[memory].address + at));
            if is_counted {
                let [input, output] = slices.map(|slice| slice.bytes);
                self.counts.push(abi::CountParams { input, output, ..bytemuck::Zeroable::zeroed() });
            }
        }
        let (expected, found) = (self.world.ranks, self.bases.len() / 2);
        if found != expected as usize {
            return Err(Error::BufferCount { buffer: "input and output", expected, found });
        }
        let low_bits = self.bases.iter().fold(0, |all, base| all | base) % VECTOR;
        match passed {
            RankParams::None => {}
            RankParams::Counts(counts) => self.add_counts(counts)?,
            RankParams::Rows(rows) => self.add_rows(rows)?,
        }
        let launches = self.parts.iter_mut().map(|part| &mut part.launch);
        self.places.fill(&mut self.placed, self.context.program.double_scratch, launches);
        for (at, part) in self.parts.iter_mut().enumerate() {
            part.launch.multicast = distances.and_then(|distances| distances.get(at).copied()).unwrap_or_default();
        }
        if self.bases.len() <= 2 * abi::INLINE_RANKS as usize {
            for part in &mut self.parts {
                part.launch.bases[..self.bases.len()].copy_from_slice(&self.bases);
            }
        } else {
            let tables = self.tables.with(&self.world, &self.bases, stream)?;
            for (part, table) in self.parts.iter_mut().zip(tables) {
                part.launch.table = table.address();
            }
        }
        self.parts.iter_mut().for_each(|part| part.launch.low_bits = low_bits);
        self.enqueue(low_bits == 0 || self.takes_any_alignment, stream)
    }

    /// Adds what the ranks of this process pass to the parameters of the launch.
    fn add_counts(&mut self, counts: &[DeviceCounts]) -> Result<(), Error> {
        let (expected, found) = (self.world.local().count(), counts.len());
        if expected != found {
            return Err(Error::BufferCount { buffer: "counts", expected: expected as u32, found });
        }
        for ((rank, _), counts) in self.world.local().zip(counts) {
            let params = &mut self.counts[rank as usize];
            *params = counts.params(rank, self.world.ranks, [params.input, params.output])?;
        }
        self.bases.extend_from_slice(bytemuck::cast_slice(&self.counts));
        Ok(())
    }

    /// Adds the operands of row norms of the ranks of this process to the parameters of the launch.
    fn add_rows(&mut self, rows: &[RowOperands]) -> Result<(), Error> {
        let (expected, found) = (self.world.local().count(), rows.len());
        if expected != found {
            return Err(Error::BufferCount { buffer: "row norms", expected: expected as u32, found });
        }
        self.bases.push(self.rank().into());
        for ((rank, _), rows) in self.world.local().zip(rows) {
            self.bases.extend_from_slice(bytemuck::cast_slice(&[rows.params(
                self.collective().kind,
                rank,
                &self.params,
            )?]));
        }
        Ok(())
    }

    /// Enqueues the kernels of a launch; `even`: whether specialized kernels support these buffers.
    fn enqueue(&self, even: bool, stream: &Stream) -> Result<(), Error> {
        let streams: SmallVec<[_; 8]> =
            self.world.devices.iter().map(|device| stream.on(device.driver())).collect::<Result<_, _>>()?;
        let mut launch_order = self.world.launch_order.lock().unwrap_or_else(PoisonError::into_inner);
        self.context.parts.iter().filter_map(|part| part.proxies.as_ref()).for_each(Proxies::wake);
        let lasts = streams.iter().zip(&mut launch_order.last);
        let mut launched = false;
        let parts = self.parts.iter().zip(&self.context.parts);
        for ((device, (part, state)), (lane, last)) in self.world.devices.iter().zip(parts).zip(lasts) {
            let driver = &**device.driver();
            let enqueued = self.enqueue_on(driver, (part, even), state.proxies.as_ref(), (lane, last), &mut launched);
            if let Err(error) = enqueued {
                // Kernels that were launched must not wait for the one that was not. Kernels of a capture were not
                // launched, and earlier launches do not depend on this one.
                if launched && streams.len() > 1 && !stream.is_capturing().unwrap_or(false) {
                    self.context.abort();
                }
                return Err(error.into());
            }
        }
        Ok(())
    }

    fn enqueue_on(
        &self,
        driver: &dyn Driver,
        (part, even): (&Part, bool),
        proxies: Option<&Proxies>,
        (lane, last): (&Arc<Lane>, &mut LastLaunch),
        launched: &mut bool,
    ) -> Result<(), DriverError> {
        let is_captured = self.is_captured.map_or_else(|| lane.is_capturing(), Ok)?;
        last.follow(lane, is_captured)?;
        if is_captured {
            self.world.is_captured.store(true, Relaxed);
            // The graph has the halves of the present scratch.
            self.context.keep_for_graphs();
            let all = self.context.parts.iter().filter_map(|part| part.proxies.as_ref());
            all.for_each(Proxies::expect_unannounced_launches);
            self.enqueue_kernels(driver, (part, even), None, lane.handle(), launched)?;
            return last.add(lane, true);
        }
        // Each launch of a graph would write its stamps to the same place.
        let enqueued = self.enqueue_kernels(driver, (part, even), part.recording.as_ref(), lane.handle(), launched);
        enqueued.and(last.add(lane, false))?;
        if let Some(proxies) = proxies {
            proxies.follow_launch(lane.handle());
        }
        Ok(())
    }

    fn enqueue_kernels(
        &self,
        driver: &dyn Driver,
        (part, even): (&Part, bool),
        recording: Option<&Recording>,
        stream: Handle,
        launched: &mut bool,
    ) -> Result<(), DriverError> {
        let Part { execute, divide, launch, .. } = part;
        let execute = part.written.as_ref().filter(|_| even).unwrap_or(execute);
        let recorded = recording.and_then(|recording| Some((&recording.execute.handle, recording.argument(launch)?)));
        let (execute, argument) = match &recorded {
            None => (execute, bytemuck::bytes_of(launch)),
            Some((execute, argument)) => (*execute, bytemuck::bytes_of(argument)),
        };
        // A driver rejects a launch of 0 blocks.
        if launch.num_blocks > 0 {
            // SAFETY: the argument is of the kernel's type; the memory of the plan state lives as long as `self`, and
            // the caller of `launch` guarantees the validity of the buffers.
            unsafe { driver.launch(*execute, launch.num_blocks, self.threads, stream, argument)? };
            *launched = true;
        }
        for ranks in part.divided.chunks(abi::INLINE_RANKS as usize) {
            let mut division = *launch;
            (division.table, division.num_ranks) = (0, ranks.len() as u32);
            for (slots, &rank) in division.bases.chunks_exact_mut(2).zip(ranks) {
                slots.copy_from_slice(&self.bases[2 * rank as usize..][..2]);
            }
            let (threads, each) = DIVIDE;
            let argument = bytemuck::bytes_of(&division);
            // SAFETY: as above.
            unsafe { driver.launch(*divide, each * division.num_ranks, threads, stream, argument)? };
        }
        Ok(())
    }
}
