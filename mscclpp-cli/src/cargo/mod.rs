//! `cargo mscclpp`: the commands of `mscclpp` for the plans of a crate, which cargo builds first.
//!
//! Words that are cargo's choose what is built; the rest is the command line of the `mscclpp` command, parsed and carried out by the
//! same code. Names on it refer to the plans of the artifacts.

mod artifacts;
mod words;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use mscclpp_core::diag::closest_name;

use self::words::Words;
use crate::args::{Cli, Command};
use crate::artifacts::{Artifacts, provide};
use crate::error::{Error, Result, suggestion_hint};
use crate::output::print;
use crate::{commands, exit};

/// The commands, each with the words of the `mscclpp` command that it runs and what it does.
const COMMANDS: [(&str, &[&str], &str); 8] = [
    ("list", &["plan", "list"], "List the plans of the crate, and where each was found"),
    ("check", &["check"], "Check plans: shapes, pairing, deadlocks, races, results, the next launch"),
    ("run", &["run"], "Run a plan, compare it with a naive reference, print times and bandwidths"),
    ("bench", &["bench"], "Measure how long calls take that a plan serves"),
    ("graph", &["plan", "graph"], "Draw which data moves between which ranks, as SVG"),
    ("show", &["plan", "show"], "Show what every rank and thread block does, in readable form"),
    ("stats", &["plan", "stats"], "Count thread blocks, operations, channels, and the chunks that are moved"),
    ("export", &["plan", "export"], "Write a plan as JSON"),
];

/// What `cargo mscclpp --help` says after the list of commands.
const HELP: &str = "\
What is built, as for `cargo build`:
  -p, --package <SPEC>    --bin <NAME>    --example <NAME>    --test <NAME>    --bins    --examples    --tests    --lib
  -r, --release    --profile <NAME>    -F, --features <LIST>    --all-features    --no-default-features
  --workspace    --target-dir <DIRECTORY>    --manifest-path <PATH>    --locked    --offline    -q, --quiet
The target is that of cargo's configuration, such as CARGO_BUILD_TARGET.

NAME is the name of a plan, or NAME@HASH with the beginning of its hash where several plans have the same name. Without it, check
takes all plans, and the other commands take the only one. The rest are options of the `mscclpp` command: see
`cargo mscclpp COMMAND --help`.

A plan that a program does not use is not linked into it; --lib searches the library, which has those of all public functions.

Examples:
  cargo mscclpp list --lib
  cargo mscclpp check --release
  cargo mscclpp check --example quickstart simple_allgather --fuzz 100
  cargo mscclpp run -p collectives --lib my_allreduce --size 1M
  cargo mscclpp bench --lib my_allreduce --end 1M

The exit codes are those of `mscclpp`; 2 also if cargo cannot build the crate or the artifacts contain no plan.";

