//! Arguments of `mscclpp plan …`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::{BuildArgs, SourceArgs};

/// Arguments of `mscclpp plan`.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "\
Examples:
  mscclpp plan list
  mscclpp plan export allreduce_ring --ranks 8 -o plan.json"
)]
pub(crate) struct PlanArgs {
    #[command(subcommand)]
    pub(crate) command: PlanCommand,
}

/// The commands below `mscclpp plan`.
#[derive(Debug, Subcommand)]
pub(crate) enum PlanCommand {
    /// List the algorithms that can be run, shown and exported by name
    List(ListArgs),
    /// Write a plan as JSON
    Export(ExportArgs),
}

/// Arguments of `mscclpp plan list`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mscclpp plan list
  mscclpp plan list --json | jq -r '.[].name'")]
pub(crate) struct ListArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `mscclpp plan show` and `mscclpp plan stats`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mscclpp plan show allreduce_ring --ranks 4
  mscclpp plan stats plan.json
  cat plan.json | mscclpp plan show -")]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,
}

/// Arguments of `mscclpp plan export`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mscclpp plan export allreduce_ring --ranks 8 -o plan.json
  mscclpp plan export allreduce_ring --ranks 8 --compact | gzip > plan.json.gz")]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// File to write, replaced as a whole; standard output without it
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Write no white space
    #[arg(long)]
    pub(crate) compact: bool,
}

/// Who will read an exported plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Target {
    /// This project: no limits
    Ours,
    /// The MSCCL++ executor, with its limits
    Mscclpp,
}

/// Arguments of `mscclpp plan diff`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mscclpp plan diff old.json new.json
  mscclpp plan diff allreduce_ring plan.json --ranks 8

Lists that stand for sets are compared as sets. Exit codes: 0 equal, 1 the plans differ, 2 a plan cannot be read")]
pub(crate) struct DiffArgs {
    /// First plan: a name, a file or `-`
    #[arg(value_name = "A")]
    pub(crate) a: String,
    /// Second plan: a name, a file or `-`
    #[arg(value_name = "B")]
    pub(crate) b: String,
    #[command(flatten)]
    pub(crate) build: BuildArgs,
}
