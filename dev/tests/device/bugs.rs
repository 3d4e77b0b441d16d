//! Bugs injected in the device code: each must be detected. Without them the same runs are correct, which the other
//! tests show.

use std::time::Duration;

use libtest_mimic::{Failed, Trial};
use mscclpp_algorithms as algorithms;
use mscclpp_core::plan::Plan;
use mscclpp_dev::{Options, bugs, simulator, specialized_bugs};
use mscclpp_exec::cuda::jit::Cache;
use mscclpp_exec::cuda::{self, Device, Executor, PrepareOptions};
use mscclpp_exec::{DataType, Message};

use super::CACHE;
use super::bits::Pair;
use super::counts;
use super::row_norms;
use super::seeds::some_seed_finds;

pub(crate) fn tests() -> Vec<Trial> {
    let interpreted = bugs().map(|bug| (bug, PrepareOptions::default()));
    let specialized = specialized_bugs().map(|bug| (bug, PrepareOptions::default().specialize(true)));
    let trial = |(bug, prepare)| Trial::test(format!("bugs::{bug}"), move || is_found(bug, prepare));
    interpreted.chain(specialized).map(trial).collect()
}

fn is_found(bug: &'static str, prepare: PrepareOptions) -> Result<(), Failed> {
    some_seed_finds(bug, |seed| {
        let options =
            Options { seed, stop_at_one_of: [0, 16, 3][seed as usize % 3], bug: Some(bug), ..Options::default() };
        let device = Device::with_cache(simulator(options)?, Cache::at(CACHE));
        Ok(run(&device, prepare).is_err())
    })
}

/// Plans that together use all of the device code.
fn run(device: &Device, prepare: PrepareOptions) -> Result<(), Failed> {
    let short = cuda::Options::default().timeout(Duration::from_millis(1));
    /// Name, ranks and ranks per node, arguments.
    type Case = (&'static str, (u32, u32), &'static [(&'static str, usize)]);
    let plans: [Case; 8] = [
        ("allgather_ring", (3, 3), &[]),
        ("allgather_packets", (3, 3), &[]),
        ("allreduce_all_pairs", (3, 3), &[]),
        ("allgather_all_pairs", (3, 3), &[]),
        ("allreduce_packets", (3, 3), &[]),
        ("allreduce_ring_ports", (3, 3), &[]),
        ("allreduce_one_shot_packets", (3, 3), &[("group", 4)]),
        ("allgather_node_ring", (4, 2), &[("group", 2)]),
    ];
    for (name, (ranks, ranks_per_node), given) in plans {
        let algorithm = algorithms::find(name).ok_or("no such algorithm")?;
        let arguments = algorithm.arguments(given.iter().copied())?;
        let plan = Plan::new(&algorithm.compile_tree(algorithm.spec(ranks, ranks_per_node), &arguments)?);
        let world = Executor::with_options(device, ranks, short);
        for count in [20, 37, 64].map(|each| each * u64::from(ranks)) {
            let message = Message::new(DataType::F32, count).any_size();
            let mut pair = Pair::with(&world, &plan, message, prepare)?.ok_or("too many thread blocks")?;
            assert_eq!(pair.run.specialized().is_ok(), prepare.specialize, "{:?}", pair.run.specialized());
            pair.check(3)?;
        }
    }
    if !prepare.specialize {
        counts::exchange(device, short)?;
        row_norms::normalize(device, short)?;
    }
    Ok(())
}
