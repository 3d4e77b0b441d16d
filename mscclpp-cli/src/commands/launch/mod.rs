//! `mscclpp launch`: a program once per rank, on this host.

mod bind;
mod environment;
mod job;
mod lines;
mod rank;
mod restart;

use std::os::unix::process::{CommandExt, parent_id};
use std::path::Path;
use std::process::{Command, ExitCode};

use mscclpp_communicator::flight_recorder::{DumpSignal, SIGNAL_VARIABLE};
use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::args::{GuardArgs, LaunchArgs};
use crate::error::{Error, Result};
use crate::jobs::{self, Recorded};
use crate::{exit, machine, output};
use environment::{Environment, Given};
use job::Job;

/// Starts the ranks, forwards their output and signals, and waits until all have ended.
///
/// # Errors
/// Those of [`of_all`](environment::of_all), [`Error::Signals`], and [`Error::Start`] if a rank cannot be started.
pub(crate) fn launch(args: &LaunchArgs) -> Result<ExitCode> {
    let mut environments = environment::of_all(args, Given::from_env())?;
    if args.bind {
        let visible = std::env::var("CUDA_VISIBLE_DEVICES").ok();
        let processors = bind::processors(Path::new("/"), environments.len(), visible.as_deref());
        for (environment, cpus) in environments.iter_mut().zip(processors) {
            if cpus.is_empty() {
                let text = "--bind: the system does not say which processors this process may use; start without it";
                return Err(Error::Usage(text.into()));
            }
            environment.cpus = Some(bind::list(&cpus));
        }
    }
    let dump_signal = DumpSignal::from_env()
        .map_err(|found| Error::Usage(format!("{SIGNAL_VARIABLE}={found}: expected USR1 or USR2")))?;
    let mut job = Job::new(args, dump_signal)?;
    let _recorded = record(args, environments.first());
    for environment in environments {
        job.start(environment)?;
    }
    Ok(ExitCode::from(job.run()))
}

/// Records the job for `mscclpp status`. If that is not possible, the job runs nevertheless.
fn record(args: &LaunchArgs, environment: Option<&Environment>) -> Option<Recorded> {
    let variables = &environment?.variables;
    // As the ranks read it.
    let read = mscclpp_bootstrap::Environment::from_lookup(|name| {
        variables.iter().find(|(known, _)| *known == name)?.1.clone()
    });
    let mscclpp_bootstrap::Environment { address, secret, num_ranks, .. } = read.ok()?;
    let (pid, command) = (std::process::id(), jobs::command_text(&args.command));
    let job = jobs::Job { pid, address: address?.0, secret, ranks: num_ranks, command };
    let recorded = jobs::record(&job);
    recorded.inspect_err(|error| output::warn(format_args!("`mscclpp status` cannot find this job: {error}"))).ok()
}

/// Replaces this process by the program of a rank, which is killed when the launcher is, because nothing else would end
/// it then.
///
/// Returns only if that fails.
pub(crate) fn guard(args: &GuardArgs) -> Error {
    // Where the system has no such signal, a killed launcher leaves its ranks running; that is no reason not to start.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    // The launcher may have ended before that.
    if parent_id() != args.launcher {
        return Error::LauncherExited;
    }
    if let Some(list) = &args.cpus {
        let mut cpus = CpuSet::new();
        machine::numbers(list)
            .into_iter()
            .filter(|cpu| (*cpu as usize) < CpuSet::MAX_CPU)
            .for_each(|cpu| cpus.set(cpu as usize));
        if let Err(source) = sched_setaffinity(None, &cpus) {
            return Error::Bind { cpus: list.clone(), source: source.into() };
        }
    }
    let [program, arguments @ ..] = &args.command[..] else {
        return Error::Usage("no program to start".into());
    };
    let source = Command::new(program).args(arguments).exec();
    Error::Start { program: program.to_string_lossy().into_owned(), source, code: exit::USAGE }
}
