//! Ranks that make different calls, leave, die, or come late: every rank reports the same root cause.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use mscclpp_communicator::{Communicator, OnStream};
use mscclpp_core::types::ReduceOp;
use mscclpp_dev::Options;
use mscclpp_exec::Error;
use mscclpp_exec::cuda::{Device, DeviceVec};
use mscclpp_exec::error::ErrorKind;

use super::{each_on, errors, failure, group_options};
use crate::processes::{Job, machine_options};

/// Runs two ranks; each returns the error that `fail` ends with.
fn fails(
    seed: u64,
    fail: impl Fn(&Communicator, &Device) -> Result<Error, Failed> + Sync,
    check: impl Fn(&Error) -> bool + Sync,
) -> Result<Vec<String>, Failed> {
    let options = machine_options(seed, 0, false);
    let results = each_on(options, 2, 2, group_options(120), |comm, device| {
        let error = fail(comm, device)?;
        if !check(&error) {
            return Err(format!("unexpected: {error}").into());
        }
        // Later calls return the same cause.
        let mut own = DeviceVec::<f32>::new(device, 8)?;
        let again = failure(comm.on(&device.stream()?).all_reduce_in_place(&mut own, ReduceOp::Sum))?;
        match again.root_cause().map(|cause| cause.rank) == error.root_cause().map(|cause| cause.rank) {
            true => Err(format!("told: {error}").into()),
            false => Err(format!("{error}, then {again}").into()),
        }
    });
    let found = errors(&results);
    match found.iter().all(|text| text.contains("told: ")) {
        true => Ok(found),
        false => Err(format!("{found:?}").into()),
    }
}

fn synchronized(on: &OnStream<'_>, call: Result<(), Error>) -> Result<Error, Failed> {
    failure(call.and_then(|()| on.synchronize()))
}

/// All calls were made before, so nothing but their comparison finds the difference.
pub(super) fn different_call_is_reported(seed: u64) -> Result<(), Failed> {
    let fail = |comm: &Communicator, device: &Device| {
        let stream = device.stream()?;
        let on = comm.on(&stream);
        let (mut own, mut all) = (DeviceVec::<f32>::new(device, 32)?, DeviceVec::<f32>::new(device, 64)?);
        for _ in 0..2 {
            on.all_reduce_in_place(&mut own, ReduceOp::Sum)?;
            on.all_gather(&own, &mut all)?;
        }
        on.synchronize()?;
        let call = match comm.rank() {
            0 => on.all_reduce_in_place(&mut own, ReduceOp::Sum),
            _ => on.all_gather(&own, &mut all),
        };
        synchronized(&on, call)
    };
    let found = fails(seed, fail, |error| error.kind() == ErrorKind::Mismatch)?;
    let named = |text: &String| {
        ["allreduce of 128 bytes", "allgather of 256 bytes", "(call 5) at ", "failures.rs:"]
            .iter()
            .all(|part| text.contains(part))
    };
    if found.iter().all(named) { Ok(()) } else { Err(format!("{found:?}").into()) }
}

/// A call on slices, or a barrier, of one rank against a call on devices of the other one, which is prepared, so that neither waits for the
/// other's set-up: each is named long before the timeout.
pub(super) fn call_on_slices_against_one_on_devices_is_reported(seed: u64) -> Result<(), Failed> {
    for of_host in 0..2 {
        for is_barrier in [false, true] {
            let begun = Instant::now();
            let fail = |comm: &Communicator, device: &Device| {
                let stream = device.stream()?;
                let on = comm.on(&stream);
                let (mut own, mut slice) = (DeviceVec::<f32>::new(device, 32)?, [1.0_f32; 8]);
                for _ in 0..2 {
                    on.all_reduce_in_place(&mut own, ReduceOp::Sum)?;
                    comm.all_reduce_in_place(&mut slice, ReduceOp::Sum)?;
                    comm.barrier()?;
                }
                on.synchronize()?;
                match (comm.rank() == of_host, is_barrier) {
                    (true, false) => failure(comm.all_reduce_in_place(&mut slice, ReduceOp::Sum)),
                    (true, true) => failure(comm.barrier()),
                    (false, _) => {
                        let call = on.all_reduce_in_place(&mut own, ReduceOp::Sum);
                        synchronized(&on, call)
                    }
                }
            };
            let found = fails(seed, fail, |error| error.kind() == ErrorKind::Mismatch)?;
            let host = if is_barrier { "barrier (call 7) at " } else { "32 bytes f32, sum, in place" };
            let named = |text: &String| {
                ["allreduce of 128 bytes", ", on devices", host, "(call 7) at ", "failures.rs:"]
                    .iter()
                    .all(|part| text.contains(part))
            };
            if !found.iter().all(named) {
                return Err(format!("{found:?}").into());
            }
            if begun.elapsed() > Duration::from_secs(60) {
                return Err(format!("after {:?}: {found:?}", begun.elapsed()).into());
            }
        }
    }
    Ok(())
}

pub(super) fn different_offset_is_reported(seed: u64) -> Result<(), Failed> {
    let fail = |comm: &Communicator, device: &Device| {
        let stream = device.stream()?;
        let on = comm.on(&stream);
        let mut memory = on.alloc::<f32>(32)?;
        let mut call = |begin: usize| -> Result<(), Error> {
            let mut part = memory.slice_mut(begin..begin + 16).ok_or_else(|| Error::Internal("outside".into()))?;
            on.all_reduce_in_place(&mut part, ReduceOp::Sum)
        };
        call(0)?;
        call(4)?;
        on.synchronize()?;
        let made = call(4 * comm.rank() as usize);
        synchronized(&on, made)
    };
    let found = fails(seed, fail, |error| error.kind() == ErrorKind::Mismatch)?;
    let named =
        |text: &String| text.contains("at byte 0 of allocation 1") && text.contains("at byte 16 of allocation 1");
    if found.iter().all(named) { Ok(()) } else { Err(format!("{found:?}").into()) }
}

