//! Describes the CPU of this machine: constants are fitted to times of plans on the CPU executor.

use std::process::ExitCode;

use mscclpp_communicator::tune::{MeasureOptions, measure_executor};
use mscclpp_core::plan::Plan;
use mscclpp_core::plan::raw::PlanTree;
use mscclpp_exec::DataType;
use mscclpp_exec::cpu::{Executor, Options};
use mscclpp_predict::Machine;
use mscclpp_select::Request;
use mscclpp_select::tuning::MachineInfo;

use super::points::Points;
use super::{BLOCKS_HEAD, Described, constant, fit, invalid, printable, sizes};
use crate::args::MachineMeasureArgs;
use crate::error::{Error, Result};
use crate::memory;

/// Number of ranks, and the first and last size, unless they are given.
const RANKS: u32 = 4;
const SIZES: (u64, u64) = (1 << 10, 1 << 20);

/// Most calls of a point.
const MAX_CALLS: u32 = 100;

/// The constants that are fitted, with the values from which the search begins.
const START: [(&str, f64); 13] = [
    ("launch_us", 0.5),
    ("op_us", 0.05),
    ("sync_us", 0.01),
    ("signal_us", 0.05),
    ("packet_us", 0.05),
    ("load_us", 0.02),
    ("local_us", 0.02),
    ("block_put_gb_per_s", 10.0),
    ("block_get_gb_per_s", 10.0),
    ("block_local_gb_per_s", 20.0),
    ("block_packet_gb_per_s", 1.0),
    ("block_sum_gb_per_s", 5.0),
    ("memory_gb_per_s", 20.0),
];
/// Constants of the cache, which are fitted as well.
const CACHE: [(&str, f64); 2] = [("cache_mib", 8.0), ("cache_gb_per_s", 40.0)];

/// Measures plans, fits the constants to one half of the times, and compares predictions with the other half.
///
/// # Errors
/// Those of runs and of the output.
pub(super) fn measure(args: &MachineMeasureArgs) -> Result<ExitCode> {
    if args.gpus.is_some() || args.iters.is_some() {
        return Err(Error::Usage("--gpus and --iters require --backend cuda".into()));
    }
    let ranks = args.ranks.unwrap_or(RANKS);
    let points = points(args, ranks)?;
    let blocks = format!("{BLOCKS_HEAD}default = 1\n");
    let source = format!("fitted to {} times that were measured on this machine", points.all.len().div_ceil(2));
    let start = START.iter().chain(&CACHE);
    let before: String = start.clone().map(|(name, value)| constant(name, *value, &source, true)).collect();
    let mut machine = Machine::parse(&(head(args, ranks) + &before + &blocks)).map_err(invalid)?;
    let keys: Vec<&str> = start.map(|(name, _)| *name).collect();
    fit::fit(&mut machine, &keys, |machine| points.cost(machine));
    let fitted = machine.constants.0.iter();
    let fitted: String = fitted.map(|(name, found)| constant(name, found.value, &found.source, true)).collect();
    Described { text: head(args, ranks) + &fitted + &blocks, points, devices: None }.report(args)
}

/// Measures the built-in algorithms.
fn points(args: &MachineMeasureArgs, ranks: u32) -> Result<Points> {
    let (first, last) = args.sizes.unwrap_or(SIZES);
    let all = last.saturating_mul(4).saturating_mul(ranks.into());
    let scratch_limit = memory::require(|| format!("calls of {last} bytes on {ranks} ranks"), all)?;
    let options = Options::default().workers(Some(args.workers as usize)).parallel_from(0).scratch_limit(scratch_limit);
    let world = Executor::with_options(ranks, options);
    Points::measure(ranks, &sizes((first, last), 4), 1, |tree: &PlanTree, bytes| {
        let request = Request {
            in_place: tree.collective.in_place,
            virtual_ranks: true,
            ..Request::new(tree.collective.kind, ranks, DataType::F32, bytes)
        };
        let mut measuring = MeasureOptions::for_bytes(bytes.saturating_mul(ranks.into()));
        measuring.iterations = measuring.iterations.min(MAX_CALLS);
        let measured = measure_executor(&world, &Plan::new(tree), &request, measuring.check(0))?;
        Ok(measured.slowest.as_secs_f64() * 1e6)
    })
}

/// Returns the text of a description up to its constants.
fn head(args: &MachineMeasureArgs, ranks: u32) -> String {
    let threads = if args.workers == 1 { "one thread".to_owned() } else { format!("{} threads", args.workers) };
    let processor = printable(&MachineInfo::current().processor);
    format!(
        "name = \"{}\"\ndescription = \"{ranks} ranks as tasks of {threads} on {processor}\"\nranks = {ranks}\n\
         ranks_per_node = {ranks}\nmulticast = false\none_device = true\ncpu = true\nprocessors = {}\n\n[constant]\n",
        args.name, args.workers
    )
}
