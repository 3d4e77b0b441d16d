//! Arguments of `mscclpp machine`, `mscclpp simulate`, `mscclpp bound` and `mscclpp find`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use mscclpp_core::collective::CollectiveKind;

use super::backend::Backend;
use super::{SourceArgs, collective};
use crate::size;

/// Arguments of `mscclpp machine`.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "\
Examples:
  mscclpp machine list
  mscclpp machine show 8xh100
  mscclpp machine show ./cluster.toml
  mscclpp machine measure -o here.toml"
)]
pub(crate) struct MachineArgs {
    #[command(subcommand)]
    pub(crate) command: MachineCommand,
}

/// The commands below `mscclpp machine`.
#[derive(Debug, Subcommand)]
pub(crate) enum MachineCommand {
    /// List the machines that are described, with the error of predictions on each
    List(MachineListArgs),
    /// Show the links and constants of a machine, with the source of every number
    Show(MachineShowArgs),
    /// Describe the CPU of this machine: measure plans, fit the constants, and state the error of predictions
    Measure(MachineMeasureArgs),
}

/// Arguments of `mscclpp machine list`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mscclpp machine list
  mscclpp machine list --json | jq -r '.[].name'")]
pub(crate) struct MachineListArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `mscclpp machine show`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mscclpp machine show 8xh100
  mscclpp machine show ./cluster.toml --json")]
pub(crate) struct MachineShowArgs {
    /// Name of a machine, or a machine file (a path with `/`, or ending with `.toml`)
    #[arg(value_name = "NAME|FILE")]
    pub(crate) machine: String,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `mscclpp machine measure`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mscclpp machine measure -o here.toml
  mscclpp machine measure --ranks 2 --workers 2 -o two.toml
  mscclpp machine measure --json | jq .mean_percent
  mscclpp machine measure --backend cuda -o device.toml              eight ranks on one device
  mscclpp machine measure --backend cuda --gpus 8 -o devices.toml    a rank on each of eight devices

The built-in algorithms run on the CPU executor, each at all sizes, twice. The constants are fitted to one half of the points, and the error is that
of the other half. On devices, small plans measure the constants one by one, interpreted and in graphs; then the built-in algorithms run at
all sizes, and the error is that of all of them. Operations in switches and networks are not measured. Without -o the description is printed.")]
pub(crate) struct MachineMeasureArgs {
    /// Number of ranks [default: 4 on the CPU, 8 on one device, one on each of several devices]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=64))]
    pub(crate) ranks: Option<u32>,
    /// Number of threads that run the ranks on the CPU
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) workers: u32,
    /// Backend: cpu or cuda
    #[arg(long, value_enum, value_name = "BACKEND", default_value_t, hide_possible_values = true)]
    pub(crate) backend: Backend,
    /// Number of CUDA devices [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) gpus: Option<u32>,
    /// First and last size; each size is four times the one before it on the CPU, and 16 times on devices, where the last one is also that of
    /// the longest transfer of a thread block [default: 1K:1M on the CPU, 1K:64M on devices]
    #[arg(long, value_name = "SIZE:SIZE", value_parser = range)]
    pub(crate) sizes: Option<(u64, u64)>,
    /// Launches per measurement on devices [default: as many as take 20 ms, nine times]
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) iters: Option<u32>,
    /// Name of the machine in its description
    #[arg(long, value_name = "NAME", default_value = "here", value_parser = name)]
    pub(crate) name: String,
    /// File to which the description is written
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Print the points and the errors as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Reads the name of a machine.
fn name(text: &str) -> Result<String, String> {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '+' | '.');
    match text.len() {
        1..=32 if text.chars().all(is_valid) => Ok(text.to_owned()),
        _ => Err("expected 1 to 32 letters, digits, and -, _, + or .".to_owned()),
    }
}

/// Arguments of `mscclpp simulate`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mscclpp simulate allreduce_ring --machine 8xh100 --size 64M
  mscclpp simulate plan.json --machine ./cluster.toml --size 1M --json
  mscclpp simulate allreduce_packets --machine 8xh100 --size 64K --html packets.html
  mscclpp simulate allreduce_ring --machine 8xh100 --size 1M --goal ring.goal --chakra ring
  mscclpp simulate allreduce_all_pairs --machine h200-virtual --tier interpreted --size 1M

