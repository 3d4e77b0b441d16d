//! What a communicator is made of.

use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering;

use mscclpp_communicator::Communicator;

use super::Comm;
use crate::abi::{MAGIC, Team};
use crate::config::Answer;
use crate::device_api::Layout;
use crate::entry::{Failure, Result};
use crate::params;

/// Writes the properties of a communicator to an `ncclCommProperties_t`.
///
/// # Safety
/// As for [`Answer::open`].
pub(crate) unsafe fn properties(comm: &Comm, at: *mut c_void) -> Result<()> {
    let communicator = comm.ready()?;
    // SAFETY: guaranteed by the caller.
    let mut answer = unsafe { Answer::open("props", at, MAGIC) }?;
    let numbers = [communicator.rank(), communicator.num_ranks(), comm.device.ordinal(), comm.device.ordinal()];
    (16..).step_by(4).zip(numbers).for_each(|(at, number)| answer.set(at, &number.to_ne_bytes()));
    // A real NCCL creates the device communicators of calls that are forwarded, and knows what they have.
    let is_one_node = comm.nested().is_none() && communicator.bootstrap().num_nodes() == 1;
    let device = comm.device.properties();
    // No network of devices; one-sided calls within a node.
    answer.set(
        32,
        &[u8::from(is_one_node && device.shareable), u8::from(is_one_node && device.multicast), 0, 0, 0, 0, 0, 0],
    );
    answer.set(40, &communicator.bootstrap().num_nodes().to_ne_bytes());
    answer.set(44, &[u8::from(communicator.bootstrap().num_nodes() == 1), 0, 0, 0]);
    answer.set(48, &[0; 8]);
    answer.set(56, &communicator.bootstrap().number().to_ne_bytes());
    answer.set(64, &[0; 88]);
    // Of kernels that are compiled for the library's version.
    let bytes = Layout::of(params::version()?).map_or(0, Layout::bytes);
    answer.set(136, &bytes.to_ne_bytes());
    Ok(())
}

/// Returns a statistic of memory: 0 the bytes that a suspension releases, 1 whether the communicator is suspended, 2 the bytes that stay,
/// 3 all. Other ranks access the memory of calls, so that none of it is released.
pub(crate) fn memory_statistic(comm: &Comm, statistic: c_int) -> Result<u64> {
    let communicator = comm.ready()?;
    let _calling = comm.calling();
    let (prepared, other) = communicator.device_memory()?;
    match statistic {
        0 => Ok(0),
        1 => Ok(u64::from(comm.is_suspended.load(Ordering::Relaxed))),
        2 | 3 => Ok(prepared + other),
        _ => Err(Failure::argument(format!("stat: expected 0 to 3, found {statistic}"))),
    }
}

fn team(num_ranks: u32, rank: u32, stride: u32) -> Team {
    Team { num_ranks: num_ranks as c_int, rank: rank as c_int, stride: stride as c_int }
}

/// Returns the number of consecutive ranks that access one another's memory.
fn ranks_per_node(communicator: &Communicator) -> u32 {
    communicator.bootstrap().ranks_per_node().max(1)
}

/// Returns the team of all ranks.
pub(crate) fn team_world(comm: &Comm) -> Result<Team> {
    let communicator = comm.ready()?;
    Ok(team(communicator.num_ranks(), communicator.rank(), 1))
}

/// Returns the team of the ranks that access this one's memory.
pub(crate) fn team_lsa(comm: &Comm) -> Result<Team> {
    let communicator = comm.ready()?;
    let ranks = ranks_per_node(&communicator);
    Ok(team(ranks, communicator.rank() % ranks, 1))
}

/// Returns the team of the ranks with the same number in their nodes.
pub(crate) fn team_rail(comm: &Comm) -> Result<Team> {
    let communicator = comm.ready()?;
    let ranks = ranks_per_node(&communicator);
    Ok(team(communicator.num_ranks() / ranks, communicator.rank() / ranks, ranks))
}

/// Returns the number in the communicator of a rank of a team.
pub(crate) fn to_world(comm: &Comm, team: Team, rank: c_int) -> Result<c_int> {
    let own = comm.ready()?.rank() as c_int;
    let distance = rank.checked_sub(team.rank).and_then(|distance| distance.checked_mul(team.stride));
    let distance = distance.and_then(|distance| own.checked_add(distance));
    distance.ok_or_else(|| Failure::argument(format!("rank: {rank} is not of the team")))
}

/// Returns the number in its node of a rank of a team.
pub(crate) fn to_lsa(comm: &Comm, team: Team, rank: c_int) -> Result<c_int> {
    let (world, own) = (to_world(comm, team, rank)?, team_lsa(comm)?);
    let begin = comm.ready()?.rank() as c_int - own.rank;
    Ok(world - begin)
}
