//! A plan bound to a message.

use std::sync::{Arc, Mutex};

use mscclpp_core::collective::{Collective, CollectiveKind};
use mscclpp_core::types::ReduceOp;

use super::buffers::{Buffers, Part, zeroed_lines};
use super::executor::{Inner, LaunchLock, lock};
use super::plan_state::{Outcome, PlanState, Scratch};
use super::pool::{Job, Pool};
use super::schedule::Plain;
use crate::verify::{Bound, BoundPlan};
use mscclpp_base::dtype::Element;
use mscclpp_base::error::{Error, RowsError};
use mscclpp_base::interpret::timeline::Stamps;
use mscclpp_base::interpret::{CountRow, Params, ROW_SLICES, ResolvedPlan, RowCall, RowNorm, SLICES, Space};
use mscclpp_base::memory::{Loan, check_available};
use mscclpp_base::message::Message;
use mscclpp_base::numeric::Line;
use mscclpp_base::random::Random;
use mscclpp_base::timeline::Timeline;

/// A plan bound to a message of a size, type and reduction, to be launched any number of times.
///
/// ```
/// use mscclpp_core::types::ReduceOp;
/// use mscclpp_algorithms as algorithms;
/// use mscclpp_exec::{Message, cpu::Executor};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let ring = algorithms::find("allreduce_ring").expect("it is in the library");
/// let plan = ring.plan(ring.spec(2, 2), &[])?;
/// let mut prepared = Executor::new(2).prepare(&plan, Message::of::<u8>(7).op(ReduceOp::Max))?;
/// let mut outputs = [[0_u8; 7]; 2];
/// for round in 0..3 {
///     prepared.launch(&[[round; 7], [1; 7]], &mut outputs)?;
///     assert_eq!(outputs, [[round.max(1); 7]; 2]);
/// }
/// # Ok(())
/// # }
/// ```
///
/// `Send` and `Sync`: any thread may launch, but launches borrow the plan mutably.
pub struct PreparedPlan {
    world: Arc<Inner>,
    context: Arc<PlanState>,
    params: Arc<Params>,
    /// By thread block, while launches are recorded.
    stamps: Option<Arc<[Mutex<Stamps>]>>,
}

static_assertions::assert_impl_all!(PreparedPlan: Send, Sync);

/// Returns what each rank lends to an out-of-place launch.
fn lent<'a, T: Element>(
    inputs: &'a [impl AsRef<[T]>],
    outputs: &'a mut [impl AsMut<[T]>],
) -> impl Iterator<Item = [Loan<'a>; 2]> {
    inputs.iter().zip(outputs).map(|(input, output)| {
        [Loan::Read(bytemuck::cast_slice(input.as_ref())), Loan::Write(bytemuck::cast_slice_mut(output.as_mut()))]
    })
}

/// Returns what each rank lends to an in-place launch.
fn lent_in_place<'a, T: Element>(buffers: &'a mut [impl AsMut<[T]>]) -> impl Iterator<Item = [Loan<'a>; 2]> {
    buffers.iter_mut().map(|buffer| [Loan::Write(bytemuck::cast_slice_mut(buffer.as_mut())), Loan::Read(&[])])
}

/// The row norms of all ranks with their operands; none for a plan without rows.
type RowNorms<'a> = Vec<(RowCall, [Loan<'a>; ROW_SLICES])>;

impl Bound for PreparedPlan {
    fn bound(&self) -> BoundPlan<'_> {
        BoundPlan { program: self.program(), params: &self.params }
    }
}

impl PreparedPlan {
    pub(super) fn new(world: Arc<Inner>, context: Arc<PlanState>, params: Arc<Params>) -> Result<Self, Error> {
        let run = Self { world, context, params, stamps: None };
        run.grow_scratch()?;
        Ok(run)
    }

    /// Returns the message.
    #[doc(hidden)]
    pub fn message(&self) -> &Message {
        &self.params.message
    }

    /// Returns the collective that the plan implements.
    #[doc(hidden)]
    pub fn collective(&self) -> Collective {
        self.program().shape.collective
    }