/// Ranks that exchange parts of other lengths make the same call, one that gathers does not.
pub(super) fn exchange_against_a_gather_is_reported(seed: u64) -> Result<(), Failed> {
    let fail = |comm: &Communicator, device: &Device| {
        let stream = device.stream()?;
        let on = comm.on(&stream);
        let (rank, ranks) = (comm.rank() as usize, comm.num_ranks() as usize);
        let (sent, received) = (vec![1 + rank; ranks], (1..=ranks).collect::<Vec<_>>());
        let input = DeviceVec::<f32>::new(device, ranks * (1 + rank))?;
        let mut output = DeviceVec::<f32>::new(device, received.iter().sum())?;
        on.all_to_all_v(&input, &sent, &mut output, &received)?;
        on.synchronize()?;
        let made = match rank {
            0 => on.gather(&DeviceVec::<f32>::new(device, 1)?, &mut DeviceVec::<f32>::new(device, ranks)?, 0),
            _ => on.all_to_all_v(&input, &sent, &mut output, &received),
        };
        synchronized(&on, made)
    };
    let found = fails(seed, fail, |error| error.kind() == ErrorKind::Mismatch)?;
    let named = |text: &String| text.contains("gather of 1 f32 to rank 0") && text.contains("all_to_all_v of f32");
    if found.iter().all(named) { Ok(()) } else { Err(format!("{found:?}").into()) }
}

pub(super) fn rank_that_leaves_is_reported(seed: u64) -> Result<(), Failed> {
    let options = machine_options(seed, 0, false);
    let results = each_on(options, 2, 2, group_options(120), |comm, device| {
        let stream = device.stream()?;
        let on = comm.on(&stream);
        let mut own = DeviceVec::<f32>::new(device, 32)?;
        on.all_reduce_in_place(&mut own, ReduceOp::Sum)?;
        on.synchronize()?;
        if comm.rank() == 1 {
            return Ok(());
        }
        let call = on.all_reduce_in_place(&mut own, ReduceOp::Sum);
        let error = synchronized(&on, call)?;
        let cause = error.root_cause().map(|cause| cause.rank);
        match (error.kind(), cause, error.lost().as_slice()) {
            (ErrorKind::RankLost, Some(1), [1]) => Ok(()),
            other => Err(format!("{other:?}: {error}").into()),
        }
    });
    results.into_iter().collect()
}

pub(super) fn late_rank_is_reported(seed: u64) -> Result<(), Failed> {
    // Without progress for this time, the clock of the device advances.
    let options = Options { patience: Duration::from_millis(300), ..machine_options(seed, 0, false) };
    let failed = Barrier::new(2);
    let results = each_on(options, 2, 2, group_options(120), |comm, device| {
        let stream = device.stream()?;
        let on = comm.on(&stream);
        let mut own = DeviceVec::<f32>::new(device, 32)?;
        on.all_reduce_in_place(&mut own, ReduceOp::Sum)?;
        on.synchronize()?;
        if comm.rank() == 1 {
            failed.wait();
            let error = failure(on.all_reduce_in_place(&mut own, ReduceOp::Sum))?;
            return match error.root_cause() {
                Some(cause) if cause.rank == 1 => Ok(()),
                _ => Err(format!("late rank: {error}").into()),
            };
        }
        let impatient = comm.with_timeout(Duration::from_millis(20));
        let on = impatient.on(&stream);
        let call = on.all_reduce_in_place(&mut own, ReduceOp::Sum);
        let error = synchronized(&on, call);
        failed.wait();
        let error = error?;
        match (error.kind(), error.root_cause().map(|cause| cause.rank)) {
            (ErrorKind::Stalled | ErrorKind::Timeout, Some(1)) => Ok(()),
            other => Err(format!("{other:?}: {error}").into()),
        }
    });
    results.into_iter().collect()
}

/// The line that a process prints when its first call is complete.
pub(super) const READY: &str = "ready\n";

pub(super) fn killed_process_is_reported(seed: u64) -> Result<(), Failed> {
    let mut job = Job::start("communicator_killed", "mock", seed, 2, 2)?;
    job.wait_for_line(0, READY)?;
    job.wait_for_line(1, READY)?;
    job.kill(1)?;
    let results = job.wait()?;
    if results[0].0 { Ok(()) } else { Err(results[0].1.clone().into()) }
}

/// The part of a process: rank 1 waits to be killed.
pub(super) fn play(comm: &Communicator, device: &Device) -> Result<(), Failed> {
    let stream = device.stream()?;
    let on = comm.on(&stream);
    let mut own = DeviceVec::<f32>::new(device, 32)?;
    on.all_reduce_in_place(&mut own, ReduceOp::Sum)?;
    on.synchronize()?;
    print!("{READY}");
    std::io::Write::flush(&mut std::io::stdout())?;
    if comm.rank() == 1 {
        loop {
            std::thread::park();
        }
    }
    let call = on.all_reduce_in_place(&mut own, ReduceOp::Sum);
    let error = synchronized(&on, call)?;
    match (error.kind(), error.root_cause().map(|cause| cause.rank)) {
        (ErrorKind::RankLost, Some(1)) => Ok(()),
        other => Err(format!("{other:?}: {error}").into()),
    }
}
