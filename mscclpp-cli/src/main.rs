//! The `mscclpp` command: runs, checks, shows and converts execution plans.
//!
//! Data goes to standard output, messages about it to standard error; [`exit`] lists the exit codes.
#![forbid(unsafe_code)]

// Selects the version of the bindings.
use cudarc as _;

mod args;
mod bandwidth;
mod commands;
mod diagnostics;
mod error;
mod exit;
mod job;
mod logger;
mod memory;
mod output;
mod progress;
mod report;
mod size;
mod source;
mod table;
mod variables;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = match args::Cli::try_parse() {
        Ok(cli) => cli,
        Err(usage) => {
            // Help and version are data, on standard output; a failure to write them has no reader to report to.
            let _ = usage.print();
            return ExitCode::from(if usage.use_stderr() { exit::USAGE } else { exit::SUCCESS });
        }
    };
    logger::start();
    variables::check();
    commands::dispatch(cli).unwrap_or_else(|error| {
        output::report(&error);
        error.code()
    })
}