    /// Returns the number of ranks.
    #[doc(hidden)]
    pub fn num_ranks(&self) -> u32 {
        self.world.ranks
    }

    /// Returns the reduction; `None` if the plan does not reduce. For a plan with several reductions, `Sum`.
    #[doc(hidden)]
    pub fn reduction(&self) -> Option<ReduceOp> {
        self.params.reduction
    }

    /// Returns the number of elements of each rank's input.
    pub fn input_len(&self) -> usize {
        self.params.layout.input.len as usize / self.params.message.dtype.size()
    }

    /// Returns the number of elements of each rank's output.
    pub fn output_len(&self) -> usize {
        self.params.layout.output.len as usize / self.params.message.dtype.size()
    }

    /// Allocates zeroed buffers for this prepared plan.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] if the machine does not have enough memory.
    pub fn buffers(&self) -> Result<Buffers, Error> {
        let part = |rank: u32, space: Space| -> Part {
            let area = self.params.area(rank, space);
            (area.slice as usize % 4, area.base as usize, area.view.len as usize)
        };
        let parts = (0..self.world.ranks).map(|rank| (part(rank, Space::Input), part(rank, Space::Output)));
        Buffers::new(self.params.message.dtype, self.params.buffers(self.program()), parts)
    }

    /// Overwrites the plan's scratch with pseudo-random bytes. A launch that reads scratch that none of its operations
    /// wrote then computes with these bytes instead of those of an earlier launch, or zeros. Packets are not
    /// overwritten, because flags separate launches.
    #[doc(hidden)]
    pub fn scramble_scratch(&mut self, seed: u64) {
        let mut random = Random(seed);
        for rank in lock(&self.context.scratch).iter_mut() {
            rank.plain.iter_mut().flat_map(|line| &mut line.0).for_each(|word| *word = random.next());
        }
    }

    /// Launches out of place: `inputs[r]` and `outputs[r]` belong to rank `r`. Returns when every rank has finished.
    ///
    /// Does not allocate. Elements of an output that the plan does not write keep their values.
    ///
    /// # Errors
    /// [`Error::ElementType`], [`Error::BufferModeMismatch`], [`Error::ReadOnlyInput`], [`Error::BufferCount`] and
    /// [`Error::BufferSize`] if the buffers do not fit; [`Error::Stalled`] if the plan cannot make progress. After a
    /// stall the contents of outputs are unspecified, and the next launch starts from reset counters.
    pub fn launch<T: Element>(
        &mut self,
        inputs: &[impl AsRef<[T]>],
        outputs: &mut [impl AsMut<[T]>],
    ) -> Result<(), Error> {
        self.check_out_of_place::<T>(false)?;
        self.check_buffers(inputs, outputs)?;
        self.execute(Arc::default(), Vec::new(), lent(inputs, outputs))
    }

