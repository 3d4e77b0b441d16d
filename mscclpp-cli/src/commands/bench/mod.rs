//! `mscclpp bench`: measures calls.

mod call;
mod device;
mod device_report;
mod planless;
mod report;
mod tasks;

use std::process::ExitCode;

use mscclpp_communicator::Communicator;
use mscclpp_communicator::tune::measure;
use mscclpp_core::collective::CollectiveKind;
use mscclpp_select::{Choice, Config, Registry, Request};

use self::call::Call;
use self::planless::PlanlessCall;
use self::report::Measured;
use crate::args::{Backend, BenchArgs};
use crate::error::{Error, Result, similar, suggestion_hint};
use crate::exit;
use crate::job::{on_ranks, require_memory};
use crate::output::print;

/// Measures every size and reports each as soon as it is measured, on rank 0.
///
/// # Errors
/// [`Error::Usage`] for an empty range of sizes or an invalid root; [`Error::Memory`] before anything is measured if
/// the largest size does not fit; [`Error::Call`] if ranks are missing or a call fails.
pub(crate) fn bench(args: &BenchArgs) -> Result<ExitCode> {
    if let Some(call) = PlanlessCall::of(args) {
        return planless::bench(args, call).map(exit_code);
    }
    let args = &Call::new(args)?;
    let sizes = sizes(args)?;
    if args.specialize && args.backend == Backend::Cpu {
        return Err(Error::Usage("--specialize requires --backend cuda".into()));
    }
    let ranks = args.virtual_ranks.iter().min().copied().or(args.gpus);
    args.backend.devices(args.gpus, ranks.unwrap_or(1))?;
    let wrong = match args.backend {
        Backend::Cpu if !args.virtual_ranks.is_empty() => tasks::bench(args, &sizes)?,
        Backend::Cpu => on_ranks(args.ranks, |comm| on_rank(comm, args, &sizes))?,
        Backend::Cuda => device::bench(args, args.gpus, &sizes)?,
    };
    Ok(exit_code(wrong))
}

/// Returns how the command ends that has found a number of wrong elements.
fn exit_code(wrong: u64) -> ExitCode {
    ExitCode::from(if wrong == 0 { exit::SUCCESS } else { exit::FAILURE })
}

/// Returns the requested sizes, at most 64.
fn sizes(args: &BenchArgs) -> Result<Vec<u64>> {
    let BenchArgs { begin, end, factor, .. } = *args;
    if begin > end {
        return Err(Error::Usage(format!("--begin {begin} is larger than --end {end}")));
    }
    if begin == 0 && end > 0 {
        return Err(Error::Usage("--begin 0 cannot grow by a factor; use --begin 1 or larger".into()));
    }
    let next = |size: &u64| size.checked_mul(factor).filter(|next| *next <= end && *next > *size);
    Ok(std::iter::successors(Some(begin), next).collect())
}

/// Measures on one rank; returns the wrong elements of all sizes.
fn on_rank(comm: &Communicator, args: &Call, sizes: &[u64]) -> Result<u64> {
    let mut requests: Vec<Request> = Vec::new();
    for &size in sizes {
        let request = request(
            args,
            size,
            |bytes| comm.request_of(args.collective, args.rooted.call.dtype, bytes),
            comm.num_ranks(),
        )?;
        if requests.last().is_none_or(|last| last.bytes < request.bytes) {
            requests.push(request);
        }
    }
    let largest = requests.last().map_or(0, |request| request.bytes);
    // Input and output, and the buffers through which private memory is copied.
    let copies = if args.unregistered { 4 } else { 2 };
    require_memory(comm, || format!("a call of {largest} bytes per rank"), largest.saturating_mul(copies))?;

    if args.has_plan() {
        comm.configure(|registry| args.register(registry))??;
    }
    if let Some(name) = &args.plan {
        known(&*comm.registry()?, args.collective, name)?;
        let config = Config { blocks: args.blocks, threads: None };
        comm.force_algorithm(Some((args.collective, Choice { name: name.clone(), config })))?;
    }
    let talks = comm.rank() == 0;
    if let Some(request) = requests.first().filter(|_| talks && !args.json) {
        print(Measured::new(request, None).header())?;
    }
    let mut all_wrong = 0_u64;
    for request in requests {
        let plan = match &args.plan {
            Some(name) => name.clone(),
            None => {
                let decision = comm.registry()?.select(&request);
                decision.map_err(|why| why.of_call(comm.rank()))?.algorithm.name().to_owned()
            }
        };
        let measured = measure(comm, &request, args.measuring(request.bytes))?;
        all_wrong = all_wrong.saturating_add(measured.wrong.unwrap_or(0));
        if talks {
            let shown = Measured::new(&request, Some(&plan));
            print(if args.json { shown.line(&measured) } else { shown.row(&measured) })?;
        }
    }
    Ok(all_wrong)
}

/// Checks that an algorithm exists.
///
/// # Errors
/// [`Error::Usage`] for a name that no algorithm of a collective has.
fn known(registry: &Registry, collective: CollectiveKind, name: &str) -> Result<()> {
    let all = registry.iter().filter(|algorithm| algorithm.collective() == collective);
    let names: Vec<_> = all.map(|algorithm| algorithm.name()).collect();
    if names.contains(&name) {
        return Ok(());
    }
    let hint = suggestion_hint(&similar(name, names));
    Err(Error::Usage(format!("unknown algorithm `{name}` for {}{hint}", collective.name())))
}

/// Returns the request of a size, rounded up to whole elements and equal parts; `of` returns the request for a number
/// of bytes.
fn request(args: &Call, bytes: u64, of: impl Fn(u64) -> Request, ranks: u32) -> Result<Request> {
    let dtype = args.rooted.call.dtype;
    let parts = match args.collective {
        CollectiveKind::AllGather | CollectiveKind::ReduceScatter | CollectiveKind::AllToAll => ranks,
        _ => 1,
    };
    let unit = u64::from(parts) * dtype.size() as u64;
    let too_large = || Error::Usage(format!("{bytes} bytes cannot be rounded up to a multiple of {unit}"));
    let bytes = bytes.checked_next_multiple_of(unit).ok_or_else(too_large)?;
    let request = Request { in_place: args.in_place, registered: !args.unregistered, ..of(bytes) };
    args.rooted.complete(request)
}
