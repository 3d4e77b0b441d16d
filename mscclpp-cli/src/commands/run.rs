//! `mscclpp run`: runs a plan on the CPU or a device, and compares its results with a naive reference.

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use mscclpp_algorithms as algorithms;
use mscclpp_bootstrap::Environment;
use mscclpp_communicator::Communicator;
use mscclpp_core::check::{Checks, Level};
use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::diag::Diagnostics;
use mscclpp_core::plan::{
    Plan,
    raw::{Expectation, PlanTree},
};
use mscclpp_core::types::ReduceOp;
use mscclpp_exec::cpu::Options;
use mscclpp_exec::timeline::Timeline;
use mscclpp_exec::{AccumType, DataType, Message, PacketType};
use serde_json::{Value, json};

use super::check::restricted;
use super::runner::Ranks;
use crate::args::{Backend, RunArgs, Sizes};
use crate::bandwidth::bus_factor;
use crate::diagnostics::values;
use crate::error::{Error, Result};
use crate::job::launched;
use crate::output::{check_writable, print, print_json, warn, write_file};
use crate::progress::Progress;
use crate::report::{Header, Row};
use crate::size::human;
use crate::{exit, memory, source};

/// Runs a plan at every requested size and reports each as soon as it is complete; JSON is printed at the end.
///
/// # Errors
/// Those of loading; findings of the check; [`Error::ScratchLimit`] before anything runs if the largest size does not
/// fit; [`Error::Run`] if a launch fails; failures of standard output.
pub(crate) fn run(args: &RunArgs) -> Result<ExitCode> {
    let comm = match args.backend {
        Backend::Cpu => None,
        Backend::Cuda => launched()?,
    };
    let talks = comm.as_ref().is_none_or(|comm| comm.rank() == 0);
    let (bench, counts) = match prepare(args, comm.as_ref()) {
        Ok(prepared) => prepared,
        Err(error) => {
            if args.json && talks {
                print_json(&json!({
                    "plan": null, "ok": false, "verified": false, "rows": [], "failure": failure(&error),
                }))?;
            }
            return Err(error);
        }
    };
    let progress = Progress::new((counts.len() as u64).saturating_mul(bench.launches()));
    let (mut rows, mut timelines) = (Vec::new(), Vec::new());
    let mut failed = None;
    if !args.json && talks {
        progress.aside(|| print(bench.header.text()))?;
    }
    for count in counts {
        match bench.row(count, &progress, &mut timelines) {
            Ok(row) => {
                if !args.json && talks {
                    progress.aside(|| print(bench.header.row(&row)))?;
                }
                rows.push(row);
            }
            Err(error) => {
                failed = Some(error);
                break;
            }
        }
    }
    drop(progress);
    if let Some(path) = &args.timeline {
        write_timelines(path, comm.as_ref().map(Communicator::rank), &timelines)?;
    }
    if !talks {
        // Rank 0 reports.
    } else if args.json {
        print_json(&bench.header.json(&rows, failed.as_ref().map(failure)))?;
    } else {
        print(bench.header.closing(&rows, failed.is_some()))?;
    }
    if let (Some(comm), None) = (&comm, &failed) {
        // Rank 0 forwards the others' messages, so no rank exits before the barrier.
        comm.bootstrap().barrier().map_err(mscclpp_exec::Error::from)?;
    }
    match failed {
        Some(error) => Err(error),
        None => Ok(ExitCode::from(if rows.iter().all(Row::is_right) { exit::SUCCESS } else { exit::FAILURE })),
    }
}

/// Writes timelines as one trace; `rank`: that of this process, whose number the name of its file gets.
fn write_timelines(path: &Path, rank: Option<u32>, timelines: &[Timeline]) -> Result<()> {
    let mut path = path.to_owned();
    if let Some(rank) = rank {
        let extension = path.extension().unwrap_or(OsStr::new("json")).to_string_lossy().into_owned();
        path.set_extension(format!("{rank}.{extension}"));
    }
    let dropped: u64 = timelines.iter().map(|timeline| timeline.dropped).sum();
    if dropped > 0 {
        warn(format_args!("{} is without {dropped} operations, for which there was no room", path.display()));
    }
    let events: Vec<Value> = timelines.iter().flat_map(Timeline::trace_events).collect();
    let trace = json!({ "traceEvents": events, "displayTimeUnit": "ns" });
    write_file(&path, format!("{trace}\n").as_bytes())
}

/// Formats the error that ended a run early as JSON.
fn failure(error: &Error) -> Value {
    json!({
        "message": error.to_string(),
        "findings": values(error.findings().into_iter().flat_map(Diagnostics::iter)),
    })
}

