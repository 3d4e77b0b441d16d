//! The command line: what may be written, and the help texts.

mod analyze;
mod backend;
mod bench;
mod check;
mod collective;
mod doctor;
mod launch;
mod plan;
mod predict;
mod run;
mod select;
mod status;
mod timeline;
mod tune;

pub(crate) use analyze::AnalyzeArgs;
pub(crate) use backend::Backend;
pub(crate) use bench::BenchArgs;
pub(crate) use check::{AllowArgs, CheckArgs, Level};
pub(crate) use collective::{CallArgs, RootedArgs, collective};
pub(crate) use doctor::DoctorArgs;
pub(crate) use launch::{GuardArgs, LaunchArgs};
pub(crate) use plan::{
    DiffArgs, ExportArgs, GraphArgs, ListArgs, PlanArgs, PlanCommand, SchemaArgs, ShowArgs, StatsArgs, Target,
};
pub(crate) use predict::{BoundArgs, FindArgs, MachineArgs, MachineCommand, MachineMeasureArgs, SimulateArgs};
pub(crate) use run::{RunArgs, Sizes};
pub(crate) use select::SelectArgs;
pub(crate) use status::StatusArgs;
pub(crate) use timeline::TimelineArgs;
pub(crate) use tune::TuneArgs;

use std::str::FromStr;
use std::time::Duration;

use clap::builder::styling::{AnsiColor, Styles};
use clap::{Args, Parser, Subcommand};
use mscclpp_core::types::ReduceOp;

use crate::exit;

/// Colors of the help text; clap omits them if the output is not a terminal or `NO_COLOR` is set.
const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// Runs, checks, shows and converts execution plans of GPU collectives. Works without a GPU; `--backend cuda` uses one.
#[derive(Debug, Parser)]
#[command(
    name = "mscclpp",
    version,
    styles = STYLES,
    propagate_version = true,
    arg_required_else_help = true,
    after_help = format!("\
Examples:
  mscclpp plan list                                     list the algorithms
  mscclpp run allreduce_ring --ranks 8 --size 1M        run it on the CPU and verify the result
  mscclpp check plan.json                               prove a plan correct, or report what is wrong
  mscclpp launch -n 4 -- ./train                        start a program on 4 ranks
  mscclpp bench all_reduce --ranks 2                    measure calls
  mscclpp explain                                       list all diagnostics

{}

Data goes to standard output; warnings, errors and progress go to standard error. Colors and progress bars appear on
a terminal only; NO_COLOR disables colors.", exit::TABLE)
)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a plan on the CPU or a CUDA device, verify the result, print times and bandwidths
    Run(RunArgs),
    /// Check plans: shapes, pairing, deadlocks, races, results, consecutive launches
    Check(CheckArgs),
    /// List, show, measure, draw, export and compare plans
    Plan(PlanArgs),
    /// Start a program once per rank, and stop all ranks when one fails
    Launch(LaunchArgs),
    /// Become a rank's program, and end with the launcher
    #[command(hide = true)]
    Guard(GuardArgs),
    /// Measure the time of collective calls
    Bench(BenchArgs),
    /// Measure the fastest algorithm per call, and write a tuning table
    Tune(TuneArgs),
    /// Show which algorithm is selected for a call, and why the others are not
    Select(SelectArgs),
    /// List and show the machines on which times are predicted
    Machine(MachineArgs),
    /// Predict the time of a plan on a machine, and where it goes
    Simulate(SimulateArgs),
    /// Show a lower bound of a collective's time on a machine, and its proof
    Bound(BoundArgs),
    /// Find the fastest proved plan for a collective on a machine
    Find(FindArgs),
    /// Show the timelines of a run as a page
    Timeline(TimelineArgs),
    /// Show what the ranks of a running job are doing, and which rank the others wait for
    Status(StatusArgs),
    /// Analyze the dumps of a failed job: first mismatched call, missing ranks, wait chain
    Analyze(AnalyzeArgs),
    /// Check this machine: memory, network, limits, processors, drivers
    Doctor(DoctorArgs),
    /// Explain a diagnostic and how to fix it
    Explain(ExplainArgs),
    /// Print the completions of the command line for a shell
    Completions(CompletionsArgs),
    /// Print the manual page of the command or of one of its commands
    Man(ManArgs),
}

