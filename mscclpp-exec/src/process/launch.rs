//! A plan bound to a message, and its launches.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Weak};

use mscclpp_core::collective::Collective;
use mscclpp_core::plan::raw::Count;
use mscclpp_core::types::ReduceOp;

use super::buffer::Shared;
use super::calls::BufferArgs;
use super::executor::Inner;
use super::launch_loop::{LaunchEpoch, LaunchLoop, launch};
use super::lender::{Lender, MAX_SHORT_BYTES, Revoke};
use super::plan::PlanState;
use super::plan_memory::PlanMemory;
use super::session::Session;
use crate::verify::{Bound, BoundPlan};
use mscclpp_base::dtype::Element;
use mscclpp_base::error::{Error, RowsError};
use mscclpp_base::interpret::timeline::Unrecorded;
use mscclpp_base::interpret::{
    AgentState, CountRow, Params, ROW_SLICES, RowCall, RowNorm, SLICES, Space, Worker, copy, row_slice,
};
use mscclpp_base::memory::Loan;
use mscclpp_base::message::Message;
use mscclpp_base::passes::place_in_caller_memory::SLOTS;
use mscclpp_base::shm::Views;

/// A plan bound to a message of a size, type and reduction, to be launched any number of times.
///
/// Created by [`Executor::prepare`](super::Executor::prepare). Launches are collective calls: all ranks make the same
/// ones in the same order. A launch returns when this rank has finished and its buffers belong to the caller again.
///
/// The launches of one rank run one after the other:
///
/// ```compile_fail,E0499
/// # fn f(mut x: mscclpp_exec::process::PreparedPlan, mut a: Vec<f32>, mut b: Vec<f32>) {
/// std::thread::scope(|scope| {
///     scope.spawn(|| x.launch_in_place(&mut a));
///     scope.spawn(|| x.launch_in_place(&mut b));
/// });
/// # }
/// ```
///
/// `Send` and `Sync`: any thread may launch, but launches borrow the plan mutably.
pub struct PreparedPlan {
    inner: Arc<Inner>,
    context: Arc<PlanState>,
    params: Params,
    views: Views,
    /// This rank's thread blocks, then its proxy.
    states: Box<[AgentState]>,
    worker: Box<Worker>,
    /// Call id, which peers compare.
    id: u64,
    /// By local rank: the peer's buffers when they were last mapped.
    mapped: Box<[BufferArgs]>,
    /// Keeps the memory of the views from being used otherwise.
    scratch: [Option<Arc<PlanMemory>>; 2],
    /// By slot: the allocation that contained the last slice.
    last: [Weak<Shared>; SLOTS],
    /// By slot: bytes to copy before and after a launch whose slice is not shared.
    copy_in: [Vec<Range<u64>>; SLOTS],
    copy_out: [Vec<Range<u64>>; SLOTS],
}

static_assertions::assert_impl_all!(PreparedPlan: Send, Sync);

impl Bound for PreparedPlan {
    fn bound(&self) -> BoundPlan<'_> {
        BoundPlan { program: &self.context.program, params: &self.params }
    }
}

impl PreparedPlan {
    /// `views`: of `scratch`.
    pub(super) fn new(
        inner: Arc<Inner>,
        context: Arc<PlanState>,
        params: Params,
        (views, scratch): (Views, [Option<Arc<PlanMemory>>; 2]),
        id: u64,
    ) -> Self {
        let program = &context.program;
        let states = context.agents.len() + usize::from(context.proxy.is_some());
        let bytes = |slot: usize, chunks: &[Range<u64>]| {
            let layout = &params.layout;
            // In place, the longer of both buffers contains the other one.
            let output =
                if program.shape.collective.in_place { layout.output.len > layout.input.len } else { slot == 1 };
            let view = if output { layout.output } else { layout.input };
            let mut ranges = Vec::new();
            for chunks in chunks {
                let (mut at, end) = (chunks.start * layout.stride, chunks.end * layout.stride);
                while at < end {
                    let piece = view.piece(at, end - at);
                    if piece.len > 0 {
                        ranges.push(piece.at..piece.at + piece.len);
                    }
                    at += piece.run.max(1);
                }
            }
            ranges
        };
        let by_slot = |chunks: &[Vec<Range<u64>>; SLOTS]| [bytes(0, &chunks[0]), bytes(1, &chunks[1])];
        Self {
            states: vec![AgentState::default(); states].into(),
            worker: Box::default(),
            id,
            scratch,
            last: [Weak::new(), Weak::new()],
            mapped: vec![BufferArgs::default(); context.accesses.iter().max().map_or(0, |local_rank| local_rank + 1)]
                .into(),
            copy_in: by_slot(&context.placement.copy_in),
            copy_out: by_slot(&context.placement.copy_out),
            inner,
            params,
            views,
            context,
        }
    }