/// Prepares everything before the first launch: the plan, checked, and the sizes in elements.
fn prepare<'a>(args: &RunArgs, comm: Option<&'a Communicator>) -> Result<(Bench<'a>, Vec<u64>)> {
    if comm.is_none() {
        refuse_launcher()?;
    } else if args.gpus.is_some() {
        let text = "--gpus is for ranks of one process; a launcher starts a process for each device: omit it, or start the command without the launcher";
        return Err(Error::Usage(text.into()));
    }
    if let Some(path) = &args.timeline {
        check_writable(path)?;
    }
    let counts = Counts::of(args)?;
    let mut from = args.source.clone();
    if let Some(comm) = comm.filter(|_| algorithms::find(&from.plan).is_some()) {
        from.build.ranks.get_or_insert(comm.num_ranks());
    }
    let mut plan = source::load(&from)?.warned();
    if let Some(comm) = comm.filter(|comm| comm.num_ranks() as usize != plan.ranks.len()) {
        let (expected, found) = (plan.ranks.len(), comm.num_ranks());
        return Err(Error::Usage(format!(
            "plan `{}` is for {expected} ranks, but the launcher has started {found}; start {expected}, or use another plan",
            plan.name
        )));
    }
    if let (Some(op), []) = (args.op, &plan.reductions()[..]) {
        let what =
            format!("plan `{}` does not reduce, so `--op {}` would have no effect; remove it", plan.name, op.name());
        return Err(Error::Usage(what));
    }
    if plan.is_counted() {
        let what = "takes counts, which this command does not pass; pass them to `launch_counted` in a program, or run it at random \
                    counts with `mscclpp check --fuzz 100`";
        return Err(Error::Usage(format!("plan `{}` {what}", plan.name)));
    }
    if let (false, Some(hidden)) = (plan.collective.rows, args.hidden) {
        let what = format!(
            "plan `{}` does not normalize rows, so `--hidden {hidden}` would have no effect; remove it",
            plan.name
        );
        return Err(Error::Usage(what));
    }
    examine(&mut plan, args)?;
    let counts = counts.for_plan(&plan)?;
    Ok((Bench::new(&plan, args, &counts, comm)?, counts))
}

/// Rejects a run of all ranks in each process of a job.
fn refuse_launcher() -> Result<()> {
    // Ranks alone say that there is a job; where they meet does not matter here.
    let with_address = |name: &str| match name {
        "MASTER_ADDR" => Some("127.0.0.1".to_owned()),
        "MASTER_PORT" => Some("1".to_owned()),
        name => Some(std::env::var_os(name)?.to_string_lossy().into_owned()),
    };
    match Environment::from_lookup(with_address) {
        Ok(job) if job.num_ranks > 1 => Err(Error::Usage(format!(
            "`mscclpp run` on the CPU runs all ranks in one process, and this is rank {} of {} according to the environment \
             (variables of {}); start it without the launcher, or measure the ranks of the job with `mscclpp bench`",
            job.rank, job.num_ranks, job.launcher
        ))),
        _ => Ok(()),
    }
}

/// Checks a plan before it runs.
fn examine(plan: &mut PlanTree, args: &RunArgs) -> Result<()> {
    if args.no_check {
        warn(format_args!("plan `{}` is run without checks", plan.name));
        return Ok(());
    }
    match restricted(plan, &Checks { level: Level::Full, allow: args.allow.allow.clone() }) {
        Ok(warning) => {
            warning.iter().for_each(warn);
            Ok(())
        }
        Err(findings) => {
            let found = findings.len();
            let what = format!("plan `{}` was not run: {found} found; --no-check runs it without checks", plan.name);
            Err(Error::Findings { what, findings })
        }
    }
}

/// Sizes in elements, before they are rounded for the plan.
struct Counts {
    counts: Vec<u64>,
    dtype: DataType,
    /// Elements of a row, for plans that normalize rows.
    hidden: u64,
}

/// Elements of a row, unless they are requested.
const HIDDEN: u32 = 1024;

impl Counts {
    fn of(args: &RunArgs) -> Result<Self> {
        let size = args.dtype.size() as u64;
        let counts = match args.sizes()? {
            Sizes::Count(count) => vec![count],
            Sizes::Bytes(bytes) => bytes.into_iter().map(|bytes| bytes.div_ceil(size)).collect(),
        };
        Ok(Self { counts, dtype: args.dtype, hidden: args.hidden.unwrap_or(HIDDEN).into() })
    }

