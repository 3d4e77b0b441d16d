//! Arguments of `mscclpp bench`.

use clap::Args;
use std::time::Duration;

use mscclpp_communicator::tune::MeasureOptions;
use mscclpp_select::Config;

use super::RootedArgs;
use super::backend::Backend;
use crate::size;

/// Arguments of `mscclpp bench`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  mscclpp bench all_reduce --ranks 2                          two ranks in this process
  mscclpp launch -n 4 -- mscclpp bench all_gather -e 1M       four processes
  mpirun -np 2 mscclpp bench all_reduce --unregistered --json under another launcher
  mscclpp bench all_reduce --ranks 2 --plan allreduce_ring    a given algorithm instead of the selected one
  mscclpp bench --plan plan.json --ranks 4                    a custom plan: JSON, text or an image
  mscclpp bench all_reduce --virtual-ranks 8                  eight ranks as tasks of this process
  mscclpp bench all_reduce --backend cuda --virtual-ranks 8   eight ranks on one CUDA device
  mscclpp bench all_reduce --backend cuda --gpus 8            a rank on each of eight CUDA devices
  mscclpp launch -n 8 -- mscclpp bench all_reduce --backend cuda
                                                              the same with a process for each device
  mscclpp bench all_reduce --backend cuda --specialize        kernels that are specialized for each plan
  mscclpp bench gather --backend cuda --gpus 8                a call that has no plan

Before every call a rank rewrites its input, and after the call it reads its output; neither is timed. All ranks
synchronize, then each times its own call. The reported time is the median over all calls of the slowest rank's time.
Virtual ranks share as many threads as there are cores: the calling thread writes all inputs, reads all outputs and
times launches of all ranks. On a device, launches are replayed in a graph and timed with events; further columns show
the time of single launches and the host time of each.
Buffers are registered unless --unregistered is given; those of gather and scatter never are. Parts of all_to_all_v
have different lengths, and on average that of all_to_all. `mscclpp tune` measures unregistered buffers unless --registered is given, and calls
follow its table on the kind of buffers that it was measured on.
Exit codes: 0 no wrong elements, 1 wrong elements, 2 invalid call, 3 missing ranks")]
pub(crate) struct BenchArgs {
    /// all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, reduce or send_recv; or a call without a plan: gather, scatter,
    /// all_to_all_v or barrier
    #[arg(value_name = "COLLECTIVE", required_unless_present = "plan")]
    pub(crate) collective: Option<String>,
    /// First size; the larger of a rank's input and output
    #[arg(short, long, value_name = "SIZE", default_value = "1K", value_parser = size::parse)]
    pub(crate) begin: u64,
    /// Last size
    #[arg(short, long, value_name = "SIZE", default_value = "64M", value_parser = size::parse)]
    pub(crate) end: u64,
    /// Factor from each size to the next
    #[arg(short, long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(2..))]
    pub(crate) factor: u64,
    /// Timed calls per size [default: 30 of large messages, up to 4000 of small ones; between nodes, at most as many as begin
    /// within 4 s, and at least 10]
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) iters: Option<u32>,
    /// Calls before the timed ones [default: a tenth of them, and 2]
    #[arg(short, long, value_name = "N")]
    pub(crate) warmup: Option<u32>,
    /// Verify the result of one in N calls; 0 for none
    #[arg(short, long, value_name = "N", default_value_t = 10)]
    pub(crate) check: u32,
    /// Use ordinary memory instead of registered buffers
    #[arg(long)]
    pub(crate) unregistered: bool,
    /// In all_to_all_v, send one rank N times as much as each other one [default: each rank another length]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) skew: Option<u32>,
    /// Use one buffer for input and output
    #[arg(long)]
    pub(crate) in_place: bool,
    #[command(flatten)]
    pub(crate) rooted: RootedArgs,
    /// Use this algorithm or plan file instead of the selected algorithm; a plan file has its own collective and ranks
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) plan: Option<String>,
    /// Thread blocks of the algorithm
    #[arg(long, value_name = "N", requires = "plan", value_parser = clap::value_parser!(u32).range(1..=i64::from(Config::MAX_BLOCKS)))]
    pub(crate) blocks: Option<u32>,
    /// Run N ranks in this process, instead of the one that a launcher describes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) ranks: Option<u32>,
    /// Backend: cpu or cuda
    #[arg(long, value_enum, value_name = "BACKEND", default_value_t, hide_possible_values = true)]
    pub(crate) backend: Backend,
    /// CUDA devices whose ranks run in this process, one on each unless --virtual-ranks is given [default: 1]
    #[arg(long, value_name = "N", conflicts_with = "ranks", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) gpus: Option<u32>,
    /// On a device, run kernels that are specialized for the plan and compiled at run time
    #[arg(long)]
    pub(crate) specialize: bool,
    /// Numbers of ranks to run as tasks of one launch, in this process or on devices [default on one device: 2,4,8]
    #[arg(long, value_name = "N,…", value_delimiter = ',', conflicts_with_all = ["ranks", "unregistered"], value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) virtual_ranks: Vec<u32>,
    /// Print one JSON object per size
    #[arg(long)]
    pub(crate) json: bool,
}

impl BenchArgs {
    /// Returns how calls of `bytes` bytes are measured. A given number of calls is made however long they take.
    pub(crate) fn measuring(&self, bytes: u64) -> MeasureOptions {
        let usual = MeasureOptions::for_bytes(bytes);
        let options = match self.iters {
            Some(iterations) => usual.iterations(iterations).warmup(iterations / 10 + 2).max_time(Duration::MAX),
            None => usual,
        };
        options.warmup(self.warmup.unwrap_or(options.warmup)).check(self.check)
    }
}
