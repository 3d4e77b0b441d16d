//! Switch channels through multicast objects.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use libtest_mimic::{Failed, Trial};
use mscclpp_core::plan::Plan;
use mscclpp_core::vocab::ReduceOp;
use mscclpp_exec::algorithms;
use mscclpp_exec::cuda::jit::Cache;
use mscclpp_exec::cuda::{self, Device, World};
use mscclpp_exec::{DataType, Message};
use mscclpp_kernels::{MulticastCounts, Options, machine};

use super::bits::Pair;
use super::devices::with_seeds;
use super::{CACHE, at};

pub(crate) fn tests(seeds: std::ops::Range<u64>) -> Vec<Trial> {
    type Test = fn(u64) -> Result<(), Failed>;
    let tests: [(&str, Test); 1] = [("shipped_algorithms", shipped_algorithms)];
    tests.into_iter().map(|(name, test)| with_seeds(format!("switches::{name}"), seeds.clone(), test)).collect()
}

/// The shipped algorithms with switch channels.
const ALGORITHMS: [&str; 4] =
    ["allreduce_switch", "allreduce_switch_pipeline", "allgather_switch", "allgather_switch_packets"];

/// Somewhere to count.
fn counts() -> &'static MulticastCounts {
    Box::leak(Box::new(MulticastCounts { loads: AtomicU64::new(0), stores: AtomicU64::new(0) }))
}

/// A world with a rank on each of so many devices.
fn world(seed: u64, ranks: u32, counts: &'static MulticastCounts, options: cuda::Options) -> Result<World, Failed> {
    let stop_at_one_of = [0, 16, 3][seed as usize % 3];
    let machine_options = Options { seed, stop_at_one_of, multicast: true, counts: Some(counts), ..Options::default() };
    let with_cache = |driver| Device::with_cache(driver, Cache::at(CACHE));
    let devices: Vec<Device> = machine(machine_options, ranks)?.into_iter().map(with_cache).collect();
    Ok(World::across(&devices, options)?)
}

fn plan(name: &str, ranks: u32) -> Result<Plan, Failed> {
    let algorithm = algorithms::find(name).ok_or("no such algorithm")?;
    Ok(Plan::new(&algorithm.compile(algorithm.spec(ranks, ranks), &algorithm.arguments([])?)?))
}

fn shipped_algorithms(seed: u64) -> Result<(), Failed> {
    for name in ALGORITHMS {
        for ranks in [2, 4, 8] {
            let counts = counts();
            let world = world(seed, ranks, counts, cuda::Options::default())?;
            for dtype in [DataType::F32, DataType::I32] {
                let message = Message::new(dtype, u64::from(ranks) * 128).op(ReduceOp::Sum).any_size();
                let place = format!("{name}, {ranks} ranks, {dtype}");
                let mut pair = Pair::new(&world, &plan(name, ranks)?, message)?.ok_or("too many thread blocks")?;
                pair.check(2).map_err(|failed| at(&place, &failed))?;
                let switches = [pair.run.switches(), pair.buffers.switches().to_vec()].concat();
                assert!(switches.len() == 1 && switches[0].path.is_ok(), "{place}: {switches:?}");
            }
            assert!(counts.stores.load(Relaxed) > 0);
        }
    }
    Ok(())
}