    /// Rounds up to equal parts where the collective consists of parts, and warns if a single size was requested. Sizes that become equal are run once.
    fn for_plan(self, plan: &PlanTree) -> Result<Vec<u64>> {
        use CollectiveKind::{AllGather, AllToAll, AllToAllV, ReduceScatter};
        let parts = match plan.collective.kind {
            AllGather | ReduceScatter | AllToAll | AllToAllV => plan.ranks.len() as u64,
            _ => 1,
        };
        let parts = if plan.collective.rows { parts.saturating_mul(self.hidden) } else { parts };
        let (dtype, mut counts) = (self.dtype, Vec::new());
        for &count in &self.counts {
            let round = count.checked_next_multiple_of(parts).filter(|round| bytes(*round, dtype).is_some());
            counts.push(round.ok_or_else(|| too_large(plan, count, dtype))?);
        }
        if let ([asked], [round]) = (&self.counts[..], &counts[..])
            && asked != round
        {
            let why = match plan.collective.rows {
                true => format!(
                    "the message consists of whole rows of {} elements, equally many for each part",
                    self.hidden
                ),
                false => format!("{} of {parts} ranks takes {parts} equal parts", plan.collective.kind.name()),
            };
            warn(format_args!("{asked} elements are rounded up to {round}: {why}"));
        }
        counts.dedup();
        Ok(counts)
    }
}

fn bytes(count: u64, dtype: DataType) -> Option<u64> {
    count.checked_mul(dtype.size() as u64)
}

fn too_large(plan: &PlanTree, count: u64, dtype: DataType) -> Error {
    Error::Memory {
        what: format!("`{}` with {count} elements of {dtype}", plan.name),
        needed: u64::MAX,
        available: memory::available(),
    }
}

/// A plan ready to run at any size.
struct Bench<'a> {
    /// The job, if each rank is in a process of its own.
    comm: Option<&'a Communicator>,
    plan: Plan,
    /// The expectations of its program.
    expectations: Vec<Expectation>,
    ranks: Ranks,
    kind: CollectiveKind,
    dtype: DataType,
    op: Option<ReduceOp>,
    accumulate: AccumType,
    packet: PacketType,
    any_size: bool,
    /// Elements of a row; 0 unless the plan normalizes rows.
    row: u64,
    /// Whether verified launches are recorded.
    records: bool,
    header: Header,
}

impl<'a> Bench<'a> {
    fn new(plan: &PlanTree, args: &RunArgs, counts: &[u64], comm: Option<&'a Communicator>) -> Result<Self> {
        let kind = plan.collective.kind;
        let ranks = plan.ranks.len() as u32;
        let largest = counts.iter().copied().max().unwrap_or(0);
        let most = bytes(largest, args.dtype).and_then(|bytes| buffers(plan, bytes));
        let most = most.ok_or_else(|| too_large(plan, largest, args.dtype))?;
        let what = || format!("a run of `{}` with {largest} elements of {}", plan.name, args.dtype);
        let options = Options::default().scratch_limit(memory::require(what, most)?);
        let gpus = args.backend.devices(args.gpus, ranks)?;
        let header = Header {
            plan: plan.name.clone(),
            collective: kind.name(),
            ranks,
            executor: args.backend.name(),
            in_place: plan.collective.in_place,
            dtype: args.dtype.name(),
            op: reduction(plan, args.op),
            accumulate: args.accumulate.name(),
            root: matches!(kind, CollectiveKind::Broadcast | CollectiveKind::Reduce).then_some(plan.collective.root),
            iters: args.iters,
            warmup: args.warmup,
            seed: args.seed,
            bus_factor: bus_factor(kind, ranks),
        };
        Ok(Self {
            comm,
            plan: Plan::new(plan),
            expectations: plan.expectations.clone(),
            ranks: match comm {
                Some(comm) => Ranks::of_job(comm, options),
                None => Ranks::new(args.backend, gpus, ranks, options),
            }
            .map_err(failed)?,
            kind,
            dtype: args.dtype,
            op: args.op,
            accumulate: args.accumulate,
            packet: args.packet_type,
            any_size: args.any_size,
            row: if plan.collective.rows { args.hidden.unwrap_or(HIDDEN).into() } else { 0 },
            records: args.timeline.is_some(),
            header,
        })
    }

    /// Returns the number of launches per size: the last one is not timed but verified.
    fn launches(&self) -> u64 {
        u64::from(self.header.warmup) + u64::from(self.header.iters) + 1
    }