    /// Returns the duration of the rank's last call in milliseconds, by the coarse clock.
    #[inline]
    #[doc(hidden)]
    pub fn last_duration(&self) -> u64 {
        self.inner.history.last_duration()
    }

    /// Returns the message.
    pub fn message(&self) -> &Message {
        &self.params.message
    }

    /// Returns the collective that the plan implements.
    pub fn collective(&self) -> Collective {
        self.context.program.shape.collective
    }

    /// Returns the reduction; `None` if the plan does not reduce. For a plan with several reductions, `Sum`.
    pub fn reduction(&self) -> Option<ReduceOp> {
        self.params.reduction
    }

    /// Returns the number of elements of this rank's input.
    pub fn input_len(&self) -> usize {
        self.params.layout.input.len as usize / self.params.message.dtype.size()
    }

    /// Returns the number of elements of this rank's output.
    pub fn output_len(&self) -> usize {
        self.params.layout.output.len as usize / self.params.message.dtype.size()
    }

    /// Launches out of place, and returns when this rank has finished.
    ///
    /// A [`SharedBuffer`](super::SharedBuffer) and most slices of one are used directly. Of other slices, the parts
    /// that peers read are copied before and the parts that they write after. Takes no contended lock, and allocates
    /// only for messages between nodes. Elements of the output that the plan does not write keep their values.
    ///
    /// # Errors
    /// Before the call starts: [`Error::ElementType`], [`Error::BufferModeMismatch`], [`Error::ReadOnlyInput`],
    /// [`Error::BufferSize`], [`Error::Busy`]. [`Error::Bootstrap`] if the communicator has failed, or a peer makes
    /// another call. [`Error::Interrupted`] if a peer is lost, or there is no progress within the timeout;
    /// [`Error::LateData`] if the plan does not wait for what a rank of another node sends; [`Error::DroppedBuffer`].
    /// After these the communicator has failed, and the contents of the output are unspecified.
    #[track_caller]
    pub fn launch<T: Element>(&mut self, input: &[T], output: &mut [T]) -> Result<(), Error> {
        self.check_reads::<T>()?;
        let loans = [Loan::Read(bytemuck::cast_slice(input)), Loan::Write(bytemuck::cast_slice_mut(output))];
        self.execute(["input", "output"], loans, Operands::default())
    }

    /// Launches a plan that normalizes rows: `norm` has the residual and the other operands of this rank; otherwise as
    /// [`launch`](Self::launch). No other rank accesses the operands.
    ///
    /// # Errors
    /// As [`launch`](Self::launch); [`Error::Rows`].
    #[track_caller]
    pub fn launch_rows<T: Element>(
        &mut self,
        input: &[T],
        output: &mut [T],
        norm: RowNorm<'_, T>,
    ) -> Result<(), Error> {
        self.check_reads::<T>()?;
        let norm = self.row_norm(norm)?;
        let loans = [Loan::Read(bytemuck::cast_slice(input)), Loan::Write(bytemuck::cast_slice_mut(output))];
        self.execute(["input", "output"], loans, Operands { counts: None, norm: Some(norm) })
    }

    /// Launches in place as [`launch_rows`](Self::launch_rows) does.
    ///
    /// # Errors
    /// As [`launch_rows`](Self::launch_rows).
    #[track_caller]
    pub fn launch_rows_in_place<T: Element>(&mut self, buffer: &mut [T], norm: RowNorm<'_, T>) -> Result<(), Error> {
        self.check::<T>(true)?;
        let norm = self.row_norm(norm)?;
        let loans = [Loan::Write(bytemuck::cast_slice_mut(buffer)), Loan::Read(&[])];
        self.execute(["buffer", "output"], loans, Operands { counts: None, norm: Some(norm) })
    }

