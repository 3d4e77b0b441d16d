//! Measures the duration of a call.
//!
//! The measurement includes what callers experience: before every call a rank rewrites its input, after it it reads its
//! output, both untimed. All ranks synchronize, then each times its own call; for every call the slowest rank counts.

use std::ops::{Deref, DerefMut};
use std::time::Instant;

use mscclpp_core::collective::{Collective, CollectiveKind};

use super::options::{MeasureOptions, Measurement, median, read_all};
use crate::communicator::Communicator;
use crate::dtype::{DataType, Element};
use crate::error::Error;
use crate::process::SharedBuffer;
use crate::select::Request;
use crate::verify::PeriodicInputs;

/// Measures a request, whose ranks and nodes are the communicator's. A collective call of all ranks.
///
/// # Errors
/// Those of the call itself.
pub fn measure(comm: &Communicator, request: &Request, measuring: MeasureOptions) -> Result<Measurement, Error> {
    macro_rules! typed {
        ($($name:ident: $type:ty),*) => { match request.dtype { $(DataType::$name => run::<$type>(comm, request, measuring),)* } };
    }
    typed!(
        I8: i8, U8: u8, I32: i32, U32: u32, I64: i64, U64: u64, F16: half::f16, BF16: half::bf16, F32: f32, F64: f64,
        F8E4M3: crate::dtype::E4m3, F8E5M2: crate::dtype::E5m2, F8E4M3B15: crate::dtype::E4m3B15
    )
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

fn run<T: Element>(comm: &Communicator, request: &Request, measuring: MeasureOptions) -> Result<Measurement, Error> {
    let (rank, ranks) = (comm.rank(), comm.num_ranks());
    let count = (request.bytes / size_of::<T>() as u64) as usize;
    let part = count / ranks as usize;
    let (input_len, output_len) = match request.collective {
        CollectiveKind::AllGather => (part, count),
        CollectiveKind::ReduceScatter => (count, part),
        _ => (count, count),
    };
    let own = rank as usize * part..(rank as usize + 1) * part;
    let collective = Collective { root: request.root, ..Collective::new(request.collective) };
    let cycle = PeriodicInputs::new(collective, T::TYPE, request.op, ranks, rank);

    let mut input = CallBuffer::<T>::new(comm, request.registered, if request.in_place { count } else { input_len })?;
    let mut output = CallBuffer::<T>::new(comm, request.registered, if request.in_place { 0 } else { output_len })?;
    let mut wrong = None;
    let mut times = Vec::new();
    for launch in 0..u64::from(measuring.warmup) + u64::from(measuring.iterations) {
        let fresh = match (request.in_place, request.collective) {
            (true, CollectiveKind::AllGather) => &mut input[own.clone()],
            _ => &mut input[..],
        };
        cycle.fill(launch, bytemuck::cast_slice_mut(fresh));
        comm.barrier()?;
        let start = Instant::now();
        if request.in_place {
            comm.serve_in_place(*request, &mut input)?;
        } else {
            comm.serve_separate(*request, &input, &mut output)?;
        }
        let time = start.elapsed();
        let result: &[u8] = bytemuck::cast_slice(match (request.in_place, request.collective) {
            (true, CollectiveKind::ReduceScatter) => &input[own.clone()],
            (true, _) => &input[..],
            (false, _) => &output[..],
        });
        read_all(result);
        if measuring.check != 0 && launch.is_multiple_of(measuring.check.into()) {
            wrong = Some(wrong.unwrap_or(0) + cycle.count_wrong(launch, result));
        }
        if launch >= measuring.warmup.into() {
            times.push(time.as_nanos().min(u64::MAX.into()) as u64);
        }
    }
    join(comm, &times, wrong)
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