    /// Launches a plan that normalizes rows: `norms[r]` are the residual and the other operands of rank `r`; otherwise as
    /// [`launch`](Self::launch).
    ///
    /// # Errors
    /// As [`launch`](Self::launch); [`Error::Rows`].
    pub fn launch_rows<'a, T: Element>(
        &mut self,
        inputs: &[impl AsRef<[T]>],
        outputs: &mut [impl AsMut<[T]>],
        norms: impl IntoIterator<Item = RowNorm<'a, T>>,
    ) -> Result<(), Error> {
        self.check_out_of_place::<T>(false)?;
        self.check_buffers(inputs, outputs)?;
        self.execute(Arc::default(), self.row_norms(norms)?, lent(inputs, outputs))
    }

    /// Launches in place as [`launch_rows`](Self::launch_rows) does.
    ///
    /// # Errors
    /// As [`launch_rows`](Self::launch_rows).
    pub fn launch_rows_in_place<'a, T: Element>(
        &mut self,
        buffers: &mut [impl AsMut<[T]>],
        norms: impl IntoIterator<Item = RowNorm<'a, T>>,
    ) -> Result<(), Error> {
        self.check_type::<T>()?;
        self.check_place(true)?;
        self.check_in_place(buffers)?;
        self.execute(Arc::default(), self.row_norms(norms)?, lent_in_place(buffers))
    }

    fn row_norms<'a, T: Element>(
        &self,
        norms: impl IntoIterator<Item = RowNorm<'a, T>>,
    ) -> Result<RowNorms<'a>, Error> {
        let Params { layout, message, .. } = &*self.params;
        let bytes = |rank| layout.normalized_rows(self.program().shape.collective.kind, rank).0;
        let norms = (0..).zip(norms).map(|(rank, norm)| norm.lend(rank, bytes(rank), message.row));
        let norms = norms.collect::<Result<Vec<_>, _>>()?;
        let (expected, found) = (self.world.ranks, norms.len());
        if found != expected as usize {
            return Err(Error::BufferCount { buffer: "row norms", expected, found });
        }
        Ok(norms)
    }

    fn check_buffers<T: Element>(
        &self,
        inputs: &[impl AsRef<[T]>],
        outputs: &mut [impl AsMut<[T]>],
    ) -> Result<(), Error> {
        let [input_len, output_len] = self.lens();
        self.check_lens("input", Some(input_len), inputs.iter().map(|input| size_of_val(input.as_ref())))?;
        self.check_lens("output", Some(output_len), outputs.iter_mut().map(|output| size_of_val(output.as_mut())))
    }

    fn check_in_place<T: Element>(&self, buffers: &mut [impl AsMut<[T]>]) -> Result<(), Error> {
        let lens = buffers.iter_mut().map(|buffer| size_of_val(buffer.as_mut()));
        self.check_lens("in-place", Some(self.lens()[0]), lens)
    }

    /// Launches a plan whose sizes are counts: `counts[s][r]` elements are what rank `s` has for rank `r`; otherwise as
    /// [`launch`](Self::launch).
    ///
    /// In an all-to-all-v, an input has the parts for rank 0, 1, … one directly after the other, and an output receives
    /// those from rank 0, 1, …; both may have any length that the counts fit into. In other collectives every chunk begins where
    /// it does for the largest counts. Elements of an output beyond the counts keep their values.
    ///
    /// # Errors
    /// As [`launch`](Self::launch); [`Error::CountRow`], [`Error::CountMode`]; [`Error::CountOverflow`] if a count is negative or
    /// larger than a rank's part of the message, or the counts of a rank do not fit into a buffer. Then no data was moved.
    pub fn launch_counted<T: Element, C: Copy + Into<i64>>(
        &mut self,
        inputs: &[impl AsRef<[T]>],
        outputs: &mut [impl AsMut<[T]>],
        counts: &[impl AsRef<[C]>],
    ) -> Result<(), Error> {
        self.check_out_of_place::<T>(true)?;
        let packed = self.collective().kind == CollectiveKind::AllToAllV;
        let lens = self.lens().map(|len| (!packed).then_some(len));
        self.check_lens("input", lens[0], inputs.iter().map(|input| size_of_val(input.as_ref())))?;
        self.check_lens("output", lens[1], outputs.iter_mut().map(|output| size_of_val(output.as_mut())))?;
        if counts.len() != self.world.ranks as usize {
            return Err(Error::BufferCount { buffer: "counts", expected: self.world.ranks, found: counts.len() });
        }
        let rooms = inputs.iter().zip(outputs.iter_mut());
        let rooms = rooms.map(|(input, output)| [input.as_ref().len() as u64, output.as_mut().len() as u64]);
        let rows = (0..).zip(counts).zip(rooms).map(|((rank, counts), room)| {
            let counts: Box<[i64]> = counts.as_ref().iter().map(|count| (*count).into()).collect();
            let (expected, found) = (self.world.ranks, counts.len());
            if found == expected as usize {
                Ok(CountRow { counts, expected: None, room })
            } else {
                Err(Error::CountRow { rank, expected, found })
            }
        });
        let rows = rows.collect::<Result<_, _>>()?;
        self.execute(rows, Vec::new(), lent(inputs, outputs))
    }

    fn check_out_of_place<T: Element>(&self, counted: bool) -> Result<(), Error> {
        self.check_type::<T>()?;
        self.check_place(false)?;
        let plan = || self.program().plan.name().to_owned();
        if self.program().is_counted != counted {
            return Err(Error::CountMode { plan: plan(), counted: self.program().is_counted });
        }
        if self.program().writes_input { Err(Error::ReadOnlyInput { plan: plan() }) } else { Ok(()) }
    }

    /// Launches in place: `buffers[r]` is rank `r`'s input and output; as [`launch`](Self::launch) otherwise.
    ///
    /// In an all-gather rank `r`'s input is part `r` of its buffer, in a reduce-scatter its output is part `r`; else
    /// both are all of it.
    ///
    /// # Errors
    /// As [`launch`](Self::launch).
    pub fn launch_in_place<T: Element>(&mut self, buffers: &mut [impl AsMut<[T]>]) -> Result<(), Error> {
        self.check_type::<T>()?;
        self.check_place(true)?;
        self.check_in_place(buffers)?;
        self.execute(Arc::default(), Vec::new(), lent_in_place(buffers))
    }

    /// Launches, in place or out of place, on buffers that [`PreparedPlan::buffers`] allocated for this or an equal
    /// prepared plan.
    ///
    /// # Errors
    /// [`Error::ElementType`], [`Error::BufferCount`], [`Error::BufferSize`] if they were allocated for another one;
    /// [`Error::Stalled`] as in [`launch`](Self::launch).
    pub fn launch_buffers(&mut self, buffers: &mut Buffers) -> Result<(), Error> {
        self.launch_buffers_with(buffers, Vec::new())
    }

    /// Launches a plan that normalizes rows as [`launch_buffers`](Self::launch_buffers) does, by [`RowNorm::new`] without further operands.
    ///
    /// # Errors
    /// As [`launch_buffers`](Self::launch_buffers); [`Error::Rows`].
    #[doc(hidden)]
    pub fn launch_buffers_normalized(&mut self, buffers: &mut Buffers, eps: f32) -> Result<(), Error> {
        // No operand has elements of the type.
        let norms = (0..self.world.ranks).map(|_| RowNorm::<f32>::new(eps));
        let norms = self.row_norms(norms)?;
        self.launch_buffers_with(buffers, norms)
    }

    fn launch_buffers_with(&mut self, buffers: &mut Buffers, norms: RowNorms<'_>) -> Result<(), Error> {
        let (expected, found) = (self.params.message.dtype, buffers.dtype);
        if expected != found {
            return Err(Error::ElementType { expected, found });
        }
        let ranks = buffers.num_ranks() as usize;
        let [first, second] = buffers.lens().unwrap_or_default();
        self.check_lens("input", Some(self.lens()[0]), std::iter::repeat_n(first, ranks))?;
        self.check_lens("output", Some(self.lens()[1]), std::iter::repeat_n(second, ranks))?;
        if self.program().is_counted {
            return Err(Error::CountMode { plan: self.program().plan.name().to_owned(), counted: true });
        }
        self.execute(Arc::default(), norms, buffers.slots().map(|slots| slots.map(Loan::Write)))
    }

    /// Records a timeline of the following launches, until [`take_timeline`](Self::take_timeline).
    ///
    /// # Cost
    /// Two readings of the clock for each operation, and a few words of memory. Launches that are not recorded cost one
    /// comparison more.
    #[doc(hidden)]
    pub fn start_timeline(&mut self) {
        self.stamps = Some(self.program().agents.iter().map(|_| Mutex::default()).collect());
    }

    /// Returns the timeline of the launches since [`start_timeline`](Self::start_timeline), and ends it; empty without one.
    #[doc(hidden)]
    pub fn take_timeline(&mut self) -> Timeline {
        let stamps = self.stamps.take();
        let stamps = stamps.iter().flat_map(|stamps| stamps.iter()).flat_map(|stamps| lock(stamps).take());
        Timeline::new(self.program(), stamps)
    }

    fn program(&self) -> &ResolvedPlan {
        &self.context.program
    }

    /// Returns the bytes of the two slots that a rank lends.
    fn lens(&self) -> [usize; 2] {
        self.params.buffers(self.program()).map(|len| len as usize)
    }

    fn check_type<T: Element>(&self) -> Result<(), Error> {
        let (expected, found) = (self.params.message.dtype, T::TYPE);
        if expected == found { Ok(()) } else { Err(Error::ElementType { expected, found }) }
    }

    fn check_place(&self, in_place: bool) -> Result<(), Error> {
        let expected = self.program().shape.collective.in_place;
        if expected == in_place {
            return Ok(());
        }
        Err(Error::BufferModeMismatch { plan: self.program().plan.name().to_owned(), in_place: expected })
    }

    fn check_lens(
        &self,
        buffer: &'static str,
        expected: Option<usize>,
        lens: impl ExactSizeIterator<Item = usize>,
    ) -> Result<(), Error> {
        if lens.len() != self.world.ranks as usize {
            return Err(Error::BufferCount { buffer, expected: self.world.ranks, found: lens.len() });
        }
        for (rank, found) in lens.enumerate() {
            if let Some(expected) = expected.filter(|expected| *expected != found) {
                let (rank, expected, found) = (rank as u32, expected as u64, found as u64);
                return Err(Error::BufferSize { rank, buffer, expected, found });
            }
        }
        Ok(())
    }

    /// Grows the plan's scratch to the size that this message needs. Existing scratch is kept, because other prepared
    /// plans use it too.
    fn grow_scratch(&self) -> Result<(), Error> {
        let [plain, packets] = self.params.scratch;
        if plain == 0 && packets == 0 {
            return Ok(());
        }
        const PURPOSE: &str = "scratch";
        let mut scratch = lock(&self.context.scratch);
        scratch.resize_with(self.world.ranks as usize, Scratch::default);
        let have = |lines: &[Line]| size_of_val(lines) as u64;
        if scratch.iter().all(|rank| have(&rank.plain) >= plain && have(&rank.packets) >= packets) {
            return Ok(());
        }
        check_available((plain + packets).saturating_mul(self.world.ranks.into()), PURPOSE)?;
        for rank in scratch.iter_mut() {
            for (lines, bytes) in [(&mut rank.plain, plain), (&mut rank.packets, packets)] {
                if have(lines) < bytes {
                    // Packets of earlier launches may be dropped, because their flags are not used again.
                    *lines = Vec::new();
                    *lines = zeroed_lines(bytes, PURPOSE)?;
                }
            }
        }
        Ok(())
    }

    /// Lends every rank's two slots, its scratch and the operands of its row norms, and runs the launch.
    fn execute<'a>(
        &self,
        counts: Arc<[CountRow]>,
        norms: RowNorms<'a>,
        ranks: impl Iterator<Item = [Loan<'a>; 2]>,
    ) -> Result<(), Error> {
        let rows = self.program().shape.collective.rows;
        if rows == norms.is_empty() {
            return Err(RowsError::Mode { plan: self.program().plan.name().to_owned(), rows }.into());
        }
        let mut launch_lock = lock(&self.world.launch_lock);
        launch_lock.launches += 1;
        let number = launch_lock.launches;
        // 1, 2, …, and after the largest flag again 1.
        let flag = ((number - 1) % u64::from(u32::MAX)) as u32 + 1;
        if flag == 1 && number > 1 {
            self.world.clear_packets();
        }
        let all =
            (self.params.layout.input.len + self.params.layout.output.len).saturating_mul(self.world.ranks.into());
        let workers = if all < self.world.options.parallel_from {
            1
        } else {
            self.world.workers.min(self.context.agents.len()).max(1)
        };
        if workers > 1 && launch_lock.pool.is_none() {
            launch_lock.pool = Some(Pool::new(self.world.workers - 1)?);
        }
        let job = Job {
            context: Arc::clone(&self.context),
            params: Arc::clone(&self.params),
            table: Arc::clone(&self.world.table),
            number,
            flag,
            workers,
            schedule: self.world.options.schedule,
            counts,
            // Collecting nothing allocates, too.
            rows: match norms.is_empty() {
                true => Arc::default(),
                false => norms.iter().map(|(call, _)| *call).collect(),
            },
            stamps: self.stamps.clone(),
        };
        self.context.begin();
        let mut scratch = lock(&self.context.scratch);
        let mut scratch = scratch.iter_mut();
        self.world.table.lend(
            |lender| {
                for slots in ranks {
                    slots.into_iter().for_each(|slot| lender.push(slot));
                    match scratch.next() {
                        Some(Scratch { plain, packets }) => {
                            lender.push(Loan::Write(bytemuck::cast_slice_mut(plain)));
                            lender.push(Loan::Write(bytemuck::cast_slice_mut(packets)));
                        }
                        None => (0..2).for_each(|_| lender.push(Loan::Read(&[]))),
                    }
                }
                if !norms.is_empty() {
                    (0..SLICES).for_each(|_| lender.push(Loan::Read(&[])));
                    norms.into_iter().flat_map(|(_, operands)| operands).for_each(|operand| lender.push(operand));
                }
            },
            || self.finish(&job, &mut launch_lock),
        )
    }

    /// Runs a launch whose memory is lent, and returns its result.
    fn finish(&self, job: &Job, launch_lock: &mut LaunchLock) -> Result<(), Error> {
        let LaunchLock { worker, pool, .. } = launch_lock;
        let result = match pool {
            Some(pool) if job.workers > 1 => pool.run(job, worker),
            _ => job.work(worker, 0),
        };
        let error = match (result, self.context.progress.outcome()) {
            (Ok(()), Outcome::Finished) if self.program().is_counted => {
                let held = self.world.table.hold();
                let overflow = job.launch_schedule(held.memory(), Plain).launch.count_overflow();
                return overflow.map_or(Ok(()), |overflow| Err(Error::CountOverflow(overflow)));
            }
            (Ok(()), Outcome::Finished) => return Ok(()),
            (Ok(()), Outcome::Stalled) => {
                let held = self.world.table.hold();
                Error::Stalled(Box::new(job.launch_schedule(held.memory(), Plain).stall()))
            }
            (Err(panic), _) => Error::Internal(panic),
            (Ok(()), outcome) => Error::Internal(format!("a launch ended as {outcome:?}")),
        };
        // The next launch starts from reset counters.
        self.context.reset();
        Err(error)
    }
}

