//! The part of a process that is a rank.

use std::sync::Arc;

use libtest_mimic::Failed;
use mscclpp_algorithms as algorithms;
use mscclpp_bootstrap::Bootstrap;
use mscclpp_communicator::Communicator;
use mscclpp_core::plan::Plan;
use mscclpp_dev::{Options, simulator};
use mscclpp_exec::cuda::jit::Cache;
use mscclpp_exec::cuda::{self, Device, Executor};
use mscclpp_exec::{DataType, Message};

use super::{Work, allgathers, files_and_handles, machine_options};
use crate::bits::shipped;
use crate::{CACHE, communicator, mock, nodes};

/// Name of the variable that makes this program a rank: the role, the driver, and the seed.
pub(super) const RANK: &str = "MSCCLPP_TEST_RANK";

/// Algorithms that processes run: signals, packets, ports, switches.
const OF_PROCESSES: [&str; 4] =
    ["allreduce_all_pairs", "allreduce_packets", "allgather_ring_ports", "allreduce_switch"];

/// State of a process in a role.
pub(crate) struct Player {
    pub(crate) group: Arc<Bootstrap>,
    driver: String,
    pub(crate) seed: u64,
}

impl Player {
    /// Opens a separate device, with the driver that it needs.
    pub(crate) fn device(&self, options: Options) -> Result<(Device, Option<mock::Mock>), Failed> {
        Ok(match self.driver.as_str() {
            "cuda" => (Device::new(0)?, None),
            "mock" => {
                let rig = mock::driver()?.devices(options, 1)?;
                (rig.devices[0].clone(), Some(rig))
            }
            _ => (Device::with_cache(simulator(options)?, Cache::at(CACHE)), None),
        })
    }

    /// Returns whether there is a compiler at run time.
    pub(crate) fn compiles(&self) -> bool {
        self.driver != "mock"
    }
}

/// Runs the part of this process if it is a rank; returns its result.
pub(crate) fn rank() -> Option<Result<(), Failed>> {
    let what = std::env::var(RANK).ok()?;
    let work = || -> Result<(), Failed> {
        let [role, driver, seed] = what.split(' ').collect::<Vec<_>>().try_into().map_err(|_| "no role")?;
        let communicator = role.starts_with("communicator").then(Communicator::from_env).transpose()?;
        let group = match &communicator {
            Some(communicator) => Arc::clone(communicator.bootstrap()),
            None => Arc::new(Bootstrap::from_env()?),
        };
        let player = Player { group, driver: driver.to_owned(), seed: seed.parse()? };
        if let Some(communicator) = communicator {
            return communicator::play(role, &player, &communicator);
        }
        match role {
            "processes" => beside_one_another(&player),
            "handles" => on_one_device(&player, |_| false),
            "descriptors" => on_one_device(&player, |_| true),
            "hosts" => between_hosts(&player),
            "hidden" => on_hidden_devices(&player),
            _ => nodes::play(role, &player),
        }
    };
    Some(work())
}

/// Plans of ranks on one node.
fn beside_one_another(player: &Player) -> Result<(), Failed> {
    let (group, rank) = (&player.group, player.group.rank());
    for files in [false, player.driver != "mock"] {
        let (device, _rig) = player.device(machine_options(player.seed, rank, files))?;
        let world = Executor::connect(group, &device, cuda::Options::default())?;
        for name in OF_PROCESSES {
            let message = Message::new(DataType::F32, 2 * 53).any_size();
            let work = Work::new(shipped(name, 2)?, message, 3)?;
            work.run(&world, rank).map_err(|error| format!("{name}: {error}"))?;
        }
        files_and_handles(&world, &device, rank, "allgather_all_pairs")?;
        let run = world.prepare(&shipped("allreduce_switch", 2)?, Message::new(DataType::F32, 64))?;
        let buffers = run.buffers()?;
        let by_multicast = buffers.switch_paths().iter().all(|switch| switch.path.is_ok());
        assert_eq!(by_multicast, device.is_nvls_supported(), "{:?}", buffers.switch_paths());
    }
    Ok(())
}

/// Plans of processes that do not see the devices of each other, and therefore cannot open interprocess handles.
fn on_hidden_devices(player: &Player) -> Result<(), Failed> {
    let (group, rank) = (&player.group, player.group.rank());
    let failing = Some(("cuIpcGetMemHandle", 1));
    let (device, _rig) = player.device(Options { failing, ..machine_options(player.seed, rank, false) })?;
    let world = Executor::connect(group, &device, cuda::Options::default())?;
    for name in OF_PROCESSES {
        let work = Work::new(shipped(name, 2)?, Message::new(DataType::F32, 2 * 53).any_size(), 3)?;
        work.run(&world, rank).map_err(|error| format!("{name}: {error}"))?;
    }
    Ok(())
}

/// Plans of ranks on one device; `is_shared`: whether the memory of their all-gathers is allocated to be shared.
fn on_one_device(player: &Player, is_shared: fn(u8) -> bool) -> Result<(), Failed> {
    let (group, rank) = (&player.group, player.group.rank());
    let (device, _rig) = player.device(machine_options(player.seed, rank, false))?;
    let world = Executor::connect(group, &device, cuda::Options::default())?;
    allgathers(&world, &device, rank, "allgather_all_pairs", is_shared)?;
    for name in OF_PROCESSES {
        let message = Message::new(DataType::F32, u64::from(world.num_ranks()) * 53).any_size();
        let work = Work::new(shipped(name, world.num_ranks())?, message, 3)?;
        work.run(&world, rank).map_err(|error| format!("{name}: {error}"))?;
    }
    Ok(())
}

/// Plans through port channels, between two hosts and within them.
fn between_hosts(player: &Player) -> Result<(), Failed> {
    let (group, rank) = (&player.group, player.group.rank());
    let (device, _rig) = player.device(machine_options(player.seed, rank, false))?;
    let world = Executor::connect(group, &device, cuda::Options::default())?;
    let (ranks, per_node) = (world.num_ranks(), world.num_ranks() / 2);
    for name in ["allreduce_ring_ports", "allgather_ring_ports", "alltoall_ports", "allreduce_hierarchical"] {
        let algorithm = algorithms::find(name).ok_or("no such algorithm")?;
        if !algorithm.supports(ranks, per_node) {
            continue;
        }
        let plan = Plan::new(&algorithm.compile_tree(algorithm.spec(ranks, per_node), &algorithm.arguments([])?)?);
        let message = Message::new(DataType::F32, u64::from(ranks) * 5003).any_size();
        let work = Work::new(plan, message, 3)?;
        work.run(&world, rank).map_err(|error| format!("{name}: {error}"))?;
    }
    Ok(())
}