A named algorithm is built for all ranks of the machine, with the number of thread blocks that the machine description
states, unless --ranks, --instances or --param say otherwise. The size is that of the larger of a rank's input and output.")]
#[command(
    mut_arg("ranks", |arg| arg.help("Number of ranks [default: all of the machine, or that of the plan file]")),
    mut_arg("ranks_per_node", |arg| arg.help("Number of ranks per node [default: that of the machine]")),
    mut_arg("instances", |arg| arg.help(
        "Instances of the algorithm, each of which processes its part of every chunk [default: as the machine description states]"))
)]
pub(crate) struct SimulateArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// Name of a machine (see `mscclpp machine list`), or a machine file
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) machine: String,
    /// Bytes of the message, with an optional suffix K, M, G or T
    #[arg(short, long, value_name = "SIZE", value_parser = size::parse)]
    pub(crate) size: u64,
    /// Kind of kernel, one of the tiers of the machine [default: that of the machine's constants]
    #[arg(long, value_name = "TIER")]
    pub(crate) tier: Option<String>,
    /// Also write a page that shows the operations over time, the critical path, the use of links, and what each chunk holds
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Also write the messages between ranks as a GOAL schedule, for LogGOPSim and ATLAHS
    #[arg(long, value_name = "FILE")]
    pub(crate) goal: Option<PathBuf>,
    /// Also write the messages between ranks as Chakra execution traces, for ASTRA-sim: PREFIX.0.et, PREFIX.1.et, ...
    #[arg(long, value_name = "PREFIX")]
    pub(crate) chakra: Option<PathBuf>,
    /// Also write a trace for Perfetto or chrome://tracing
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `mscclpp bound`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mscclpp bound all_reduce --machine 8xh100 --size 1M
  mscclpp bound all_gather --machine 2x8xa100 --size 1G --json

No algorithm is faster than the bound: the bytes that a set of ranks must send or receive pass the links of that set.")]
pub(crate) struct BoundArgs {
    /// The collective, as its call is named
    #[arg(value_name = "COLLECTIVE", value_parser = collective)]
    pub(crate) collective: CollectiveKind,
    /// Name of a machine (see `mscclpp machine list`), or a machine file
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) machine: String,
    /// Number of ranks [default: all of the machine]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) ranks: Option<u32>,
    /// Bytes of the larger of a rank's input and output, with an optional suffix K, M, G or T
    #[arg(short, long, value_name = "SIZE", value_parser = size::parse)]
    pub(crate) size: u64,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `mscclpp find`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mscclpp find all_reduce --machine 8xh100 --size 1M
  mscclpp find all_gather --machine ./cluster.toml --size 1G --blocks 32 -o found
  mscclpp find all_reduce --machine 8xh100 --sizes 1K:256M -o table

Candidates are the built-in algorithms with different numbers of thread blocks, and, for long messages on up to 64 ranks, of one
node unless it is a broadcast or reduce, and at most 512 ranks, switches and hosts, trees that are packed on the links. The timing model ranks them, and the checks accept each plan that is shown.")]
pub(crate) struct FindArgs {
    /// The collective, as its call is named
    #[arg(value_name = "COLLECTIVE", value_parser = collective)]
    pub(crate) collective: CollectiveKind,
    /// Name of a machine (see `mscclpp machine list`), or a machine file
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) machine: String,
    /// Number of ranks [default: all of the machine]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) ranks: Option<u32>,
    /// Bytes of the larger of a rank's input and output, with an optional suffix K, M, G or T
    #[arg(short, long, value_name = "SIZE", value_parser = size::parse, required_unless_present = "sizes")]
    pub(crate) size: Option<u64>,
    /// First and last size of a tuning table, which has the powers of two between them
    #[arg(long, value_name = "SIZE:SIZE", value_parser = range, conflicts_with = "size")]
    pub(crate) sizes: Option<(u64, u64)>,
    /// Maximum number of thread blocks of a rank [default: 108, the fewest multiprocessors of a known device]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) blocks: Option<u32>,
    /// Only plans with one buffer for input and output
    #[arg(long, conflicts_with = "out_of_place")]
    pub(crate) in_place: bool,
    /// Only plans with separate buffers for input and output
    #[arg(long)]
    pub(crate) out_of_place: bool,
    /// Directory to which the fastest plan (JSON) and its function (Rust) are written, or the tuning table
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Reads the first and the last of several sizes.
fn range(text: &str) -> Result<(u64, u64), String> {
    let (first, last) = text.split_once(':').ok_or("expected two sizes such as 1K:1G")?;
    let read = |text: &str| size::parse(text).map_err(|error| error.to_string());
    match (read(first)?, read(last)?) {
        (first, last) if first <= last => Ok((first, last)),
        (first, last) => Err(format!("expected a first size of at most the last one, found {first} and {last}")),
    }
}
