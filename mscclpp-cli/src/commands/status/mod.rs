//! `mscclpp status`: what the ranks of a running job are doing.

mod listen;
mod table;

use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use mscclpp_bootstrap::{Address, Secret};
use mscclpp_communicator::status::{query, query_dumps, query_metrics};
use serde_json::json;

use crate::args::StatusArgs;
use crate::error::{Error, Result};
use crate::exit;
use crate::jobs::{self, Job};
use crate::output::{print, print_json, write_file};

/// How long rank 0 may take to answer. The other ranks have half a second of it.
const ANSWER_TIME: Duration = Duration::from_secs(5);

/// A job that is asked.
struct Target {
    address: Address,
    secret: Secret,
}

/// Asks the ranks of a job and prints the answer.
///
/// # Errors
/// [`Error::NoJob`] if it is not clear which job is meant, [`Error::Call`] if it does not answer, failures of the output.
pub(crate) fn status(args: &StatusArgs) -> Result<ExitCode> {
    let Target { address, secret } = target(args)?;
    if let Some(folder) = &args.dump {
        return dump(&address, &secret, folder);
    }
    let metrics = || Ok(query_metrics(&address, &secret, ANSWER_TIME)?.to_string());
    if args.metrics {
        print(metrics()?)?;
        return Ok(ExitCode::from(exit::SUCCESS));
    }
    if let Some(at) = args.listen {
        return listen::serve(at, metrics);
    }
    loop {
        let communicators = query(&address, &secret, ANSWER_TIME)?;
        if args.watch.is_some() && !args.json && std::io::stdout().is_terminal() {
            // Clears the screen.
            print("\x1b[H\x1b[2J")?;
        }
        if args.json {
            print_json(&json!({ "address": address.to_string(), "communicators": communicators }))?;
        } else {
            print(table::text(&address, &communicators))?;
        }
        let Some(interval) = args.watch else {
            let is_problem = communicators.iter().any(|communicator| communicator.verdict.is_problem());
            return Ok(ExitCode::from(if is_problem { exit::FAILURE } else { exit::SUCCESS }));
        };
        thread::sleep(interval);
    }
}

/// Returns the job that the arguments mean.
fn target(args: &StatusArgs) -> Result<Target> {
    if let Some(address) = &args.address {
        let secret = std::env::var("MSCCLPP_SECRET").map_err(|_| {
            Error::Usage("MSCCLPP_SECRET is not set: set it to the secret of the job at this address".into())
        })?;
        let secret = secret.parse().map_err(|error| Error::Usage(format!("MSCCLPP_SECRET: {error}")))?;
        return Ok(Target { address: address.clone(), secret });
    }
    let failed = |error| Error::NoJob(format!("cannot list the jobs of this user: {error}"));
    let mut jobs = jobs::running().map_err(failed)?;
    let list = list(&jobs);
    if let Some(pid) = args.job {
        jobs.retain(|job| job.pid == pid);
    }
    match &mut jobs[..] {
        [Job { address, secret, .. }] => Ok(Target { address: address.clone(), secret: secret.clone() }),
        [] if list.is_empty() => Err(Error::NoJob(
            "no job of `mscclpp launch` runs on this machine\n         help: give the address of another job with --address"
                .into(),
        )),
        [] => Err(Error::NoJob(format!("no job {}; running:\n{list}", args.job.unwrap_or_default()))),
        several => Err(Error::NoJob(format!(
            "{} jobs run on this machine; give one of them, such as `mscclpp status {}`:\n{list}",
            several.len(),
            several[0].pid
        ))),
    }
}

fn list(jobs: &[Job]) -> String {
    let line = |job: &Job| format!("  {}: {} ranks of `{}`", job.pid, job.ranks, job.command);
    jobs.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Writes the dumps of all ranks to a folder.
fn dump(address: &Address, secret: &Secret, folder: &Path) -> Result<ExitCode> {
    let dumps = query_dumps(address, secret, ANSWER_TIME)?;
    std::fs::create_dir_all(folder).map_err(|source| Error::Write { path: folder.to_owned(), source })?;
    for dump in &dumps {
        let paths = (1..).map(|number| folder.join(dump.file_name(number)));
        let Some(path) = paths.into_iter().find(|path| !path.exists()) else { continue };
        write_file(&path, dump.text().as_bytes())?;
        print(path.display())?;
    }
    Ok(ExitCode::from(exit::SUCCESS))
}