    /// Returns whether the results are unspecified.
    fn promises_nothing(&self) -> bool {
        matches!(self.kind, CollectiveKind::Custom { .. } | CollectiveKind::Test { .. }) && self.expectations.is_empty()
    }

    fn row(&self, count: u64, progress: &Progress, timelines: &mut Vec<Timeline>) -> Result<Row> {
        let Header { warmup, iters, seed, .. } = self.header;
        let bytes = count * self.dtype.size() as u64;
        progress.doing(human(bytes));
        let mut message = Message::new(self.dtype, count);
        message.op = self.op;
        (message.any_size, message.row) = (self.any_size, self.row);
        (message.accumulate, message.packet) = (self.accumulate, self.packet);
        let mut runner = self.ranks.prepare(&self.plan, message).map_err(failed)?;
        // Other inputs than those of the verified launch, whose results must not be correct because of data of these
        // launches.
        let timed = runner.verifier(!seed);
        runner.fill(&timed).map_err(failed)?;
        let (mut total, mut min) = (Duration::ZERO, Duration::MAX);
        for launch in 0..u64::from(warmup) + u64::from(iters) {
            let start = Instant::now();
            runner.launch().map_err(failed)?;
            let time = start.elapsed();
            if launch >= warmup.into() {
                total += time;
                min = min.min(time);
            }
            progress.step();
        }
        // The verified launch finds no data of earlier launches: neither inputs nor outputs nor scratch.
        let verifier = runner.verifier(seed).with_expectations(&self.expectations);
        runner.fill(&verifier).map_err(failed)?;
        runner.scramble_scratch(seed).map_err(failed)?;
        if self.records {
            runner.start_timeline().map_err(failed)?;
        }
        let launched = runner.launch();
        if self.records {
            // That of a launch that has failed shows where.
            match runner.take_timeline() {
                Ok(timeline) => timelines.push(timeline),
                Err(error) => launched.clone().and(Err(error)).map_err(failed)?,
            }
        }
        launched.map_err(failed)?;
        let report = runner.check(&verifier).map_err(failed)?;
        progress.step();
        if let Some(first) = &report.first_mismatch {
            progress.aside(|| warn(format_args!("{} of {} elements are wrong: {first}", report.wrong, report.checked)));
        }
        let (mean, min, wrong) = self.of_all(total / iters, min, report.wrong)?;
        Ok(Row { bytes, count, mean, min, wrong: if self.promises_nothing() { None } else { Some(wrong) } })
    }

    /// Returns the times of the slowest rank, and the wrong elements of all ranks of a job; of this process without one.
    fn of_all(&self, mean: Duration, min: Duration, wrong: u64) -> Result<(Duration, Duration, u64)> {
        let Some(comm) = self.comm else { return Ok((mean, min, wrong)) };
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let own = [nanos(mean), nanos(min), wrong].map(u64::to_le_bytes).concat();
        let of_all = comm.bootstrap().all_gather(&own).map_err(mscclpp_exec::Error::from)?;
        let mut all = [0_u64; 3];
        for values in of_all {
            let mut words = values.chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_le_bytes));
            let [mean, min, wrong] = std::array::from_fn(|_| words.next().unwrap_or(0));
            all = [all[0].max(mean), all[1].max(min), all[2].saturating_add(wrong)];
        }
        Ok((Duration::from_nanos(all[0]), Duration::from_nanos(all[1]), all[2]))
    }
}

/// Returns the bytes of all ranks' inputs and outputs, where the larger of them has `bytes` on each rank.
fn buffers(plan: &PlanTree, bytes: u64) -> Option<u64> {
    let ranks = plan.ranks.len() as u64;
    let each = match plan.collective.in_place {
        true => bytes,
        // A gather's input and a scatter's output are smaller, by a factor that may be 1.
        false => bytes.checked_mul(2)?,
    };
    each.checked_mul(ranks)
}

/// Returns the name of the reduction of a run: the requested one, or that of the plan.
fn reduction(plan: &PlanTree, asked: Option<ReduceOp>) -> &'static str {
    match plan.reductions()[..] {
        [] => "none",
        [ReduceOp::Sum] => asked.unwrap_or_default().name(),
        [own] => own.name(),
        _ => "mixed",
    }
}

fn failed(error: mscclpp_exec::Error) -> Error {
    match error {
        mscclpp_exec::Error::ScratchLimit { plan, bytes, limit } => {
            Error::Memory { what: format!("the scratch of `{plan}`"), needed: bytes, available: limit }
        }
        error => Error::run(&error),
    }
}
