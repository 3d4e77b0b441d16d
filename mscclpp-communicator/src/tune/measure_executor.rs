//! Measures the duration of a call whose ranks are all in this process, as agents of one launch.

use std::time::Instant;

use super::options::{MeasureOptions, Measurement, median, read_all};
use mscclpp_base::error::Error;
use mscclpp_core::plan::Plan;
use mscclpp_exec::cpu::Executor;
use mscclpp_exec::verify::PeriodicInputs;
use mscclpp_select::Request;

/// Measures a plan for a request on an executor, as [`measure`](super::measure()) does on a communicator: before every
/// call all inputs are rewritten, after it all outputs are read, both untimed and by the calling thread. A call lasts
/// from its start until all ranks have finished, so every rank takes as long as the slowest.
///
/// # Errors
/// Those of [`Executor::prepare`] and of launches.
pub fn measure_executor(
    world: &Executor,
    plan: &Plan,
    request: &Request,
    measuring: MeasureOptions,
) -> Result<Measurement, Error> {
    let mut run = world.prepare(plan, request.message())?;
    let mut buffers = run.buffers()?;
    let (collective, ranks) = (run.collective(), run.num_ranks());
    let cycles: Vec<PeriodicInputs> =
        (0..ranks).map(|rank| PeriodicInputs::new(collective, request.dtype, request.op, ranks, rank)).collect();
    let mut wrong = None;
    let mut times = Vec::new();
    for launch in 0..u64::from(measuring.warmup) + u64::from(measuring.iterations) {
        for (rank, cycle) in (0..).zip(&cycles) {
            cycle.fill(launch, buffers.input_mut(rank));
        }
        let start = Instant::now();
        run.launch_buffers(&mut buffers)?;
        let time = start.elapsed();
        (0..ranks).for_each(|rank| read_all(buffers.output(rank)));
        if measuring.check != 0 && launch.is_multiple_of(measuring.check.into()) {
            let found = (0..).zip(&cycles).map(|(rank, cycle)| cycle.count_wrong(launch, buffers.output(rank)));
            wrong = Some(wrong.unwrap_or(0) + found.sum::<u64>());
        }
        if launch >= measuring.warmup.into() {
            times.push(time.as_nanos().min(u64::MAX.into()) as u64);
        }
    }
    let time = median(times);
    Ok(Measurement { slowest: time, average: time, wrong })
}

#[cfg(test)]
mod tests {
    use mscclpp_core::collective::CollectiveKind;

    use super::*;
    use mscclpp_base::DataType;
    use mscclpp_select::Registry;

    #[test]
    fn results_are_compared_and_correct() {
        let measuring = MeasureOptions::for_bytes(3000).iterations(3).warmup(1).check(1);
        let registry = Registry::builtin();
        for kind in [CollectiveKind::AllReduce, CollectiveKind::AllGather, CollectiveKind::ReduceScatter] {
            for in_place in [false, true] {
                let request = Request { in_place, ..Request::new(kind, 3, DataType::F32, 3000) };
                let plan = registry.plan(&request, &registry.select(&request).expect("an algorithm")).expect("a plan");
                let world = Executor::new(3);
                let measured = measure_executor(&world, &plan, &request, measuring).expect("it runs");
                assert_eq!(measured.wrong, Some(0), "{request}");
            }
        }
    }
}
