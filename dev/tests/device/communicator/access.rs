//! Devices of one host of which not all can access one another's memory: their ranks reach each other through port channels,
//! and data goes through memory of the host. The simulator rejects any other access.

use libtest_mimic::Failed;
use mscclpp_communicator::{Communicator, OnStream};
use mscclpp_core::collective::CollectiveKind::{AllGather, AllReduce};
use mscclpp_core::types::ReduceOp;
use mscclpp_dev::Options;
use mscclpp_exec::cuda::{Device, DeviceVec, PeerPath};

use super::cases::{Case, Home, call, every_case};
use super::{Rank, each_on, group_options};
use crate::processes::{Job, Player, machine_options};

/// A job of processes.
struct World {
    role: &'static str,
    ranks: u32,
    /// Ranks of a host.
    per_host: u32,
    /// Consecutive devices of a host that can access one another's memory; 0: all.
    peers: u32,
    /// Fabric of a rank.
    fabric: fn(u32) -> Option<u32>,
    /// Ranks that cannot export memory to other hosts of the fabric, and import it.
    no_export: fn(u32) -> bool,
    no_import: fn(u32) -> bool,
    /// Expected node of a rank, and number of ranks per node.
    node_of: fn(u32) -> u32,
    ranks_per_node: u32,
}

const NONE: World = World {
    role: "",
    ranks: 4,
    per_host: 4,
    peers: 0,
    fabric: |_| None,
    no_export: |_| false,
    no_import: |_| false,
    node_of: |_| 0,
    ranks_per_node: 4,
};

/// Hosts of two devices each in one NVLink domain.
const DOMAIN: World = World { role: "communicator_domain", per_host: 2, fabric: |_| Some(0), ..NONE };

const WORLDS: [World; 8] = [
    World {
        role: "communicator_apart",
        ranks: 2,
        per_host: 2,
        peers: 1,
        node_of: |rank| rank,
        ranks_per_node: 1,
        ..NONE
    },
    World { role: "communicator_all_apart", peers: 1, node_of: |rank| rank, ranks_per_node: 1, ..NONE },
    World { role: "communicator_pairs", peers: 2, node_of: |rank| rank / 2, ranks_per_node: 2, ..NONE },
    DOMAIN,
    World {
        role: "communicator_domains",
        per_host: 1,
        fabric: |rank| Some(rank / 2),
        node_of: |rank| rank / 2,
        ranks_per_node: 2,
        ..NONE
    },
    World {
        role: "communicator_domain_without_export",
        no_export: |_| true,
        node_of: |rank| rank / 2,
        ranks_per_node: 2,
        ..DOMAIN
    },
    World {
        role: "communicator_domain_without_import",
        no_import: |rank| rank >= 2,
        node_of: |rank| rank / 2,
        ranks_per_node: 2,
        ..DOMAIN
    },
    // The second host is divided: its first rank reaches all others.
    World {
        role: "communicator_rank_without_import",
        no_import: |rank| rank == 3,
        node_of: |rank| rank / 3,
        ranks_per_node: 1,
        ..DOMAIN
    },
];

/// What reasons against access say.
const REASONS: [&str; 5] = [
    "cannot access the memory of",
    "cannot map the memory of",
    "cannot share its memory with other hosts",
    "different NVLink domains",
    "not all ranks of both nodes",
];

/// Checks the nodes and paths of a call that was made.
fn check(
    on: &OnStream<'_>,
    comm: &Communicator,
    ranks_per_node: u32,
    node_of: impl Fn(u32) -> u32,
) -> Result<(), Failed> {
    let last = on.last_call()?.ok_or("no call")?;
    if last.request.ranks_per_node != ranks_per_node {
        return Err(format!("{} ranks per node, expected {ranks_per_node}", last.request.ranks_per_node).into());
    }
    let paths = on.peer_paths()?.ok_or("no paths")?;
    for (peer, path) in (0..).zip(&paths) {
        let is_as_expected = match path {
            PeerPath::Host { reason } => {
                let says_why = REASONS.iter().any(|text| reason.contains(text));
                node_of(peer) != node_of(comm.rank()) && says_why
            }
            PeerPath::SameDevice => peer == comm.rank(),
            _ => node_of(peer) == node_of(comm.rank()) && peer != comm.rank(),
        };
        if !is_as_expected {
            return Err(format!("rank {peer}: {path:?}").into());
        }
    }
    Ok(())
}

/// Every call, on registered and other memory.
fn calls(comm: &Communicator, device: &Device, lengths: &[usize]) -> Result<(), Failed> {
    for home in [Home::Registered, Home::Own] {
        every_case::<f32>(comm, device, home, lengths, &[ReduceOp::Sum])?;
    }
    Ok(())
}

/// Checks how a call is made.
fn check_call(
    comm: &Communicator,
    device: &Device,
    ranks_per_node: u32,
    node_of: impl Fn(u32) -> u32,
) -> Result<(), Failed> {
    let stream = device.stream()?;
    let on = comm.on(&stream);
    let mut memory: DeviceVec<i32> = on.alloc(comm.num_ranks() as usize)?;
    on.all_reduce_in_place(&mut memory, ReduceOp::Max)?;
    on.barrier()?;
    on.synchronize()?;
    check(&on, comm, ranks_per_node, node_of)
}

