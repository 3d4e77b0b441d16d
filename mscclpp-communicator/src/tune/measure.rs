//! Measures the duration of a call.
//!
//! The measurement includes what callers experience: before every call a rank rewrites its input, after it it reads its
//! output, both untimed. All ranks synchronize, then each times its own call; for every call the slowest rank counts.

use std::ops::{Deref, DerefMut, Range};
use std::time::Instant;

use mscclpp_core::collective::{Collective, CollectiveKind};
use mscclpp_core::types::ReduceOp;

use super::options::{MIN_TIMED_CALLS, MeasureOptions, Measurement, median, read_all};
use crate::communicator::Communicator;
use mscclpp_base::dtype::{DataType, Element};
use mscclpp_base::error::Error;
use mscclpp_base::with_type;
use mscclpp_exec::process::SharedBuffer;
use mscclpp_exec::verify::PeriodicInputs;
use mscclpp_select::Request;

/// Measures a request, whose ranks and nodes are the communicator's. A collective call of all ranks.
///
/// # Errors
/// Those of the call itself.
pub fn measure(comm: &Communicator, request: &Request, measuring: MeasureOptions) -> Result<Measurement, Error> {
    with_type!(request.dtype, T => measure_call(comm, &mut RequestedCall::<T>::new(comm, *request)?, measuring))
}

/// Elements, registered or not.
enum CallBuffer<T: Element> {
    Private(Vec<T>),
    Registered(SharedBuffer<T>),
}

impl<T: Element> CallBuffer<T> {
    fn new(comm: &Communicator, registered: bool, len: usize) -> Result<Self, Error> {
        Ok(if registered { Self::Registered(comm.alloc(len)?) } else { Self::Private(vec![T::zeroed(); len]) })
    }
}

impl<T: Element> Deref for CallBuffer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            Self::Private(elements) => elements,
            Self::Registered(elements) => elements,
        }
    }
}

impl<T: Element> DerefMut for CallBuffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match self {
            Self::Private(elements) => elements,
            Self::Registered(elements) => elements,
        }
    }
}

/// A call with its buffers, of [`measure_call`].
pub trait MeasuredCall {
    /// Writes the input of the call with this number.
    fn fill(&mut self, nth: u64);

    /// Makes the call. It alone is timed.
    ///
    /// # Errors
    /// Those of the call.
    fn make(&mut self) -> Result<(), Error>;

    /// Returns the result of the last call.
    fn result(&self) -> &[u8];

    /// Returns the number of wrong elements in the result of the call with this number, which was the last one.
    fn count_wrong(&self, nth: u64) -> u64;
}

/// Measures a call as [`measure`] does, for calls that are no requests. A collective call of all ranks.
///
/// # Errors
/// Those of the call itself.
pub fn measure_call(
    comm: &Communicator,
    call: &mut impl MeasuredCall,
    measuring: MeasureOptions,
) -> Result<Measurement, Error> {
    let spans_nodes = comm.request_of(CollectiveKind::AllReduce, DataType::U8, 1).num_nodes() != 1;
    let mut wrong = None;
    let mut times = Vec::new();
    let started = Instant::now();
    for nth in 0..u64::from(measuring.warmup) + u64::from(measuring.iterations) {
        call.fill(nth);
        if spans_nodes {
            // A barrier of several nodes goes through the control plane, which ranks leave at times that differ by more than a small
            // call takes. No rank completes an all-reduce before all have begun it; after the second they are closer together.
            comm.all_reduce_in_place(&mut [0_u8], ReduceOp::Max)?;
            // All ranks stop at the same call.
            let is_late = times.len() >= MIN_TIMED_CALLS as usize && started.elapsed() > measuring.max_time;
            let mut is_any_late = [u8::from(is_late)];
            comm.all_reduce_in_place(&mut is_any_late, ReduceOp::Max)?;
            if is_any_late != [0] {
                break;
            }
        } else {
            comm.barrier()?;
        }
        let start = Instant::now();
        call.make()?;
        let time = start.elapsed();
        read_all(call.result());
        if measuring.check != 0 && nth.is_multiple_of(measuring.check.into()) {
            wrong = Some(wrong.unwrap_or(0) + call.count_wrong(nth));
        }
        if nth >= measuring.warmup.into() {
            times.push(time.as_nanos().min(u64::MAX.into()) as u64);
        }
    }
    join(comm, &times, wrong)
}

