//! Channels for user-supplied kernels between nodes: port channels through the proxies of both sides, and nothing else.

use libtest_mimic::Failed;
use mscclpp_communicator::Communicator;
use mscclpp_exec::Error;
use mscclpp_exec::cuda::Device;
use mscclpp_exec::cuda::MulticastUnavailable;
use mscclpp_exec::cuda::channels::ChannelError;
use mscclpp_exec::error::ErrorKind;

use super::channels::{Gather, element, module, options};
use super::failure;
use crate::processes::Job;

pub(super) fn gathered(seed: u64) -> Result<(), Failed> {
    for (ranks, per_node) in [(2, 1), (4, 2)] {
        Job::start("communicator_channels_of_nodes", "simulator", seed, ranks, per_node)?.succeed()?;
    }
    Ok(())
}

pub(super) fn request_beyond_the_memory_is_reported(seed: u64) -> Result<(), Failed> {
    Job::start("communicator_channels_beyond", "simulator", seed, 2, 1)?.succeed()
}

/// Returns the node of a rank.
fn node(comm: &Communicator, rank: u32) -> Result<u32, Failed> {
    Ok(comm.bootstrap().node_of(rank)?)
}

/// The part of a process: gathers by port channels at several sizes; one of them takes more than the page-locked memory for it.
pub(super) fn play(comm: &Communicator, device: &Device) -> Result<(), Failed> {
    let (rank, ranks, stream) = (comm.rank(), comm.num_ranks(), device.stream()?);
    let module = module(device)?;
    for len in [1_usize, 26, 700_001] {
        let memory = comm.on(&stream).alloc::<u32>(len * ranks as usize)?;
        let mut channels = comm.on(&stream).channels(memory, options())?;
        for launch in 0..2 {
            let mut before = vec![0_u32; len * ranks as usize];
            for (at, value) in before[rank as usize * len..][..len].iter_mut().enumerate() {
                *value = element(rank, at) + launch;
            }
            comm.barrier()?;
            channels.local_mut().write(&before)?;
            comm.barrier()?;
            Gather::of_ports(comm, &channels, 4 * len as u64)?.launch(&module, "by_port", &stream)?;
            channels.synchronize(&stream)?;
            let found = channels.local().to_vec()?;
            let expected = (0..ranks).flat_map(|rank| (0..len).map(move |at| element(rank, at) + launch));
            if let Some((at, (found, expected))) =
                found.iter().zip(expected).enumerate().find(|(_, (found, expected))| **found != *expected)
            {
                return Err(format!("launch {launch} of {len}: {found} at {at}, expected {expected}").into());
            }
        }
        for peer in 0..ranks {
            let is_here = node(comm, peer)? == node(comm, rank)?;
            for found in [channels.memory(peer, 0).map(drop), channels.remote(peer).map(drop)] {
                match found {
                    Ok(()) if is_here => {}
                    Err(Error::CrossNodeAccess { rank: of, peer: with, .. })
                        if !is_here && (of, with) == (rank, peer) => {}
                    other => return Err(format!("memory of rank {peer} from rank {rank}: {other:?}").into()),
                }
            }
        }
        let error = failure(channels.switch())?;
        if !matches!(error, Error::CrossNodeAccess { .. }) || error.kind() != ErrorKind::Unsupported {
            return Err(format!("a switch channel between nodes: {error:?}").into());
        }
        match channels.multicast() {
            Err(MulticastUnavailable::OtherNode { .. } | MulticastUnavailable::NoHardware { .. }) => {}
            other => return Err(format!("a multicast object between nodes: {other:?}").into()),
        }
        comm.barrier()?;
        channels.stop_proxy()?;
        comm.barrier()?;
    }
    Ok(())
}

/// The part of a process: rank 0 asks for a copy to bytes that rank 1 does not have, while rank 1 waits for its signal.
pub(super) fn play_beyond(comm: &Communicator, device: &Device) -> Result<(), Failed> {
    let (rank, stream) = (comm.rank(), device.stream()?);
    let memory = comm.on(&stream).alloc::<u32>(16)?;
    let channels = comm.on(&stream).channels(memory, options())?;
    let kernel = if rank == 0 { "beyond" } else { "wait_for_port" };
    Gather::of_ports(comm, &channels, 60)?.launch(&module(device)?, kernel, &stream)?;
    let error = failure(channels.synchronize(&stream))?;
    let is_right = match (rank, &error) {
        (0, Error::KernelChannel(error)) => {
            matches!(&**error, ChannelError::InvalidRequest { rank: 0, reason } if reason.contains("unknown address"))
        }
        (1, Error::Bootstrap(_)) => error.root_cause().map(|cause| cause.rank) == Some(0),
        _ => false,
    };
    if is_right { Ok(()) } else { Err(format!("rank {rank}: {error:?}").into()) }
}
