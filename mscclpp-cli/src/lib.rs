//! The commands `mscclpp` and `cargo mscclpp`, which run, check, show and convert execution plans: this crate is for their two
//! programs and has no interface of its own.
//!
//! Data goes to standard output, everything said about it to standard error; `exit` lists the exit codes.
#![forbid(unsafe_code)]

// Chooses the version of the bindings.
use cudarc as _;

mod args;
mod artifacts;
mod bandwidth;
mod cargo;
mod commands;
mod diagnostics;
mod error;
mod exchange;
mod exit;
mod job;
mod jobs;
mod logger;
mod machine;
mod memory;
mod msccl;
mod output;
mod progress;
mod report;
mod size;
mod source;
mod table;
mod variables;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

/// Runs `mscclpp` with the arguments of this process.
#[doc(hidden)]
pub fn mscclpp() -> ExitCode {
    let cli = match args::Cli::try_parse() {
        Ok(cli) => cli,
        Err(usage) => {
            let printed = usage.print().and_then(|()| std::io::stdout().flush());
            return match printed {
                _ if usage.use_stderr() => ExitCode::from(exit::USAGE),
                Ok(()) => ExitCode::from(exit::SUCCESS),
                // Help and version are data.
                Err(error) => fail(&error.into()),
            };
        }
    };
    finish(|| commands::dispatch(cli))
}

/// Runs `cargo mscclpp` with the arguments of this process.
#[doc(hidden)]
pub fn cargo_mscclpp() -> ExitCode {
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    finish(|| cargo::run(words.collect()))
}

/// Runs a command and reports why it did not finish.
fn finish(command: impl FnOnce() -> error::Result<ExitCode>) -> ExitCode {
    logger::start();
    variables::check();
    command().unwrap_or_else(|error| fail(&error))
}

/// Reports an error, and returns its exit code.
fn fail(error: &error::Error) -> ExitCode {
    output::report(error);
    error.code()
}
