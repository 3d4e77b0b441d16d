//! Measures calls on devices: launches in a graph, timed by events.

use mscclpp_communicator::Communicator;
use mscclpp_communicator::tune::check_launch;
use mscclpp_exec::cuda::{Executor, Options, PreparedPlan, time};
use mscclpp_select::{Backend, Choice, Config, Decision, Registry, Request};

use super::super::devices::{JobDevices, describe, ranks_on_devices};
use super::call::Call;
use super::device_report::MeasuredOnDevices;
use super::report::Measured;
use crate::args::BenchArgs;
use crate::error::{Error, Result};
use crate::job::{launched, require_memory};
use crate::memory;
use crate::output::print;

/// Ranks on devices, of which this process reports.
struct Ranks<'a> {
    executor: &'a Executor,
    num_devices: usize,
    /// The job, if ranks are in other processes.
    comm: Option<&'a Communicator>,
}

/// Measures all sizes and numbers of ranks on `gpus` devices, or with the ranks of the job that a launcher has started; returns the number of
/// wrong elements.
///
/// # Errors
/// Those of [`super::bench`]; [`Error::Call`] if there are too few devices, or if the requested call does not fit on it.
pub(super) fn bench(args: &Call, gpus: Option<u32>, sizes: &[u64]) -> Result<u64> {
    check_options(args)?;
    let mut registry = Registry::from_env().map_err(mscclpp_exec::Error::from)?;
    args.register(&mut registry)?;
    if let Some(comm) = launched()? {
        let wrong = of_job(args, &comm, &registry, sizes)?;
        // Rank 0 forwards the others' messages, so no rank exits before the barrier.
        comm.bootstrap().barrier().map_err(mscclpp_exec::Error::from)?;
        return Ok(wrong);
    }
    let mut wrong = 0_u64;
    for ranks in numbers_of_ranks(args) {
        let executor = ranks_on_devices(ranks, gpus.unwrap_or(1), Options::default()).map_err(failed)?;
        let multicast = executor.devices().len() > 1 && executor.devices().iter().all(|of| of.properties().multicast);
        let of = |bytes| Request {
            backend: Backend::Cuda,
            multicast,
            max_blocks: executor.max_blocks(),
            ranks_per_node: args.ranks_per_node(ranks),
            ..Request::new(args.collective, ranks, args.rooted.call.dtype, bytes)
        };
        let ranks = Ranks { executor: &executor, num_devices: executor.devices().len(), comm: None };
        wrong = wrong.saturating_add(all_sizes(args, &ranks, &registry, of, sizes)?);
    }
    Ok(wrong)
}

/// Refuses options of calls on the CPU.
pub(super) fn check_options(args: &BenchArgs) -> Result<()> {
    let refused = [
        (
            args.ranks.is_some(),
            "--ranks",
            "use --virtual-ranks or --gpus, or start a process for each device with `mscclpp launch`",
        ),
        (args.unregistered, "--unregistered", "launches are measured on memory of the executor"),
        (args.warmup.is_some(), "--warmup", "each graph is launched before it is timed"),
    ];
    match refused.into_iter().find(|(is_given, ..)| *is_given) {
        Some((_, option, reason)) => Err(Error::Usage(format!("--backend cuda does not support {option}: {reason}"))),
        None => Ok(()),
    }
}

/// Returns the numbers of ranks to measure in this process.
pub(super) fn numbers_of_ranks(args: &BenchArgs) -> Vec<u32> {
    match (&args.virtual_ranks[..], args.gpus) {
        ([], None | Some(1)) => vec![2, 4, 8],
        ([], Some(gpus)) => vec![gpus],
        (numbers, _) => numbers.to_vec(),
    }
}

/// Refuses options for ranks of this process in a job with a process for each rank.
pub(super) fn refuse_ranks_of_one_process(args: &BenchArgs, comm: &Communicator) -> Result<()> {
    if args.gpus.is_some() || !args.virtual_ranks.is_empty() {
        let text = format!(
            "--gpus and --virtual-ranks are for ranks of one process, and this is rank {} of {}, each on a device of its own; omit them, or \
             start the command without the launcher",
            comm.rank(),
            comm.num_ranks()
        );
        return Err(Error::Usage(text));
    }
    Ok(())
}

