//! Measures every candidate on the devices of one process.

use std::collections::BTreeSet;

use super::tuner::{ABANDON_FACTOR, Tuner};
use super::{CandidateTime, MachineInfo, TuningEntry, TuningTable};
use mscclpp_base::error::Error;
use mscclpp_exec::cuda::{Buffers, Executor, PreparedPlan, Properties, Stream, time};
use mscclpp_exec::verify::PeriodicInputs;
use mscclpp_select::{Backend, Choice, Registry, Request};

/// Launches of the first measurement of a candidate, as many as a graph has.
const FIRST_LAUNCHES: u32 = 10;

impl Tuner {
    /// Measures all candidates on the devices of an executor whose ranks are all in this process, and returns a table of the
    /// fastest. Launches are timed in graphs, by the devices' clocks. `report` is called after every entry, with the table so far.
    ///
    /// Candidates that cannot be prepared for a size are skipped, and so are those with wrong results, with a warning. On devices
    /// an entry applies to calls on any memory, whatever [`registered`](Self::registered) says.
    ///
    /// # Errors
    /// [`Error::NotLocalRank`] if ranks are in other processes; those of launches.
    pub fn run_on_devices(
        &self,
        executor: &Executor,
        registry: &Registry,
        mut report: impl FnMut(&TuningTable),
    ) -> Result<TuningTable, Error> {
        executor.check_local()?;
        let ranks = executor.num_ranks();
        let devices = executor.devices();
        let multicast = devices.len() > 1 && devices.iter().all(|device| device.properties().multicast);
        let of = |collective, bytes| Request {
            backend: Backend::Cuda,
            registered: true,
            multicast,
            max_blocks: executor.max_blocks(),
            ..Request::new(collective, ranks, self.dtype, bytes)
        };
        let mut table = TuningTable::new(machine(executor));
        for request in self.requests(of) {
            if let Some(entry) = self.tune_on_devices(executor, registry, &request)? {
                table.entries.push(entry);
                report(&table);
            }
        }
        Ok(table)
    }

    /// Returns the fastest candidate for a request; `None` if none works.
    fn tune_on_devices(
        &self,
        executor: &Executor,
        registry: &Registry,
        request: &Request,
    ) -> Result<Option<TuningEntry>, Error> {
        let measured = self.measured(request);
        let mut timed: Vec<CandidateTime> = Vec::new();
        for choice in self.candidates(registry, &measured) {
            let best = timed.iter().map(|one| one.time_us).fold(f64::INFINITY, f64::min);
            if let Some(time_us) = self.time_on_devices(executor, registry, &measured, &choice, best)? {
                let Choice { name, config } = choice;
                timed.push(CandidateTime { algorithm: name, blocks: config.blocks, threads: config.threads, time_us });
            }
        }
        timed.sort_by(|a, b| a.time_us.total_cmp(&b.time_us));
        let mut timed = timed.into_iter();
        Ok(timed.next().map(|fastest| TuningEntry::new(request, fastest, timed.collect())))
    }

    /// Returns the microseconds of a candidate; `None` if it does not work for the request.
    fn time_on_devices(
        &self,
        executor: &Executor,
        registry: &Registry,
        request: &Request,
        choice: &Choice,
        best: f64,
    ) -> Result<Option<f64>, Error> {
        let Ok(decision) = registry.decision(request, choice) else { return Ok(None) };
        let Ok(plan) = registry.plan(request, &decision) else { return Ok(None) };
        let mut run = match executor.prepare_with_options(&plan, request.message(), request.prepare_options()) {
            Ok(run) => run,
            Err(Error::NotCoResident { .. } | Error::ScratchLimit { .. } | Error::MessageSize { .. }) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let (mut buffers, stream) = (run.buffers()?, executor.stream()?);
        let wrong = check_launch(&mut run, &mut buffers, &stream, request)?;
        if wrong > 0 {
            log::warn!("`{}` with {} returns wrong results for {request}", choice.name, choice.config);
            return Ok(None);
        }
        let mut measure = |launches| -> Result<f64, Error> {
            let times = time(&mut run, &mut buffers, &stream, launches)?;
            Ok((times.graph.as_secs_f64() * 1e9).round() / 1e3)
        };
        let is_short = self.iterations.is_some_and(|launches| launches <= FIRST_LAUNCHES);
        let first = measure(Some(FIRST_LAUNCHES))?;
        if is_short || first > ABANDON_FACTOR * best { Ok(Some(first)) } else { measure(self.iterations).map(Some) }
    }
}

/// Launches a plan once on known inputs, and returns the number of wrong elements in all outputs. A call of all ranks, if some of them are in
/// other processes.
///
/// # Errors
/// Those of the launch, and those of a call of all ranks.
pub fn check_launch(
    run: &mut PreparedPlan,
    buffers: &mut Buffers,
    stream: &Stream,
    request: &Request,
) -> Result<u64, Error> {
    let collective = run.collective();
    let cycle = |rank| PeriodicInputs::new(collective, request.dtype, request.op, request.num_ranks, rank);
    let room = |bytes: u64| vec![0; bytes as usize];
    let executor = run.executor();
    let local: Vec<u32> = (0..request.num_ranks).filter(|&rank| buffers.is_local(rank)).collect();
    for &rank in &local {
        let mut input = room(buffers.input(rank).bytes);
        cycle(rank).fill(0, &mut input);
        buffers.write_input(rank, &input)?;
    }
    run.launch_buffers(buffers, stream)?;
    run.synchronize(stream)?;
    let mut wrong = 0;
    for &rank in &local {
        let mut output = room(buffers.output(rank).bytes);
        buffers.read_output(rank, &mut output)?;
        wrong += cycle(rank).count_wrong(0, &output);
    }
    match executor.is_local() {
        true => Ok(wrong),
        false => Ok(executor.gather("wrong elements of a launch", &wrong)?.into_iter().fold(0, u64::saturating_add)),
    }
}

/// Returns the machine with the devices of an executor.
fn machine(executor: &Executor) -> MachineInfo {
    let properties = || executor.devices().iter().map(|device| device.properties());
    let names: BTreeSet<&str> = properties().map(|device| &*device.name).collect();
    let names = names.into_iter().collect::<Vec<_>>().join(", ");
    let version = |device: &Properties| format!("CUDA {}.{}", device.driver / 1000, device.driver % 1000 / 10);
    MachineInfo {
        devices: Some(format!("{} × {names}", executor.devices().len())),
        driver: properties().next().map(version),
        ..MachineInfo::current()
    }
}
