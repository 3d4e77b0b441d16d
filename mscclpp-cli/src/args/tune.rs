//! Arguments of `mscclpp tune`.

use std::path::PathBuf;

use clap::Args;
use mscclpp_core::collective::CollectiveKind;

use super::CallArgs;
use super::collective::collective;
use crate::size;

/// Arguments of `mscclpp tune`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mscclpp tune --ranks 2 all_reduce                           two ranks in this process
  mscclpp launch -n 4 -- mscclpp tune -o four.toml            four processes, all collectives
  MSCCLPP_TUNING_TABLE=four.toml mscclpp launch -n 4 -- ./train

Every algorithm that is eligible for a call is measured with several numbers of thread blocks; the table names the
fastest and the times of the others. Rank 0 writes it. A table has one entry per power of two from 1K to 256M, to which
the given sizes are rounded. Buffers are unregistered unless --registered is given: a table serves calls on the kind that it was
measured on. `mscclpp bench` measures registered buffers unless --unregistered is given.
Exit codes: 0 the table is written, 2 invalid calls, 3 the table cannot be written, or ranks are missing")]
pub(crate) struct TuneArgs {
    /// Collectives [default: all]
    #[arg(value_name = "COLLECTIVE", value_parser = collective)]
    pub(crate) collectives: Vec<CollectiveKind>,
    /// First size
    #[arg(short, long, value_name = "SIZE", default_value = "1K", value_parser = size::parse)]
    pub(crate) begin: u64,
    /// Last size
    #[arg(short, long, value_name = "SIZE", default_value = "128M", value_parser = size::parse)]
    pub(crate) end: u64,
    /// Timed calls per candidate [default: 10 of large messages, up to 1000 of small ones]
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) iters: Option<u32>,
    /// Measure calls on registered buffers, for communicators that assume registered buffers
    #[arg(long)]
    pub(crate) registered: bool,
    #[command(flatten)]
    pub(crate) call: CallArgs,
    /// File to write
    #[arg(short, long, value_name = "FILE", default_value = "mscclpp-tuning.toml")]
    pub(crate) output: PathBuf,
    /// Run N ranks in this process, instead of the one that a launcher describes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) ranks: Option<u32>,
}
