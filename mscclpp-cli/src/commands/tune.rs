//! `mscclpp tune`: measures which algorithm is fastest, and writes it down.

use std::process::ExitCode;
use std::sync::Mutex;

use mscclpp_exec::group;
use mscclpp_exec::tune::{Entry, Timed, Tuner};

use crate::args::TuneArgs;
use crate::error::{Error, Result};
use crate::exit;
use crate::job::on_ranks;
use crate::memory;
use crate::output::print;
use crate::progress::Progress;
use crate::report::three_digits;

/// Measures, reports each entry as soon as it is known, and writes the table, all on rank 0.
///
/// # Errors
/// [`Error::Usage`] for sizes that go nowhere; [`Error::Memory`] if the largest size does not fit; [`Error::Call`] if ranks are
/// missing, a call fails or the table cannot be written.
pub(crate) fn tune(args: &TuneArgs) -> Result<ExitCode> {
    if args.begin > args.end {
        return Err(Error::Usage(format!("--begin {} is larger than --end {}", args.begin, args.end)));
    }
    let usual = Tuner::default();
    let tuner = Tuner {
        collectives: if args.collectives.is_empty() { usual.collectives.clone() } else { args.collectives.clone() },
        least: args.begin,
        most: args.end,
        dtype: args.call.dtype,
        op: args.call.op,
        registered: args.registered,
        iterations: args.iters,
        ..usual
    };
    let here = u64::from(args.ranks.unwrap_or(1));
    let needed = args.end.saturating_mul(4).saturating_mul(here);
    memory::require(|| format!("calls of {} bytes per rank", args.end), needed)?;
    on_ranks(args.ranks, |group| {
        let talks = group.rank() == 0;
        let progress = talks.then(|| Progress::new(tuner.len() as u64));
        let failed = Mutex::new(None);
        let told = |entry: &Entry| {
            if let Some(progress) = &progress {
                progress.step();
                if let Err(error) = progress.aside(|| print(line(entry))) {
                    failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get_or_insert(error);
                }
            }
        };
        let table = tuner.run(group, told)?;
        if talks {
            table.save(&args.output).map_err(group::Error::from)?;
            if let Some(error) = failed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
                return Err(error);
            }
            drop(progress);
            print(format_args!("{} entries in {}", table.entries.len(), args.output.display()))?;
        }
        Ok(())
    })?;
    Ok(ExitCode::from(exit::DONE))
}

fn line(entry: &Entry) -> String {
    let fastest = &entry.fastest;
    let name = |timed: &Timed| match timed.blocks {
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
