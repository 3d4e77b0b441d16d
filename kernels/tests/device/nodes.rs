//! Ranks on several nodes: processes of the system that take themselves to be on different ones, each with a device of its own.

use std::ops::Range;

use libtest_mimic::{Failed, Trial};
use mscclpp_core::plan::Plan;
use mscclpp_exec::algorithms::{self, Placement, Shipped};
use mscclpp_exec::cuda::{self, World};
use mscclpp_exec::{DataType, Error, Message};

use super::devices::with_seeds;
use super::processes::{Job, Player, Work, machine_options};

/// Roles that all ranks play well, with ranks and ranks per node.
const ROLES: [(&str, u32, u32); 2] = [("one_link", 2, 1), ("two_nodes", 4, 2)];

pub(crate) fn tests(seeds: Range<u64>) -> Vec<Trial> {
    let roles = ROLES.into_iter().map(|(role, ranks, per_node)| {
        with_seeds(format!("nodes::{role}"), seeds.clone(), move |seed| {
            Job::start(role, "simulator", seed, ranks, per_node)?.succeed()
        })
    });
    let killed = with_seeds("nodes::a_rank_that_is_killed".into(), seeds.clone(), a_rank_that_is_killed);
    roles.chain([killed]).collect()
}

/// The same with the mock driver.
pub(crate) fn on_mock(seed: u64) -> Vec<Trial> {
    let role = |(role, ranks, per_node)| {
        Trial::test(format!("mock::nodes::{role}"), move || Job::start(role, "mock", seed, ranks, per_node)?.succeed())
    };
    ROLES.into_iter().map(role).collect()
}

/// What a process does in a role.
pub(crate) fn play(role: &str, player: &Player) -> Result<(), Failed> {
    let rank = player.group.rank();
    let (device, _rig) = player.device(machine_options(player.seed, rank, false))?;
    let world = World::join(&player.group, &device, cuda::Options::default())?;
    if player.group.num_nodes() != 2 {
        return Err(format!("{} nodes", player.group.num_nodes()).into());
    }
    match role {
        "one_link" => one_link(&world, rank),
        "two_nodes" => two_nodes(&world, player),
        "killed" => launches_until_an_error(&world, rank),
        _ => Err(format!("no role `{role}`").into()),
    }
}

/// The plan of an algorithm on ranks of which some share a node.
fn plan_of(algorithm: &Shipped, ranks: u32, per_node: u32) -> Result<Plan, Failed> {
    let mut spec = algorithm.spec(ranks, per_node);
    spec.collective.in_place = algorithm.placement() == Placement::InPlace;
    Ok(Plan::new(&algorithm.compile(spec, &algorithm.arguments([])?)?))
}

fn shipped(name: &str, ranks: u32, per_node: u32) -> Result<Plan, Failed> {
    plan_of(algorithms::find(name).ok_or("no such algorithm")?, ranks, per_node)
}

/// Two ranks, all through ports.
fn one_link(world: &World, rank: u32) -> Result<(), Failed> {
    let plan = shipped("allgather_ring_ports", 2, 1)?;
    for dtype in [DataType::F32, DataType::F16, DataType::U8] {
        let work = Work::new(plan.clone(), Message::new(dtype, 106).any_size(), 3)?;
        work.run(world, rank)?;
    }
    Ok(())
}

/// Algorithms that must not be refused on several nodes.
const ACROSS: [&str; 8] = [
    "allgather_ring_ports",
    "allgather_two_nodes",
    "allgather_hierarchical",
    "allgather_hierarchical_packets",
    "allreduce_ring_ports",
    "allreduce_hierarchical",
    "allreduce_hierarchical_packets",
    "reducescatter_hierarchical",
];

/// Every shipped algorithm, unless it reaches memory across nodes.
fn two_nodes(world: &World, player: &Player) -> Result<(), Failed> {
    let rank = player.group.rank();
    let mut ran = Vec::new();
    for (number, algorithm) in (player.seed..).zip(algorithms::all()) {
        if !algorithm.supports(4, 2) {
            continue;
        }
        let plan = plan_of(algorithm, 4, 2)?;
        let name = algorithm.name();
        let [dtype, other] = [DataType::F32, [DataType::BF16, DataType::U8, DataType::F16][number as usize % 3]];
        for (dtype, count) in [(dtype, 4 * 53), (other, 4 * 19)] {
            let work = Work::new(plan.clone(), Message::new(dtype, count).any_size(), 2)?;
            match work.run(world, rank) {
                Ok(()) => ran.push(name),
                Err(Error::OtherNode { node, other, .. }) if node != other => {}
                Err(error) => return Err(format!("{name}, {count} {dtype}: {error}").into()),
            }
        }
    }
    match ACROSS.into_iter().find(|name| !ran.contains(name)) {
        None => Ok(()),
        Some(name) => Err(format!("{name} was refused").into()),
    }
}

/// Launches until one fails, which must name rank 1; says `ready` after some.
fn launches_until_an_error(world: &World, rank: u32) -> Result<(), Failed> {
    let plan = shipped("allreduce_ring_ports", world.num_ranks(), 2)?;
    let mut run = world.prepare(&plan, Message::new(DataType::F32, 400).any_size())?;
    let (mut buffers, stream) = (run.buffers()?, world.stream()?);
    for launch in 0.. {
        let launched = run.launch_buffers(&mut buffers, &stream).and_then(|()| run.synchronize(&stream));
        match launched {
            Ok(()) if launch == 3 => println!("ready"),
            Ok(()) => {}
            Err(error) if error.to_string().contains("rank 1 (pid") => break,
            Err(error) => return Err(format!("rank {rank}: {error:?}").into()),
        }
    }
    match run.launch_buffers(&mut buffers, &stream) {
        Err(Error::Broken { .. }) => Ok(()),
        other => Err(format!("after an error: {other:?}").into()),
    }
}

/// The others hear of it, each of them from whoever it waits for, and who died is named.
fn a_rank_that_is_killed(seed: u64) -> Result<(), Failed> {
    let mut job = Job::start("killed", "simulator", seed, 4, 2)?;
    (0..4).try_for_each(|rank| job.wait_for_line(rank, "ready\n"))?;
    job.kill(1)?;
    let ended = job.wait()?;
    for (rank, (succeeded, text)) in ended.iter().enumerate().filter(|(rank, _)| *rank != 1) {
        if !succeeded {
            return Err(format!("rank {rank}: {text}").into());
        }
    }
    Ok(())
}
