//! One file per command.

mod explain;

use std::process::ExitCode;

use crate::args::{Cli, Command};
use crate::error::Result;

/// Carries a command out and returns its exit code.
pub(crate) fn dispatch(cli: Cli) -> Result<ExitCode> {
    match cli.command {
        Command::Explain(args) => explain::explain(&args),
    }
}
