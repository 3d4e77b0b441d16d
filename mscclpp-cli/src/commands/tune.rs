//! `mscclpp tune`: measures which algorithm is fastest, and writes a tuning table.

use std::process::ExitCode;

use mscclpp_communicator::tune::{CandidateTime, Tuner, TuningEntry, TuningTable};
use mscclpp_exec::cuda::Options;
use mscclpp_select::Registry;

use super::devices::{describe, ranks_on_devices};
use crate::args::{Backend, TuneArgs};
use crate::error::{Error, Result};
use crate::exit;
use crate::job::{on_ranks, require_memory};
use crate::output::{check_writable, print, write_file};
use crate::progress::Progress;
use crate::report::three_digits;

/// Measures, reports each entry as soon as it is measured, and writes the table, all on rank 0.
///
/// # Errors
/// [`Error::Usage`] for an empty range of sizes; [`Error::Memory`] if the largest size does not fit, and
/// [`Error::Write`] if the table cannot be written, both before anything is measured; [`Error::Call`] if ranks are
/// missing or a call fails.
pub(crate) fn tune(args: &TuneArgs) -> Result<ExitCode> {
    if args.begin > args.end {
        return Err(Error::Usage(format!("--begin {} is larger than --end {}", args.begin, args.end)));
    }
    let usual = Tuner::default();
    let tuner = Tuner {
        collectives: if args.collectives.is_empty() { usual.collectives.clone() } else { args.collectives.clone() },
        min_bytes: args.begin,
        max_bytes: args.end,
        dtype: args.call.dtype,
        op: args.call.op,
        registered: args.registered,
        iterations: args.iters,
        blocks: args.blocks.clone(),
        threads: args.threads.clone(),
        ..usual
    };
    let ranks = args.virtual_ranks.or(args.gpus);
    let gpus = args.backend.devices(args.gpus, ranks.unwrap_or(1))?;
    match (args.backend, ranks) {
        (Backend::Cpu, Some(_)) => return Err(Error::Usage("--virtual-ranks requires --backend cuda".into())),
        (Backend::Cpu, None) => tune_ranks(args, &tuner)?,
        (Backend::Cuda, Some(ranks)) if ranks > 1 => tune_devices(args, &tuner, ranks, gpus)?,
        (Backend::Cuda, _) => {
            return Err(Error::Usage("--backend cuda requires --gpus or --virtual-ranks with at least 2".into()));
        }
    }
    Ok(ExitCode::from(exit::SUCCESS))
}

/// Measures the ranks of this process or of a launcher.
fn tune_ranks(args: &TuneArgs, tuner: &Tuner) -> Result<()> {
    let largest = tuner.sizes().last().unwrap_or(0);
    on_ranks(args.ranks, |comm| {
        let talks = comm.rank() == 0;
        if talks {
            check_writable(&args.output)?;
        }
        // Input and output, and the buffers through which private memory is copied.
        require_memory(comm, || format!("a call of {largest} bytes per rank"), 4 * largest)?;
        let progress = talks.then(|| Progress::new(tuner.num_entries() as u64));
        let mut reported = Ok(());
        let table = tuner.run(comm, |table| {
            if let Some(progress) = &progress
                && let Err(error) = report(args, progress, table)
            {
                reported = Err(error);
            }
        })?;
        if talks {
            // First, so that a closed output does not lose what was measured.
            write_file(&args.output, table.text().as_bytes())?;
            reported?;
            drop(progress);
            let buffers = if args.registered { "registered" } else { "unregistered" };
            print(format_args!("{} entries for {buffers} buffers in {}", table.entries.len(), args.output.display()))?;
        }
        Ok(())
    })
}

/// Measures ranks on devices of this process.
fn tune_devices(args: &TuneArgs, tuner: &Tuner, ranks: u32, gpus: u32) -> Result<()> {
    check_writable(&args.output)?;
    let executor = ranks_on_devices(ranks, gpus, Options::default())?;
    let registry = Registry::builtin();
    print(describe(&executor))?;
    let (progress, mut reported) = (Progress::new(tuner.num_entries() as u64), Ok(()));
    let table = tuner.run_on_devices(&executor, &registry, |table| {
        if let Err(error) = report(args, &progress, table) {
            reported = Err(error);
        }
    })?;
    write_file(&args.output, table.text().as_bytes())?;
    reported?;
    drop(progress);
    print(format_args!("{} entries for devices in {}", table.entries.len(), args.output.display()))
}

/// Prints the last entry of a table, and writes the table so far, which remains if the command is interrupted.
fn report(args: &TuneArgs, progress: &Progress, table: &TuningTable) -> Result<()> {
    progress.step();
    let printed = table.entries.last().map_or(Ok(()), |entry| progress.aside(|| print(line(entry))));
    write_file(&args.output, table.text().as_bytes()).and(printed)
}

fn line(entry: &TuningEntry) -> String {
    let fastest = &entry.fastest;
    let name = |timed: &CandidateTime| match timed.blocks {
        Some(blocks) => format!("{}, blocks {blocks}", timed.algorithm),
        None => timed.algorithm.clone(),
    };
    let next = entry.others.first();
    format!(
        "{:>14} {:>12} {:>12} B  {:>10} us  {}{}\n",
        entry.collective.name(),
        if entry.in_place { "in place" } else { "out of place" },
        entry.bytes,
        three_digits(fastest.time_us),
        name(fastest),
        next.map_or_else(String::new, |next| format!(" ({} for {})", three_digits(next.time_us), name(next))),
    )
}
