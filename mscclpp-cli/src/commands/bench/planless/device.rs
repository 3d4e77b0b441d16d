//! Calls on device memory.

use std::cell::RefCell;
use std::time::Duration;

use mscclpp_communicator::Communicator;
use mscclpp_communicator::tune::MeasureOptions;
use mscclpp_exec::cuda::{Device, DeviceVec, LaunchTimes, Stream, time_launches};
use mscclpp_exec::{Element, with_type};

use super::super::device::{check_options, numbers_of_ranks, refuse_ranks_of_one_process};
use super::super::device_report::MeasuredOnDevices;
use super::shape::{PlanlessCall, Shape};
use super::{measured, shapes};
use crate::args::BenchArgs;
use crate::error::Result;
use crate::job::{launched, on_ranks, require_memory};
use crate::output::print;

/// Maximum number of launches of a round, without `--iters`.
const MOST_LAUNCHES: u32 = 100;

/// Measures all sizes on each number of ranks; returns the number of wrong elements.
///
/// # Errors
/// Those of [`super::bench`]; [`Error::Call`](crate::error::Error::Call) if there are too few devices.
pub(super) fn bench(args: &BenchArgs, call: PlanlessCall, sizes: &[u64]) -> Result<u64> {
    check_options(args)?;
    if let Some(comm) = launched()? {
        refuse_ranks_of_one_process(args, &comm)?;
        let device = comm.device()?;
        let wrong = on_rank(&comm, &device, comm.num_ranks(), (args, call, sizes))?;
        // Rank 0 forwards the others' messages, so no rank exits before the barrier.
        comm.bootstrap().barrier().map_err(mscclpp_exec::Error::from)?;
        return Ok(wrong);
    }
    let mut wrong = 0_u64;
    for ranks in numbers_of_ranks(args) {
        let gpus = args.gpus.unwrap_or(1);
        let devices = (0..gpus)
            .map(Device::new)
            .collect::<std::result::Result<Vec<_>, _>>()
            .map_err(mscclpp_exec::Error::from)?;
        wrong = wrong.saturating_add(on_ranks(Some(ranks), |comm| {
            let device = &devices[(u64::from(comm.rank()) * u64::from(gpus) / u64::from(ranks)) as usize];
            on_rank(comm, device, gpus, (args, call, sizes))
        })?);
    }
    Ok(wrong)
}

/// Measures all sizes on one rank.
fn on_rank(
    comm: &Communicator,
    device: &Device,
    num_devices: u32,
    (args, call, sizes): (&BenchArgs, PlanlessCall, &[u64]),
) -> Result<u64> {
    let shapes = shapes(args, call, sizes, comm.rank(), comm.num_ranks())?;
    let largest = shapes.last().map_or(0, Shape::bytes);
    require_memory(comm, || format!("a check of {largest} bytes"), largest.saturating_mul(2))?;
    let talks = comm.rank() == 0;
    let shown = |shape: &Shape| MeasuredOnDevices {
        call: measured(shape, false),
        device: Some(&device.properties().name),
        num_devices: num_devices as usize,
        specialized: false,
        blocks: None,
    };
    if let Some(shape) = shapes.first().filter(|_| talks && !args.json) {
        let ranks =
            format!("{} ranks on {num_devices} devices, that of rank 0: {}", comm.num_ranks(), device.properties());
        print(shown(shape).header(&ranks))?;
    }
    let mut all_wrong = 0_u64;
    for shape in &shapes {
        let (times, wrong) = with_type!(shape.dtype, T => of_size::<T>(comm, device, shape, args))?;
        all_wrong = all_wrong.saturating_add(wrong.unwrap_or(0));
        if talks {
            print(if args.json { shown(shape).line(&times, wrong) } else { shown(shape).row(&times, wrong) })?;
        }
    }
    Ok(all_wrong)
}

/// Measures one size; returns the times of the slowest rank and the wrong elements of all ranks.
fn of_size<T: Element>(
    comm: &Communicator,
    device: &Device,
    shape: &Shape,
    args: &BenchArgs,
) -> Result<(LaunchTimes, Option<u64>)> {
    let (sent, received) = (shape.sent_to(), shape.received_from());
    let mut host = vec![T::zeroed(); sent.iter().sum()];
    let stream = &device.stream()?;
    let mut input = DeviceVec::from_slice(device, &host)?;
    let output = RefCell::new(DeviceVec::<T>::new(device, received.iter().sum())?);
    let mut wrong = None;
    let mut check = |nth: u64, input: &mut DeviceVec<T>| -> Result<()> {
        if args.check != 0 {
            shape.fill(nth, bytemuck::cast_slice_mut(&mut host));
            input.write(&host)?;
            make(comm, stream, shape, (input, &sent), (&mut output.borrow_mut(), &received))?;
            comm.on(stream).synchronize()?;
            let found = output.borrow().to_vec()?;
            *wrong.get_or_insert(0) += shape.count_wrong(nth, bytemuck::cast_slice(&found));
        }
        Ok(())
    };
    check(0, &mut input)?;
    let launches = args.iters.unwrap_or_else(|| MeasureOptions::for_bytes(shape.bytes()).iterations.min(MOST_LAUNCHES));
    let launch = |stream: &Stream| make(comm, stream, shape, (&input, &sent), (&mut output.borrow_mut(), &received));
    let times = time_launches(stream, Some(launches), launch, |stream| comm.on(stream).synchronize())?;
    check(1, &mut input)?;

    let own = [times.graph, times.eager, times.host].map(|time| time.as_nanos() as u64);
    let own = [own[0], own[1], own[2], wrong.unwrap_or(0)];
    let of_all = comm.bootstrap().all_gather(bytemuck::cast_slice(&own)).map_err(mscclpp_exec::Error::from)?;
    let of_all: Vec<Vec<u64>> = of_all.iter().map(|bytes| bytemuck::pod_collect_to_vec(bytes)).collect();
    let column = |at: usize| of_all.iter().map(move |of_rank| of_rank.get(at).copied().unwrap_or(0));
    let [graph, eager, host] = [0, 1, 2].map(|at| Duration::from_nanos(column(at).max().unwrap_or(0)));
    Ok((LaunchTimes { graph, eager, host }, wrong.map(|_| column(3).sum())))
}

/// Enqueues the call.
fn make<T: Element>(
    comm: &Communicator,
    stream: &Stream,
    shape: &Shape,
    (input, sent): (&DeviceVec<T>, &[usize]),
    (output, received): (&mut DeviceVec<T>, &[usize]),
) -> std::result::Result<(), mscclpp_exec::Error> {
    let on = comm.on(stream);
    match shape.call {
        PlanlessCall::Gather => on.gather(input, output, shape.root),
        PlanlessCall::Scatter => on.scatter(input, output, shape.root),
        PlanlessCall::AllToAllV => on.all_to_all_v(input, sent, output, received),
        PlanlessCall::Barrier => on.barrier(),
    }
}