/// Arguments of `mscclpp explain`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mscclpp explain                     all diagnostics, one line each
  mscclpp explain M0004               by number
  mscclpp explain chunk-out-of-range  by name
  mscclpp explain --subset            arguments and Rust that `#[collective]` evaluates")]
pub(crate) struct ExplainArgs {
    /// Number (`M0004`) or name (`chunk-out-of-range`) of a diagnostic; without it, all are listed
    #[arg(value_name = "CODE")]
    pub(crate) code: Option<String>,
    /// Print what `#[collective]` evaluates: its arguments, and the subset of Rust, as Markdown
    #[arg(long, conflicts_with_all = ["code", "json"])]
    pub(crate) subset: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `mscclpp completions`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mscclpp completions bash > ~/.local/share/bash-completion/completions/mscclpp
  mscclpp completions fish > ~/.config/fish/completions/mscclpp.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: clap_complete::Shell,
}

/// Arguments of `mscclpp man`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mscclpp man | man -l -                                       the page of the command
  mscclpp man plan export | man -l -                           the page of `mscclpp plan export`
  mscclpp man > ~/.local/share/man/man1/mscclpp.1              install it for `man mscclpp`")]
pub(crate) struct ManArgs {
    /// A command, such as `run` or `plan export`; without it, the page is that of `mscclpp`
    #[arg(value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// Where a plan comes from: the argument that most commands begin with, and what a named algorithm is built with.
#[derive(Clone, Debug, Args)]
pub(crate) struct SourceArgs {
    /// Name of an algorithm (see `mscclpp plan list`), a plan file (JSON, text or image), or `-` for a plan on standard input
    #[arg(value_name = "NAME|PLAN")]
    pub(crate) plan: String,
    #[command(flatten)]
    pub(crate) build: BuildArgs,
}

/// What a named algorithm is built with. A plan file has all of this fixed: what is given must agree with it.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct BuildArgs {
    /// Number of ranks [default: 8, or that of the plan file]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) ranks: Option<u32>,
    /// Number of ranks per node [default: the largest that the algorithm supports]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) ranks_per_node: Option<u32>,
    /// Instances of the algorithm, each of which processes its part of every chunk [default: the algorithm's own]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) instances: Option<u32>,
    /// Use one buffer for input and output
    #[arg(long, conflicts_with = "out_of_place")]
    pub(crate) in_place: bool,
    /// Use separate memory for input and output
    #[arg(long)]
    pub(crate) out_of_place: bool,
    /// Root of a call that has one [default: 0]
    #[arg(long, value_name = "RANK")]
    pub(crate) root: Option<u32>,
    /// Parameter of the algorithm; may be given several times
    #[arg(long = "param", value_name = "NAME=VALUE")]
    pub(crate) params: Vec<Param>,
}

/// One `--param`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Param {
    /// The text before `=`.
    pub(crate) name: String,
    /// The value after `=`.
    pub(crate) value: usize,
}

impl FromStr for Param {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE, such as tbg=2")?;
        if name.is_empty() {
            return Err("expected a name before `=`, such as tbg=2".into());
        }
        let value = value.parse().map_err(|_| format!("expected an integer after `{name}=`, found `{value}`"))?;
        Ok(Self { name: name.into(), value })
    }
}

/// Reads a number of seconds.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.0..=86400.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "expected a number of seconds from 0 to 86400".into())
}

/// Reads a reduction's name.
fn reduce_op(text: &str) -> Result<ReduceOp, String> {
    ReduceOp::from_name(&text.to_ascii_lowercase()).ok_or_else(|| {
        let known: Vec<_> = ReduceOp::ALL.iter().map(|op| op.name()).collect();
        format!("expected one of {}", known.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_examples() {
        fn visit(command: &clap::Command) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Examples:\n  mscclpp"), "`{}` has no examples", command.get_name());
            command.get_subcommands().filter(|sub| sub.get_name() != "help").for_each(visit);
        }
        visit(&Cli::command());
    }

    #[test]
    fn a_param_is_a_name_and_a_number() {
        assert_eq!("tbg=2".parse(), Ok(Param { name: "tbg".into(), value: 2 }));
        for junk in ["", "tbg", "=2", "tbg=", "tbg=x", "tbg=1=2", "tbg=99999999999999999999"] {
            assert!(junk.parse::<Param>().is_err(), "{junk}");
        }
    }
}
