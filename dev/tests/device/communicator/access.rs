//! Devices of one host of which not all can access one another's memory: their ranks reach each other through port channels,
//! and data goes through memory of the host. The simulator rejects any other access.

use libtest_mimic::Failed;
use mscclpp_core::collective::CollectiveKind::{AllGather, AllReduce};
use mscclpp_core::types::ReduceOp;
use mscclpp_dev::Options;
use mscclpp_exec::cuda::{Device, DeviceVec, PeerPath};
use mscclpp_exec::{Communicator, OnStream};

use super::cases::{Case, Home, call, every_case};
use super::{Rank, each_on, group_options};
use crate::processes::{Job, Player, machine_options};

/// Jobs of processes: role, ranks, and devices that can access one another's memory.
const JOBS: [(&str, u32, u32); 3] =
    [("communicator_apart", 2, 1), ("communicator_apart", 4, 1), ("communicator_pairs", 4, 2)];

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
                let says_why =
                    reason.contains("cannot access the memory of") || reason.contains("cannot map the memory of");
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

/// Every call, on registered and other memory, on ranks of which groups of `peers` have access.
fn calls(comm: &Communicator, device: &Device, peers: u32, lengths: &[usize]) -> Result<(), Failed> {
    for home in [Home::Registered, Home::Own] {
        every_case::<f32>(comm, device, home, lengths, &[ReduceOp::Sum])?;
    }
    let stream = device.stream()?;
    let on = comm.on(&stream);
    let mut memory: DeviceVec<i32> = on.alloc(comm.num_ranks() as usize)?;
    on.all_reduce_in_place(&mut memory, ReduceOp::Max)?;
    on.barrier()?;
    on.synchronize()?;
    let is_regular = comm.num_ranks().is_multiple_of(peers);
    check(&on, comm, if is_regular { peers } else { 1 }, |rank| rank / peers)
}

fn on_separate_devices(seed: u64, ranks: u32, run: impl Rank) -> Result<(), Failed> {
    let options = Options { peers: 1, multicast: 0, ..machine_options(seed, 0, false) };
    each_on(options, ranks, ranks, group_options(120), run).into_iter().collect()
}

fn in_threads(seed: u64, ranks: u32, peers: u32, lengths: &[usize]) -> Result<(), Failed> {
    let options = Options { peers, multicast: 0, ..machine_options(seed, 0, false) };
    let run = |comm: &Communicator, device: &Device| calls(comm, device, peers, lengths);
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
    JOBS.into_iter().try_for_each(|(role, ranks, _)| in_processes(role, "simulator", seed, ranks))
}

pub(super) fn in_processes(role: &str, driver: &str, seed: u64, ranks: u32) -> Result<(), Failed> {
    let done = Job::start(role, driver, seed, ranks, ranks)?.succeed();
    done.map_err(|failed| crate::at(format_args!("{role}, {ranks} ranks"), &failed))
}

/// The part of a process.
pub(super) fn play(role: &str, comm: &Communicator, player: &Player) -> Result<(), Failed> {
    let peers = JOBS.into_iter().find(|(name, ..)| *name == role).map(|(.., peers)| peers).ok_or("no such role")?;
    let first_device = comm.rank();
    let options = Options { peers, first_device, multicast: 0, ..machine_options(player.seed, comm.rank(), false) };
    let (device, _rig) = player.device(options)?;
    calls(comm, &device, peers, &[53])
}
