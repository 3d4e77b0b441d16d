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
  mscclpp plan show allreduce_ring --ranks 4
  mscclpp plan stats plan.json
  mscclpp plan graph allreduce_ring --ranks 4 -o ring.svg
  mscclpp plan export allreduce_ring --ranks 8 -o plan.json
  mscclpp plan diff old.json new.json"
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
    /// Show what every rank and thread block does, in readable form
    Show(ShowArgs),
    /// Count thread blocks, operations, channels, and the chunks that are moved
    Stats(StatsArgs),
    /// Draw which data moves between which ranks, as SVG
    Graph(GraphArgs),
    /// Write a plan as JSON
    Export(ExportArgs),
    /// Compare the meaning of two plans
    Diff(DiffArgs),
    /// Print the JSON Schema of plan files
    Schema(SchemaArgs),
}

/// Arguments of `mscclpp plan list`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mscclpp plan list
  mscclpp plan list --json | jq -r '.[].name'
  mscclpp plan list target/release/train plan.json

A program or library is searched for the plans that it embeds. The linker drops plans that a program does not use.")]
pub(crate) struct ListArgs {
    /// Programs, libraries and plan files of which the plans are listed instead
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `mscclpp plan show`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mscclpp plan show allreduce_ring --ranks 4
  mscclpp plan show plan.json --rank 3
  cat plan.json | mscclpp plan show -")]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// Show this rank only
    #[arg(long, value_name = "RANK")]
    pub(crate) rank: Option<u32>,
}

/// Arguments of `mscclpp plan stats`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mscclpp plan stats allreduce_ring --ranks 4
  mscclpp plan stats plan.json --json | jq .total

Data is counted in chunks: sent to other ranks, fetched from them, written to own buffers, combined with another
operand. Data in packets counts twice, as it takes twice the bytes.")]
pub(crate) struct StatsArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `mscclpp plan graph`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mscclpp plan graph allreduce_ring --ranks 4 -o ring.svg
  mscclpp plan graph plan.json --rank 3 > rank3.svg

Up to 16 ranks stand in a circle, each with its buffers and their chunks, and an arrow for each kind of transfer between
two of them; more ranks are a matrix. Exact numbers are in the tooltips.")]
pub(crate) struct GraphArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// Draw only what this rank sends and gets
    #[arg(long, value_name = "RANK")]
    pub(crate) rank: Option<u32>,
    /// File to write, replaced as a whole; standard output without it
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Arguments of `mscclpp plan export`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mscclpp plan export allreduce_ring --ranks 8 -o plan.json
  mscclpp plan export allreduce_ring --ranks 8 --compact | gzip > plan.json.gz
  mscclpp plan export plan.json --target mscclpp -o for-mscclpp.json

With --target mscclpp the plan is one that the MSCCL++ executor can hold, or the command says what it cannot hold.")]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// File to write, replaced as a whole; standard output without it
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Executor that will read the plan
    #[arg(long, value_enum, default_value_t = Target::Ours)]
    pub(crate) target: Target,
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

Lists that stand for sets are compared as sets. --ranks and the like are for plans given by name. Exit codes: 0 equal, 1 the plans differ, 2 a plan cannot be read")]
pub(crate) struct DiffArgs {
    /// First plan: a name, a file or `-`
    #[arg(value_name = "A")]
    pub(crate) a: String,
    /// Second plan: a name, a file or `-`
    #[arg(value_name = "B")]
    pub(crate) b: String,
    #[command(flatten)]
    pub(crate) build: BuildArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `mscclpp plan schema`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mscclpp plan schema > plan.schema.json

The schema is of draft 2020-12. It accepts every file that the other commands can read; whether a plan is correct is for
`mscclpp check`.")]
pub(crate) struct SchemaArgs {}