impl std::fmt::Debug for PreparedPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PreparedPlan")
            .field("plan", &self.program().plan)
            .field("message", &self.params.message)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use mscclpp_core::lower::lower;
    use mscclpp_core::plan::Plan;

    use crate::cpu::Executor;
    use crate::cpu::executor::lock;
    use crate::verify::Verifier;
    use mscclpp_algorithms as algorithms;
    use mscclpp_base::{DataType, Message};

    #[test]
    fn stale_packets_are_ignored_when_flags_wrap() {
        let algorithm = algorithms::find("allreduce_packets").expect("an algorithm");
        let trace = algorithm.record(algorithm.spec(3, 3), &[]).expect("three ranks");
        let world = Executor::new(3);
        let mut run = world
            .prepare(&Plan::new(&lower(&trace).expect("a plan")), Message::new(DataType::I32, 300).any_size())
            .expect("a run");
        let mut buffers = run.buffers().expect("memory");
        let mut launch = |seed| {
            let verifier = Verifier::new(&run, seed);
            verifier.fill(&mut buffers);
            run.launch_buffers(&mut buffers).expect("it runs");
            assert!(verifier.check(&buffers).is_correct(), "{seed}");
        };
        (0..3).for_each(&mut launch);
        // The flags of these launches reach the largest one and then start again with 1, the flag of stale packets.
        lock(&world.inner.launch_lock).launches = u64::from(u32::MAX) - 2;
        (3..9).for_each(&mut launch);
    }
}
