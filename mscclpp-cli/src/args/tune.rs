//! Arguments of `mscclpp tune`.

use std::path::PathBuf;

use clap::Args;
use mscclpp_core::collective::CollectiveKind;
use mscclpp_select::Config;

use super::CallArgs;
use super::backend::Backend;
use super::collective::collective;
use crate::size;

/// Arguments of `mscclpp tune`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mscclpp tune --ranks 2 all_reduce                           two ranks in this process
  mscclpp launch -n 4 -- mscclpp tune -o four.toml            four processes, all collectives
  MSCCLPP_TUNING_TABLE=four.toml mscclpp launch -n 4 -- ./train
  mscclpp tune --backend cuda --gpus 8 all_reduce             a rank on each of eight CUDA devices, in this process

Every algorithm that is eligible for a call is measured with several numbers of thread blocks; the table names the
fastest and the times of the others. Rank 0 writes it. A table has one entry per power of two from 1K to 256M, to which
the given sizes are rounded. Buffers are unregistered unless --registered is given: a table serves calls on the kind that it was
measured on. `mscclpp bench` measures registered buffers unless --unregistered is given. On devices launches are timed in graphs,
and the table, which names devices and driver, serves calls on any memory.
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
    /// Numbers of thread blocks to measure, where algorithms exist with several [default: those worth trying]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=i64::from(Config::MAX_BLOCKS)))]
    pub(crate) blocks: Vec<u32>,
    /// Numbers of CUDA threads per thread block to measure [default: 512,768,1024]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(32..=1024))]
    pub(crate) threads: Vec<u32>,
    #[command(flatten)]
    pub(crate) call: CallArgs,
    /// File to write
    #[arg(short, long, value_name = "FILE", default_value = "mscclpp-tuning.toml")]
    pub(crate) output: PathBuf,
    /// Run N ranks in this process, instead of the one that a launcher describes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) ranks: Option<u32>,
    /// Backend: cpu or cuda
    #[arg(long, value_enum, value_name = "BACKEND", default_value_t, hide_possible_values = true)]
    pub(crate) backend: Backend,
    /// CUDA devices whose ranks run in this process, one on each unless --virtual-ranks is given [default: 1]
    #[arg(long, value_name = "N", conflicts_with = "ranks", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) gpus: Option<u32>,
    /// Number of ranks on the devices [default: one on each]
    #[arg(long, value_name = "N", conflicts_with_all = ["ranks", "registered"], value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) virtual_ranks: Option<u32>,
}