/// A request with its buffers.
struct RequestedCall<'a, T: Element> {
    comm: &'a Communicator,
    request: Request,
    cycle: PeriodicInputs,
    input: CallBuffer<T>,
    output: CallBuffer<T>,
    /// The rank's part of a buffer with a part for each rank.
    own: Range<usize>,
}

impl<'a, T: Element> RequestedCall<'a, T> {
    fn new(comm: &'a Communicator, request: Request) -> Result<Self, Error> {
        let (rank, ranks) = (comm.rank(), comm.num_ranks());
        let count = (request.bytes / size_of::<T>() as u64) as usize;
        let part = count / ranks as usize;
        let (input_len, output_len) = match (request.in_place, request.collective) {
            (true, _) => (count, 0),
            (false, CollectiveKind::AllGather) => (part, count),
            (false, CollectiveKind::ReduceScatter) => (count, part),
            (false, _) => (count, count),
        };
        let collective = Collective { root: request.root, ..Collective::new(request.collective) };
        Ok(Self {
            comm,
            request,
            cycle: PeriodicInputs::new(collective, T::TYPE, request.op, ranks, rank),
            input: CallBuffer::new(comm, request.registered, input_len)?,
            output: CallBuffer::new(comm, request.registered, output_len)?,
            own: rank as usize * part..(rank as usize + 1) * part,
        })
    }
}

impl<T: Element> MeasuredCall for RequestedCall<'_, T> {
    fn fill(&mut self, nth: u64) {
        let fresh = match (self.request.in_place, self.request.collective) {
            (true, CollectiveKind::AllGather) => &mut self.input[self.own.clone()],
            _ => &mut self.input[..],
        };
        self.cycle.fill(nth, bytemuck::cast_slice_mut(fresh));
    }

    fn make(&mut self) -> Result<(), Error> {
        match self.request.in_place {
            true => self.comm.serve_in_place(self.request, &mut self.input),
            false => self.comm.serve_separate(self.request, &self.input, &mut self.output),
        }
    }

    fn result(&self) -> &[u8] {
        bytemuck::cast_slice(match (self.request.in_place, self.request.collective) {
            (true, CollectiveKind::ReduceScatter) => &self.input[self.own.clone()],
            (true, _) => &self.input[..],
            (false, _) => &self.output[..],
        })
    }

    fn count_wrong(&self, nth: u64) -> u64 {
        self.cycle.count_wrong(nth, self.result())
    }
}

/// Combines the results of all ranks.
fn join(comm: &Communicator, times: &[u64], wrong: Option<u64>) -> Result<Measurement, Error> {
    let mut mine: Vec<u64> = vec![wrong.unwrap_or(0)];
    mine.extend(times);
    let all = comm.bootstrap().all_gather(bytemuck::cast_slice(&mine))?;
    let all: Vec<Vec<u64>> = all.iter().map(|bytes| bytemuck::pod_collect_to_vec(bytes)).collect();
    let column = |index: usize| all.iter().map(move |of_rank| of_rank.get(index).copied().unwrap_or(0));
    let slowest = (1..=times.len()).map(|index| column(index).max().unwrap_or(0)).collect();
    let average = (1..=times.len()).map(|index| column(index).sum::<u64>() / all.len().max(1) as u64).collect();
    Ok(Measurement { slowest: median(slowest), average: median(average), wrong: wrong.map(|_| column(0).sum()) })
}
