//! Calls without elements are compared as all others, and launch nothing.

use libtest_mimic::Failed;
use mscclpp_communicator::{Communicator, Group, OnStream};
use mscclpp_core::types::ReduceOp;
use mscclpp_dev::machine;
use mscclpp_exec::Error;
use mscclpp_exec::cuda::{Device, DeviceVec};
use mscclpp_exec::error::ErrorKind;

use super::{group_options, in_threads};
use crate::processes::{Job, machine_options};

const CALLS: [&str; 12] = [
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "broadcast",
    "reduce",
    "send_recv",
    "gather",
    "scatter",
    "transfer",
    "transfer in a group",
    "transfer in an exchange",
];

/// Number of elements, of a rank or of each part, of a call with elements.
const LEN: usize = 5;

/// Memory for what a rank sends and receives, of two parts each.
struct Memory {
    sent: DeviceVec<u32>,
    received: DeviceVec<u32>,
}

/// Makes a call of two ranks.
fn make(on: &OnStream<'_>, rank: u32, memory: &mut Memory, call: &str, len: usize) -> Result<(), Error> {
    let inside = || Error::Internal("a range outside".into());
    let Memory { sent, received } = memory;
    let (one, two) = (sent.slice(0..len).ok_or_else(inside)?, sent.slice(0..2 * len).ok_or_else(inside)?);
    let received_len = if matches!(call, "all_gather" | "all_to_all" | "gather") { 2 * len } else { len };
    let mut to = received.slice_mut(0..received_len).ok_or_else(inside)?;
    match call {
        "all_reduce" => on.all_reduce(&one, &mut to, ReduceOp::Sum),
        "all_gather" => on.all_gather(&one, &mut to),
        "reduce_scatter" => on.reduce_scatter(&two, &mut to, ReduceOp::Sum),
        "all_to_all" => on.all_to_all(&two, &mut to),
        "broadcast" => on.broadcast(&one, &mut to, 1),
        "reduce" => on.reduce(&one, &mut to, ReduceOp::Sum, 1),
        "send_recv" => on.send_recv(&one, &mut to),
        "gather" => on.gather(&one, &mut to, 1),
        "scatter" => on.scatter(&two, &mut to, 1),
        "transfer" if rank == 0 => on.send(&one, 1),
        "transfer" => on.recv(&mut to, 0),
        "transfer in an exchange" if rank == 0 => {
            on.all_to_all_v(&one, &[0, len], &mut received.slice_mut(0..0).ok_or_else(inside)?, &[0, 0])
        }
        "transfer in an exchange" => {
            on.all_to_all_v(&sent.slice(0..0).ok_or_else(inside)?, &[0, 0], &mut to, &[len, 0])
        }
        _ => {
            let mut group = Group::new();
            if rank == 0 {
                group.send_on::<u32>(*on, &one, 1);
            } else {
                group.recv_on::<u32>(*on, &mut to, 0);
            }
            group.run()
        }
    }
}

/// Makes a call with the length of the rank, then one that is equal on both ranks, and checks the result.
fn check(comm: &Communicator, device: &Device, call: &str, lens: [usize; 2]) -> Result<(), Failed> {
    let stream = device.stream()?;
    let (on, rank) = (comm.on(&stream), comm.rank());
    let len = lens[rank as usize];
    let (sent, received) = (DeviceVec::new(device, 2 * LEN)?, DeviceVec::new(device, 2 * LEN)?);
    let mut memory = Memory { sent, received };
    let first = make(&on, rank, &mut memory, call, len);
    let launched = on.last_call()?.map_or(0, |last| last.num_launches);
    assert!(first.is_err() || len > 0 || launched == 0, "it launches something");
    let made = first.and_then(|()| make(&on, rank, &mut memory, call, LEN)).and_then(|()| on.synchronize());
    match made {
        Ok(()) if lens[0] == lens[1] => Ok(()),
        // A short send is buffered: its rank may be done before the receiver compares.
        Ok(()) if call.starts_with("transfer") && rank == 0 => Ok(()),
        Err(error) if lens[0] != lens[1] && error.kind() == ErrorKind::Mismatch => Ok(()),
        // Its other rank has left because of it before this one compared.
        Err(error) if lens[0] != lens[1] && error.to_string().contains("ranks make different calls") => Ok(()),
        other => Err(format!("{other:?}").into()),
    }
}

/// Returns all pairs of lengths of the first call.
fn all_lens() -> impl Iterator<Item = [usize; 2]> {
    [0, 1, LEN].into_iter().flat_map(|first| [0, 1, LEN].map(|second| [first, second]))
}

/// Ranks on different nodes, which compare calls without elements as those of one node.
pub(super) fn calls_without_elements_are_compared_between_nodes(seed: u64) -> Result<(), Failed> {
    Job::start("communicator_empty_calls", "simulator", seed, 2, 1)?.succeed()
}

/// The part of a process.
pub(super) fn play(comm: &Communicator, device: &Device) -> Result<(), Failed> {
    for call in CALLS {
        for lens in all_lens() {
            // Its failure is its own.
            let part = comm.split(Some(0), comm.rank())?.ok_or("a communicator of all ranks")?;
            check(&part, device, call, lens)
                .map_err(|failed| crate::at(format_args!("{call} of {lens:?}"), &failed))?;
        }
    }
    Ok(())
}

/// Ranks of one node.
pub(super) fn calls_without_elements_are_compared(seed: u64) -> Result<(), Failed> {
    let drivers = machine(machine_options(seed, 0, false), 2)?;
    let device = |rank: u32| Ok(Device::with_driver(drivers[rank as usize].clone()));
    for call in CALLS {
        for lens in all_lens() {
            let results = in_threads(2, group_options(60), device, |comm, device| check(comm, device, call, lens));
            let all: Result<(), Failed> = results.into_iter().collect();
            all.map_err(|failed| crate::at(format_args!("{call} of {lens:?}"), &failed))?;
        }
    }
    Ok(())
}