/// Measures all sizes with the ranks of a job, each in its process with its device; rank 0 reports.
fn of_job(args: &Call, comm: &Communicator, registry: &Registry, sizes: &[u64]) -> Result<u64> {
    refuse_ranks_of_one_process(args, comm)?;
    let JobDevices { executor, num_devices, multicast } =
        JobDevices::connect(comm, Options::default()).map_err(failed)?;
    let of = |bytes| Request {
        backend: Backend::Cuda,
        multicast,
        max_blocks: executor.max_blocks(),
        ..comm.request_of(args.collective, args.rooted.call.dtype, bytes)
    };
    all_sizes(args, &Ranks { executor: &executor, num_devices, comm: Some(comm) }, registry, of, sizes)
}

/// Measures all sizes; `of` returns the request for a number of bytes.
fn all_sizes(
    args: &Call,
    ranks: &Ranks<'_>,
    registry: &Registry,
    of: impl Fn(u64) -> Request,
    sizes: &[u64],
) -> Result<u64> {
    let mut wrong = 0_u64;
    for (index, &size) in sizes.iter().enumerate() {
        let request = super::request(args, size, &of, ranks.executor.num_ranks())?;
        if index == 0 && !args.json && ranks.reports() {
            print(ranks.measured(&request, None).header(&describe(ranks.executor)))?;
        }
        wrong = wrong.saturating_add(size_of(args, ranks, registry, &request)?);
    }
    Ok(wrong)
}

impl Ranks<'_> {
    /// Returns whether this process prints results.
    fn reports(&self) -> bool {
        self.comm.is_none_or(|comm| comm.rank() == 0)
    }

    /// Describes a call on these ranks, before it is made.
    fn measured<'b>(&'b self, request: &Request, plan: Option<&'b str>) -> MeasuredOnDevices<'b> {
        MeasuredOnDevices {
            call: Measured { registered: true, ..Measured::new(request, plan) },
            device: self.executor.devices().first().map(|device| &*device.properties().name),
            num_devices: self.num_devices,
            specialized: false,
            blocks: None,
        }
    }
}

/// Measures and reports one size.
fn size_of(args: &Call, ranks: &Ranks<'_>, registry: &Registry, request: &Request) -> Result<u64> {
    // Input and output, of one rank at a time.
    let (what, bytes) = (|| format!("a check of {} bytes", request.bytes), request.bytes.saturating_mul(2));
    match ranks.comm {
        Some(comm) => require_memory(comm, what, bytes)?,
        None => drop(memory::require(what, bytes)?),
    }
    let (mut run, name) = prepare(args, ranks.executor, registry, request)?;
    let (mut buffers, stream) = (run.buffers().map_err(failed)?, ranks.executor.stream().map_err(failed)?);
    let checked = args.check != 0;
    let mut wrong = if checked { check_launch(&mut run, &mut buffers, &stream, request).map_err(failed)? } else { 0 };
    let times = time(&mut run, &mut buffers, &stream, args.iters).map_err(failed)?;
    if checked {
        wrong += check_launch(&mut run, &mut buffers, &stream, request).map_err(failed)?;
    }
    let shown_wrong = checked.then_some(wrong);
    let (blocks, is_specialized) = (run.num_blocks(), run.specialized().is_ok());
    if ranks.reports() {
        let shown = MeasuredOnDevices {
            specialized: is_specialized,
            blocks: Some(blocks),
            ..ranks.measured(request, Some(&name))
        };
        print(if args.json { shown.line(&times, shown_wrong) } else { shown.row(&times, shown_wrong) })?;
    }
    Ok(wrong)
}

/// Returns the prepared plan and the algorithm's name.
fn prepare(args: &Call, world: &Executor, registry: &Registry, request: &Request) -> Result<(PreparedPlan, String)> {
    let decision = decide(args, registry, request)?;
    let name = decision.algorithm.name().to_owned();
    let plan = registry.plan(request, &decision).map_err(|why| why.of_call(0, request))?;
    let how = request.prepare_options().specialize(args.specialize);
    let run = world.prepare_with_options(&plan, request.message(), how).map_err(failed)?;
    if let (true, Err(reason)) = (args.specialize, run.specialized()) {
        log::warn!("{name} is interpreted: {reason}");
    }
    Ok((run, name))
}

/// Returns the requested algorithm, or else the selected one.
fn decide(args: &Call, registry: &Registry, request: &Request) -> Result<Decision> {
    decided(match &args.plan {
        Some(name) => {
            super::known(registry, args.collective, name)?;
            let config = Config { blocks: args.blocks, threads: None };
            registry.decision(request, &Choice { name: name.clone(), config })
        }
        None => registry.select(request),
    })
}

fn decided(decision: std::result::Result<Decision, mscclpp_select::SelectError>) -> Result<Decision> {
    Ok(decision.map_err(|why| why.of_call(0))?)
}

fn failed(error: mscclpp_exec::Error) -> Error {
    error.into()
}