/// Runs `cargo mscclpp` with these words after the name of the program.
///
/// # Errors
/// [`Error::Usage`]; [`Error::Start`] and [`Error::Cargo`] if cargo does not build; [`Error::NoPlans`]; what the command returns.
pub(crate) fn run(mut words: Vec<String>) -> Result<ExitCode> {
    // Cargo passes the name of its subcommand on.
    if words.first().is_some_and(|word| word == "mscclpp") {
        words.remove(0);
    }
    let Some((command, rest)) = words.split_first() else {
        print(help())?;
        return Ok(ExitCode::from(exit::USAGE));
    };
    match &command[..] {
        "-h" | "--help" | "help" => {
            print(help())?;
            return Ok(ExitCode::from(exit::SUCCESS));
        }
        "-V" | "--version" => {
            print(format_args!("cargo-mscclpp {}", env!("CARGO_PKG_VERSION")))?;
            return Ok(ExitCode::from(exit::SUCCESS));
        }
        _ => {}
    }
    let Some((_, own, _)) = COMMANDS.iter().find(|(name, ..)| name == command) else {
        let suggestion = closest_name(command, COMMANDS.iter().map(|(name, ..)| *name)).map(str::to_owned);
        let hint = suggestion_hint(suggestion.as_slice());
        return Err(Error::Usage(format!(
            "`cargo mscclpp` has no command `{command}`{hint}\n         help: `cargo mscclpp --help` lists the commands"
        )));
    };
    let Words { target, own: options } = words::split(rest)?;
    let words: Vec<String> = own.iter().map(|word| (*word).to_owned()).chain(options).collect();
    // What the command line lacks, the artifacts may provide; everything else is refused before anything is built.
    let parsed = match parse(&words) {
        Ok(cli) => Some(cli),
        Err(error) if error.kind() == ErrorKind::MissingRequiredArgument => None,
        Err(error) => {
            let _ = error.print();
            return Ok(ExitCode::from(if error.use_stderr() { exit::USAGE } else { exit::SUCCESS }));
        }
    };
    let artifacts = artifacts::build(&target)?;
    artifacts.require_plans()?;
    let cli = match parsed {
        Some(cli) => cli,
        None => match parse(&with_defaults(command, words, &artifacts)?) {
            Ok(cli) => cli,
            Err(error) => {
                let _ = error.print();
                return Ok(ExitCode::from(exit::USAGE));
            }
        },
    };
    let cli = addressed(cli, &artifacts)?;
    provide(artifacts);
    commands::dispatch(cli)
}

fn parse(words: &[String]) -> std::result::Result<Cli, clap::Error> {
    Cli::try_parse_from(std::iter::once("mscclpp").chain(words.iter().map(String::as_str)))
}

/// The command line with the plans that are meant where none is named.
///
/// # Errors
/// [`Error::Usage`] if one plan is needed and there are several.
fn with_defaults(command: &str, mut words: Vec<String>, artifacts: &Artifacts) -> Result<Vec<String>> {
    let addresses: Vec<_> = artifacts.plans.iter().map(|found| artifacts.address(found)).collect();
    match (command, &addresses[..]) {
        ("check", _) => words.extend(addresses),
        (_, [only]) => words.push(only.clone()),
        (_, several) => {
            let names: Vec<_> = several.iter().take(8).map(|name| format!("`{name}`")).collect();
            let more = if several.len() > 8 { " and others" } else { "" };
            return Err(Error::Usage(format!(
                "`cargo mscclpp {command}` takes one plan, and there are {}: name one of {}{more}",
                several.len(),
                names.join(", ")
            )));
        }
    }
    Ok(words)
}

/// The command with each plan addressed so that it is one.
///
/// # Errors
/// [`Error::NotEmbedded`] for names that no plan has.
fn addressed(mut cli: Cli, artifacts: &Artifacts) -> Result<Cli> {
    match &mut cli.command {
        Command::Check(args) => {
            let mut all = Vec::new();
            for name in &args.plans {
                let named = artifacts.named(name)?;
                let fits = |ranks: u32| args.build.ranks.is_none_or(|asked| asked == ranks);
                let fitting: Vec<_> = named.iter().filter(|found| fits(found.plan.num_ranks())).collect();
                match &fitting[..] {
                    // What contradicts the arguments is said when it is loaded.
                    [] => all.push(artifacts.address(named[0])),
                    several => all.extend(several.iter().map(|found| artifacts.address(found))),
                }
            }
            args.plans = all;
        }
        // The positional argument is the plan here, and its collective is what is measured.
        Command::Bench(args) if args.plan.is_none() => args.plan = args.collective.take(),
        _ => {}
    }
    Ok(cli)
}

fn help() -> String {
    let version = Cli::command().get_version().unwrap_or_default().to_owned();
    let commands: String = COMMANDS.iter().map(|(name, _, about)| format!("  {name:<8}{about}\n")).collect();
    format!(
        "Builds a crate with cargo and lists, checks, runs, measures and draws the plans that it contains ({version})\n\n\
         Usage: cargo mscclpp <COMMAND> [CARGO OPTIONS] [NAME] [OPTIONS OF `mscclpp`]\n\nCommands:\n{commands}\n{HELP}\n"
    )
}