fn on_separate_devices(seed: u64, ranks: u32, run: impl Rank) -> Result<(), Failed> {
    let options = Options { peers: 1, multicast: 0, ..machine_options(seed, 0, false) };
    each_on(options, ranks, ranks, group_options(120), run).into_iter().collect()
}

fn in_threads(seed: u64, ranks: u32, peers: u32, lengths: &[usize]) -> Result<(), Failed> {
    let options = Options { peers, multicast: 0, ..machine_options(seed, 0, false) };
    let ranks_per_node = if ranks.is_multiple_of(peers) { peers } else { 1 };
    let run = |comm: &Communicator, device: &Device| {
        calls(comm, device, lengths)?;
        check_call(comm, device, ranks_per_node, |rank| rank / peers)
    };
    let results: Result<(), Failed> = each_on(options, ranks, ranks, group_options(120), run).into_iter().collect();
    results.map_err(|failed| crate::at(format_args!("{ranks} devices in groups of {peers}"), &failed))
}

pub(super) fn devices_without_access_of_one_process(seed: u64) -> Result<(), Failed> {
    in_threads(seed, 2, 1, &[1, 53, 0])?;
    in_threads(seed, 4, 1, &[19])?;
    on_separate_devices(seed, 2, |comm, device| {
        let case = |kind| Case { kind, op: ReduceOp::Sum, root: 0 };
        for (kind, expected) in [(AllReduce, "allreduce_ring_ports"), (AllGather, "allgather_ring_ports")] {
            let each = if kind == AllReduce { 140_003 } else { 70_001 };
            call::<f32>(comm, device, case(kind), each, Home::Registered, false)?;
            let last = comm.on(&device.stream()?).last_call()?.and_then(|last| last.algorithm);
            assert_eq!(last.as_deref(), Some(expected));
        }
        Ok(())
    })
}

pub(super) fn pairs_of_devices_with_access(seed: u64) -> Result<(), Failed> {
    in_threads(seed, 4, 2, &[19])?;
    // A rank without a partner.
    in_threads(seed, 3, 2, &[7])
}

pub(super) fn devices_without_access_of_processes(seed: u64) -> Result<(), Failed> {
    let roles = ["communicator_apart", "communicator_all_apart", "communicator_pairs"];
    roles.into_iter().try_for_each(|role| in_processes(role, "simulator", seed))
}

pub(super) fn hosts_in_one_domain(seed: u64) -> Result<(), Failed> {
    // With multicast objects and without.
    (seed..seed + 2).try_for_each(|seed| in_processes("communicator_domain", "simulator", seed))
}

pub(super) fn hosts_in_two_domains(seed: u64) -> Result<(), Failed> {
    in_processes("communicator_domains", "simulator", seed)
}

/// Ranks that may not use the fabric are on different nodes.
pub(super) fn domain_that_cannot_be_used(seed: u64) -> Result<(), Failed> {
    let roles = [
        "communicator_domain_without_export",
        "communicator_domain_without_import",
        "communicator_rank_without_import",
    ];
    roles.into_iter().try_for_each(|role| in_processes(role, "simulator", seed))
}

fn world(role: &str) -> Option<&'static World> {
    const ALL: &[World] = &WORLDS;
    ALL.iter().find(|world| world.role == role)
}

/// Returns whether a role is one of these.
pub(super) fn is_role(role: &str) -> bool {
    world(role).is_some()
}

pub(super) fn in_processes(role: &str, driver: &str, seed: u64) -> Result<(), Failed> {
    let &World { ranks, per_host, .. } = world(role).ok_or("no such role")?;
    let done = Job::start(role, driver, seed, ranks, per_host)?.succeed();
    done.map_err(|failed| crate::at(format_args!("{role}, {ranks} ranks"), &failed))
}

/// The part of a process.
pub(super) fn play(role: &str, comm: &Communicator, player: &Player) -> Result<(), Failed> {
    let world = world(role).ok_or("no such role")?;
    let rank = comm.rank();
    let options = Options {
        peers: world.peers,
        first_device: rank % world.per_host,
        fabric: (world.fabric)(rank),
        no_export: (world.no_export)(rank),
        no_import: (world.no_import)(rank),
        ..machine_options(player.seed, rank, false)
    };
    let multicast = if world.peers == 0 { options.multicast } else { 0 };
    let (device, _rig) = player.device(Options { multicast, ..options })?;
    calls(comm, &device, &[53])?;
    check_call(comm, &device, world.ranks_per_node, world.node_of)?;
    // A switch channel spans the hosts of the domain.
    let is_switch = world.ranks_per_node == comm.num_ranks() && device.is_nvls_supported();
    let stream = device.stream()?;
    let mut memory: DeviceVec<i32> = comm.on(&stream).alloc(300)?;
    comm.on(&stream).all_reduce_in_place(&mut memory, ReduceOp::Sum)?;
    comm.on(&stream).synchronize()?;
    let algorithm = comm.on(&stream).last_call()?.and_then(|last| last.algorithm).unwrap_or_default();
    if (algorithm == "allreduce_switch_packets") != is_switch {
        return Err(format!("{algorithm} with multicast objects: {is_switch}").into());
    }
    Ok(())
}
