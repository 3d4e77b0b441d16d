//! `mscclpp completions` and `mscclpp man`: completions for shells and manual pages.

use std::process::ExitCode;

use clap::{Command, CommandFactory};

use crate::args::{Cli, CompletionsArgs, ManArgs};
use crate::error::{Error, Result, similar, suggestion_hint};
use crate::exit;
use crate::output::print;

/// Prints the completions for a shell.
///
/// # Errors
/// Failures of standard output.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut visible(), "mscclpp", &mut script);
    print(String::from_utf8_lossy(&script).into_owned())?;
    Ok(ExitCode::from(exit::SUCCESS))
}

/// Prints the manual page of the command, or of one of its commands.
///
/// # Errors
/// [`Error::Usage`] for an unknown command; failures of standard output.
pub(crate) fn man(args: &ManArgs) -> Result<ExitCode> {
    let mut command = visible();
    command.build();
    for name in &args.command {
        let Some(found) = command.find_subcommand(name) else {
            let hint = suggestion_hint(&similar(name, command.get_subcommands().map(Command::get_name)));
            return Err(Error::Usage(format!("`{}` has no command `{name}`{hint}", command.get_name())));
        };
        command = found.clone();
    }
    // Pages are named like `man git-commit`.
    let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
    let mut page = Vec::new();
    clap_mangen::Man::new(command).title(name).render(&mut page).map_err(Error::Output)?;
    print(String::from_utf8_lossy(&page).into_owned())?;
    Ok(ExitCode::from(exit::SUCCESS))
}

/// Returns the command line without hidden commands.
fn visible() -> Command {
    let all = Cli::command();
    Command::new("mscclpp")
        .version(env!("CARGO_PKG_VERSION"))
        .propagate_version(true)
        .about(all.get_about().cloned().unwrap_or_default())
        .after_help(all.get_after_help().cloned().unwrap_or_default())
        .subcommands(all.get_subcommands().filter(|command| !command.is_hide_set()).cloned())
}
