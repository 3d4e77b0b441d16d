//! One file per command.

mod explain;
mod plan_export;
mod plan_list;

use std::process::ExitCode;

use crate::args::{Cli, Command, PlanCommand};
use crate::error::Result;

/// Carries a command out and returns its exit code.
pub(crate) fn dispatch(cli: Cli) -> Result<ExitCode> {
    match cli.command {
        Command::Explain(args) => explain::explain(&args),
        Command::Plan(plan) => match plan.command {
            PlanCommand::Export(args) => plan_export::export(&args),
            PlanCommand::List(args) => plan_list::list(&args),
        },
    }
}
