//! Arguments of `mscclpp plan …`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use mscclpp_core::plan::Format;

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
    /// List the built-in algorithms, which can be run, shown and exported by name
    List(ListArgs),
    /// Show the operations of every rank and thread block as text
    Show(ShowArgs),
    /// Count thread blocks, operations, channels, and the chunks that are moved
    Stats(StatsArgs),
    /// Draw the data movement between ranks as SVG
    Graph(GraphArgs),
    /// Write a plan as JSON, text or image
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
  mscclpp plan list --cost
  mscclpp plan list --json | jq -r '.[].name'
  mscclpp plan list target/release/train plan.json

In costs, P is the number of ranks, N of nodes, G of ranks per node; the message is the larger of a rank's input and
output. The order is what the order of reduction of floats depends on: nothing but the ranks, or also the place of an
element, the node, the rank, or a switch. Algorithms that need multicast hardware run without it, and cost more.

A program or library is searched for the plans that it embeds. The linker drops plans that a program does not use.")]
pub(crate) struct ListArgs {
    /// Programs, libraries and plan files of which the plans are listed instead
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Show the cost and the order of reduction of each algorithm
    #[arg(long, conflicts_with_all = ["files", "json"])]
    pub(crate) cost: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `mscclpp plan show`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mscclpp plan show allreduce_ring --ranks 4
  mscclpp plan show plan.json --rank 3 --comments
  mscclpp plan show plan.json > plan.plan

The text is the format .plan, which all commands read, unless it is limited to one rank.")]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// Show the header and this rank only
    #[arg(long, value_name = "RANK")]
    pub(crate) rank: Option<u32>,
    /// Add comments: the number of every operation in messages, and its source location if that is known
    #[arg(long)]
    pub(crate) comments: bool,
}

/// Arguments of `mscclpp plan stats`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mscclpp plan stats allreduce_ring --ranks 4
  mscclpp plan stats plan.json --json | jq .total

Data is counted in chunks that are sent to other ranks, read from them, written to the rank's own buffers, or combined
with another operand. Data in packets counts twice, since it takes twice the bytes.")]
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

Up to 16 ranks are drawn as lines, with a column for each step, which ends where thread blocks wait, and an arrow for each
kind of transfer between two ranks; more ranks are drawn as a matrix. Chunks and exact numbers are in the tooltips.")]
pub(crate) struct GraphArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// Draw only the data that this rank sends or receives
    #[arg(long, value_name = "RANK")]
    pub(crate) rank: Option<u32>,
    /// File to write, replaced atomically [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Arguments of `mscclpp plan export`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mscclpp plan export allreduce_ring --ranks 8 -o plan.json
  mscclpp plan export allreduce_ring --ranks 8 -o ring.plan
  mscclpp plan export allreduce_ring --ranks 8 --compact | gzip > plan.json.gz
  mscclpp plan export plan.json --target mscclpp -o for-mscclpp.json

With --target mscclpp the plan is one that the MSCCL++ executor can hold, or the command says what it cannot hold.")]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// File to write, replaced atomically [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Executor that will read the plan
    #[arg(long, value_enum, default_value_t = Target::Ours)]
    pub(crate) target: Target,
    /// Format [default: by the extension of FILE, .json, .plan or .mscclpp, or json]
    #[arg(long, value_enum)]
    pub(crate) format: Option<FileFormat>,
    /// Write JSON without white space
    #[arg(long)]
    pub(crate) compact: bool,
}

/// Formats of plan files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FileFormat {
    /// MSCCL++ JSON
    Json,
    /// One line per operation
    Text,
    /// The form that is embedded and executed
    Image,
}

impl From<FileFormat> for Format {
    fn from(format: FileFormat) -> Self {
        match format {
            FileFormat::Json => Self::Json,
            FileFormat::Text => Self::Text,
            FileFormat::Image => Self::Image,
        }
    }
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

Lists that represent sets are compared as sets. --ranks and similar options apply to plans that are given by name.
Exit codes: 0 equal, 1 the plans differ, 2 a plan cannot be read")]
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
  mscclpp plan schema --operations        each operation, what it reads and writes

The schema is of draft 2020-12. It accepts every file that the other commands can read; whether a plan is correct is for
`mscclpp check`.")]
pub(crate) struct SchemaArgs {
    /// Print the operations of plans instead, with what each reads, writes and needs, as Markdown
    #[arg(long)]
    pub(crate) operations: bool,
}