    fn row_norm<'a, T: Element>(&self, norm: RowNorm<'a, T>) -> Result<RowLoans<'a>, Error> {
        let (rank, kind) = (self.context.rank, self.context.program.shape.collective.kind);
        norm.lend(rank, self.params.layout.normalized_rows(kind, rank).0, self.params.message.row)
    }

    /// Launches a plan whose sizes are counts: `counts[r]` elements are what this rank has for rank `r`; otherwise as
    /// [`launch`](Self::launch).
    ///
    /// In an all-to-all-v, the input has the parts for rank 0, 1, … one directly after the other, and the output receives
    /// those from rank 0, 1, …; both may have any length that the counts fit into, another one on every rank. In other
    /// collectives every chunk begins where it does for the largest counts. Elements of the output beyond the counts keep their values.
    ///
    /// # Errors
    /// As [`launch`](Self::launch); [`Error::CountRow`], [`Error::CountMode`]. [`Error::CountOverflow`], the same on all ranks, if
    /// a count is negative or larger than a rank's part of the message, or the counts of a rank do not fit into a
    /// buffer. Then no data was moved, and the communicator remains usable.
    #[track_caller]
    pub fn launch_counted<T: Element, C: Copy + Into<i64>>(
        &mut self,
        input: &[T],
        output: &mut [T],
        counts: &[C],
    ) -> Result<(), Error> {
        self.launch_expecting(input, output, counts, None)
    }

    /// Launches as [`launch_counted`](Self::launch_counted) does. `expected[r]`, where it is stated, are the elements that this rank
    /// expects from rank `r`: another number is a [`CountOverflow`](mscclpp_base::error::CountOverflow) of all ranks.
    ///
    /// # Errors
    /// Those of [`launch_counted`](Self::launch_counted).
    #[doc(hidden)]
    #[track_caller]
    pub fn launch_expecting<T: Element, C: Copy + Into<i64>>(
        &mut self,
        input: &[T],
        output: &mut [T],
        counts: &[C],
        expected: Option<&[C]>,
    ) -> Result<(), Error> {
        self.check_reads::<T>()?;
        let (rank, ranks) = (self.context.rank, self.context.program.shape.ranks);
        let row = |counts: &[C]| match counts.len() {
            found if found != ranks as usize => Err(Error::CountRow { rank, expected: ranks, found }),
            _ => Ok(counts.iter().map(|count| (*count).into()).collect()),
        };
        let room = [input.len() as u64, output.len() as u64];
        let row = CountRow { counts: row(counts)?, expected: expected.map(row).transpose()?, room };
        // More than the largest counts need is not accessed.
        let most = |len: usize, most: usize| if self.context.program.is_packed() { len.min(most) } else { len };
        let (input_len, output_len) = (most(input.len(), self.input_len()), most(output.len(), self.output_len()));
        let loans = [
            Loan::Read(bytemuck::cast_slice(&input[..input_len])),
            Loan::Write(bytemuck::cast_slice_mut(&mut output[..output_len])),
        ];
        self.execute(["input", "output"], loans, Operands { counts: Some(&row), norm: None })
    }

    /// Returns an entry of the table of counts of the plan's last launch, which all ranks have, whether it was accepted or not.
    #[doc(hidden)]
    pub fn count(&self, sender: u32, receiver: u32) -> i64 {
        let program = &self.context.program;
        let is_known = program.is_counted && sender.max(receiver) < program.shape.ranks;
        if is_known { self.context.count(Count { sender, receiver }) } else { 0 }
    }

    fn check_reads<T: Element>(&self) -> Result<(), Error> {
        self.check::<T>(false)?;
        if self.context.program.writes_input {
            return Err(Error::ReadOnlyInput { plan: self.context.program.plan.name().to_owned() });
        }
        Ok(())
    }

    /// Launches out of place a plan that may overwrite its input.
    ///
    /// # Errors
    /// As [`launch`](Self::launch).
    #[track_caller]
    pub fn launch_mut<T: Element>(&mut self, input: &mut [T], output: &mut [T]) -> Result<(), Error> {
        self.check::<T>(false)?;
        let loans = [Loan::Write(bytemuck::cast_slice_mut(input)), Loan::Write(bytemuck::cast_slice_mut(output))];
        self.execute(["input", "output"], loans, Operands::default())
    }

    /// Launches in place: the buffer is input and output. In an all-gather the input is this rank's part of it, in a
    /// reduce-scatter the output is; otherwise as [`launch`](Self::launch).
    ///
    /// # Errors
    /// As [`launch`](Self::launch).
    #[track_caller]
    pub fn launch_in_place<T: Element>(&mut self, buffer: &mut [T]) -> Result<(), Error> {
        self.check::<T>(true)?;
        let loans = [Loan::Write(bytemuck::cast_slice_mut(buffer)), Loan::Read(&[])];
        self.execute(["buffer", "output"], loans, Operands::default())
    }

    /// Launches in place a plan whose operations do not write to this rank's buffer, such as a broadcast on its root.
    ///
    /// # Errors
    /// As [`launch`](Self::launch).
    #[track_caller]
    #[doc(hidden)]
    pub fn launch_source<T: Element>(&mut self, buffer: &[T]) -> Result<(), Error> {
        self.check::<T>(true)?;
        let program = &self.context.program;
        if program.written[self.context.rank as usize] {
            return Err(Error::ReadOnlyInput { plan: program.plan.name().to_owned() });
        }
        let loans = [Loan::Read(bytemuck::cast_slice(buffer)), Loan::Read(&[])];
        self.execute(["buffer", "output"], loans, Operands::default())
    }

    /// Returns whether a launch that follows `calls` others would wait for no other rank, if its slices are not registered: this rank
    /// has nothing to do, and others read a copy.
    #[doc(hidden)]
    pub fn is_immediate(&self, calls: u64) -> bool {
        let is_short = self.params.buffers(&self.context.program).iter().all(|len| *len <= MAX_SHORT_BYTES);
        let PlanState { program, agents, proxy, is_read_only, .. } = &*self.context;
        let is_passive = proxy.is_none() && program.agents[agents.clone()].iter().all(|code| code.start == code.end);
        let is_ready = |session: &Session| session.ring.is_some() && session.is_near(calls + 1);
        is_short && is_passive && *is_read_only && self.inner.peek(is_ready).unwrap_or(false)
    }

    fn check<T: Element>(&self, in_place: bool) -> Result<(), Error> {
        let (expected, found) = (self.params.message.dtype, T::TYPE);
        if expected != found {
            return Err(Error::ElementType { expected, found });
        }
        let program = &self.context.program;
        if program.shape.collective.in_place != in_place {
            return Err(Error::BufferModeMismatch { plan: program.plan.name().to_owned(), in_place: !in_place });
        }
        Ok(())
    }

    #[track_caller]
    fn execute(
        &mut self,
        names: [&'static str; SLOTS],
        loans: [Loan<'_>; SLOTS],
        Operands { counts, norm }: Operands<'_>,
    ) -> Result<(), Error> {
        let Self {
            inner, context, params, views, states, worker, id, mapped, scratch, last, copy_in, copy_out, ..
        } = self;
        let mut session = inner.session()?;
        let session = &mut *session;
        let lens = params.buffers(&context.program);
        let program = &context.program;
        if program.is_counted != counts.is_some() {
            return Err(Error::CountMode { plan: program.plan.name().to_owned(), counted: program.is_counted });
        }
        let rows = program.shape.collective.rows;
        if rows != norm.is_some() {
            return Err(RowsError::Mode { plan: program.plan.name().to_owned(), rows }.into());
        }
        // The buffers of packed chunks are as long as the caller has them.
        let own_lens = loans.each_ref().map(|loan| loan.bytes().len() as u64);
        for (slot, (expected, found)) in lens.into_iter().zip(own_lens).enumerate() {
            if expected != found && !program.is_packed() {
                return Err(Error::BufferSize { rank: session.rank(), buffer: names[slot], expected, found });
            }
        }
        let flag = session.next_flag()?;
        let (plan_launch, wait_for_starts) = context.next_epoch(*id);
        let call = norm.as_ref().map(|(call, _)| *call);
        let epoch = LaunchEpoch { flag, plan_launch, wait_for_starts, counts, rows: call.as_ref() };
        let number = session.enter()?;
        let lender = Lender::new(session, context, last, &loans, number)?;
        if session.connections.uses_regions() {
            let buffers = (0..SLOTS).filter(|&slot| lender.regions[slot].is_some());
            let buffers = buffers.map(|slot| (Weak::clone(&last[slot]), loans[slot].bytes().as_ptr_range()));
            session.connections.set_memory(buffers, scratch.iter().chain(&session.staging).flatten());
        }
        // Needed only by a launch that fails.
        let written = loans.each_ref().map(Loan::is_written);
        let own = (session.rank() * SLICES) as usize;
        let private = (context.program.shape.ranks * SLICES) as usize;
        let mut slot = 0;
        let loans = loans.map(|loan| {
            let shared = (!lender.copies[slot]).then_some(own + slot);
            slot += 1;
            (loan, private + slot - 1, shared)
        });
        let copies = |views: &mut Views, ranges: &[Vec<Range<u64>>; SLOTS], inwards: bool| {
            for (slot, ranges) in ranges.iter().enumerate() {
                if lender.copies[slot] {
                    let (from, to) = (views.memory().slice(private + slot), views.memory().slice(own + slot));
                    let (from, to) = if inwards { (from, to) } else { (to, from) };
                    for range in ranges {
                        let len = range.end - range.start;
                        copy(from.range(range.start, len), to.range(range.start, len), len);
                    }
                }
            }
        };
        let run = |views: &mut Views| {
            views.lend(loans, |views| {
                for slot in (0..SLOTS).filter(|&slot| lender.copies[slot]) {
                    let (region, at) = lender.buffer_args.0[slot];
                    if let Some((memory, _)) = session.copies_in(region, number, slot) {
                        memory.set_view(views, own + slot, session.own_local_rank, at..at + own_lens[slot]);
                    }
                }
                if let Some(row) = counts.filter(|_| program.is_packed()) {
                    // Of the output nothing is read, and what is written of it is copied later.
                    let input = row.parts(&context.placement.copy_in[0], params.message.dtype.size() as u64);
                    copies(views, &[input, Vec::new()], true);
                } else {
                    copies(views, copy_in, true);
                }
                session.announce(number, *id, &lender.buffer_args);
                // Peers may wait for the start alone, and this rank may have nothing to do that wakes them.
                session.calls.unpark_peers(false);
                // From here on peers can access the buffers.
                let revoke = Revoke { last, regions: &lender.regions, written, lens: own_lens };
                let (id, lasting) = (*id, lender.lasting);
                let has_sent = context.sends_to.is_empty();
                let mut launch_loop = LaunchLoop {
                    session,
                    context,
                    params,
                    views,
                    states,
                    worker,
                    mapped,
                    number,
                    id,
                    epoch,
                    lens,
                    lasting,
                    has_sent,
                };
                match launch_loop.session.timeline.take() {
                    None => launch_loop.run(&mut Unrecorded)?,
                    Some(mut timeline) => {
                        let result = launch_loop.run(&mut timeline.stamps);
                        timeline.append(&context.program);
                        launch_loop.session.timeline = Some(timeline);
                        result?;
                    }
                }
                std::mem::forget(revoke);
                if counts.is_some() {
                    let launch = launch(context, params, launch_loop.views, number, epoch, false);
                    if !launch.has_accepted_counts(context.rank)
                        && let Some(overflow) = launch.count_overflow()
                    {
                        return Err(Error::CountOverflow(overflow));
                    }
                    if program.is_packed() {
                        let packed = |(slot, chunks): (usize, &Vec<Range<u64>>)| {
                            let space = [Space::Input, Space::Output][slot];
                            let chunk = |chunk| launch.packed_chunk(context.rank, context.rank, space, chunk as u32);
                            let chunks = chunks.iter().cloned().flatten().map(chunk);
                            chunks.map(|(at, len)| at..at + len).collect::<Vec<_>>()
                        };
                        let written = [0, 1].map(|slot| packed((slot, &context.placement.copy_out[slot])));
                        copies(launch_loop.views, &written, false);
                        return Ok(());
                    }
                }
                copies(launch_loop.views, copy_out, false);
                launch_loop.divide();
                Ok(())
            })
        };
        match norm {
            None => run(views),
            Some((_, operands)) => {
                let mut number = row_slice(program, 0);
                let operands = operands.map(|operand| {
                    number += 1;
                    (operand, number - 1, None)
                });
                views.lend(operands, run)
            }
        }
    }
}

/// What a launch has besides buffers.
#[derive(Default)]
struct Operands<'a> {
    counts: Option<&'a CountRow>,
    norm: Option<RowLoans<'a>>,
}

/// The row norm of this rank with its operands.
type RowLoans<'a> = (RowCall, [Loan<'a>; ROW_SLICES]);

impl fmt::Debug for PreparedPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedPlan")
            .field("plan", &self.context.program.plan)
            .field("message", &self.params.message)
            .finish_non_exhaustive()
    }
}
