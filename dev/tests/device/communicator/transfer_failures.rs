//! Transfers between two ranks that fail, and memory that is dropped while they are pending.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use mscclpp_communicator::{Communicator, Group};
use mscclpp_core::types::ReduceOp;
use mscclpp_dev::{Options, simulator};
use mscclpp_exec::Error;
use mscclpp_exec::cuda::{Device, DeviceVec, Stream};
use mscclpp_exec::error::ErrorKind;
use mscclpp_exec::process::with_interrupt_check;

use super::{each_on, errors, failure, group_options, in_threads};
use crate::at;
use crate::processes::machine_options;

/// Number of elements of a transfer that exceeds the buffer for sends.
const LONG: usize = (4 << 20) / 4 + 5;

/// Time in which a failure is reported, long before a timeout.
const SOON: Duration = Duration::from_secs(60);

/// A device whose clock does not advance while kernels wait for other ranks, so that no kernel's timeout expires.
fn without_timeouts(seed: u64) -> Options {
    Options { patience: Duration::from_secs(600), ..machine_options(seed, 0, false) }
}

/// Exchanges data with the other rank in a group, copies what is received, and drops the memory without a wait of this function.
fn exchange(
    comm: &Communicator,
    device: &Device,
    stream: &Stream,
    (copy, round): (&mut DeviceVec<u32>, u32),
) -> Result<(), Error> {
    let (on, rank) = (comm.on(stream), comm.rank());
    let sent = DeviceVec::from_slice(device, &vec![10 * round + rank; copy.len()])?;
    let mut received = DeviceVec::<u32>::new(device, copy.len())?;
    let mut group = Group::new();
    group.send_on(on, &sent, 1 - rank);
    group.recv_on(on, &mut received, 1 - rank);
    group.run()?;
    stream.copy(&received, copy)
}

/// Memory that is dropped as soon as a group of long transfers is enqueued, each of which is on a stream of its own.
pub(super) fn memory_of_long_transfers_is_dropped_at_once(seed: u64) -> Result<(), Failed> {
    let options = Options { slow: Some(seed as u32 % 2), ..machine_options(seed, 0, false) };
    let results = each_on(options, 2, 2, group_options(120), |comm, device| {
        let (stream, rank) = (device.stream()?, comm.rank());
        let mut copy = DeviceVec::<u32>::new(device, LONG)?;
        // The first round is made by a thread.
        for round in 0..2 {
            exchange(comm, device, &stream, (&mut copy, round))?;
            comm.on(&stream).synchronize()?;
            assert!(copy.to_vec()? == vec![10 * round + 1 - rank; LONG], "round {round}");
        }
        Ok(())
    });
    results.into_iter().collect()
}

/// A stream that cannot wait for transfers elsewhere: these do not use the memory that it has lent, which is dropped.
pub(super) fn failed_waits_end_uses_of_memory(seed: u64) -> Result<(), Failed> {
    // Waits for a thread's transfers of the first round; waits of streams for long ones of the second, which take long to simulate.
    let cases = [("cuStreamWaitValue64", 40), ("cuStreamWaitEvent", LONG)];
    for (call, len) in cases.into_iter().take(if seed.is_multiple_of(3) { 2 } else { 1 }) {
        let mut num_failures = 0;
        for nth in 1..=12 {
            let device = |rank: u32| {
                let failing = (rank == 0).then_some((call, nth));
                let patience = Duration::from_secs(2);
                Ok(Device::with_driver(simulator(Options { failing, patience, ..machine_options(seed, rank, false) })?))
            };
            let begun = Instant::now();
            let results = in_threads(2, group_options(120), device, |comm, device| {
                let stream = device.stream()?;
                let mut copy = DeviceVec::<u32>::new(device, len)?;
                let mut made = Ok(());
                for round in 0..2 {
                    made = made.and_then(|()| exchange(comm, device, &stream, (&mut copy, round)));
                    made = made.and_then(|()| comm.on(&stream).synchronize());
                }
                // Transfers that a thread makes are complete, or have failed.
                let is_over = || comm.is_idle().map(|is_idle| is_idle || begun.elapsed() > Duration::from_secs(1));
                let after = loop {
                    match is_over() {
                        Ok(false) => std::thread::yield_now(),
                        other => break other.and(stream.synchronize()),
                    }
                };
                match after {
                    Err(error) if error.to_string().contains("ILLEGAL_ADDRESS") => Err(error.into()),
                    _ => Ok(made.and(comm.check())?),
                }
            });
            let found = errors(&results);
            let is_wrong = |text: &String| text.contains("ILLEGAL_ADDRESS") || text.contains("panicked");
            if found.iter().any(is_wrong) || begun.elapsed() > SOON {
                return Err(format!("call {nth} of {call}, after {:?}: {found:?}", begun.elapsed()).into());
            }
            if results.iter().all(Result::is_ok) {
                break;
            }
            match found[0].contains(call) {
                true => num_failures += 1,
                false => return Err(format!("call {nth} of {call}: {found:?}").into()),
            }
        }
        if num_failures == 0 {
            return Err(format!("{call} was never called").into());
        }
    }
    Ok(())
}

/// How a program waits for its transfers.
#[derive(Clone, Copy, Debug)]
enum Wait {
    Synchronize,
    Check,
}

/// No collective call was made. Rank 1 fails while transfers of rank 0 wait for it, one after the other on a stream, or on the host.
pub(super) fn failed_peer_ends_waits_for_transfers(seed: u64) -> Result<(), Failed> {
    for wait in [Wait::Synchronize, Wait::Check] {
        for is_prepared in [true, false] {
            let results = each_on(without_timeouts(seed), 2, 2, group_options(600), |comm, device| {
                let (stream, rank) = (device.stream()?, comm.rank());
                let on = comm.on(&stream);
                let mut memory = [DeviceVec::<u32>::new(device, 100)?, DeviceVec::<u32>::new(device, 100)?];
                if is_prepared {
                    for _ in 0..2 {
                        exchange(comm, device, &stream, (&mut memory[0], 0))?;
                        on.synchronize()?;
                    }
                }
                comm.bootstrap().barrier()?;
                if rank == 1 {
                    std::thread::sleep(Duration::from_millis(50));
                    comm.bootstrap().abort("its disk is full");
                    return Ok(());
                }
                let begun = Instant::now();
                let [received, sent] = &mut memory;
                // The launch of one is first, the other's pair is checked first.
                let mut made = on.recv(received, 1);
                let mut group = Group::new();
                group.send_on(on, sent, 1);
                made = made.and_then(|()| group.run());
                let waited = made.and_then(|()| match wait {
                    Wait::Synchronize => on.synchronize(),
                    Wait::Check => loop {
                        comm.check()?;
                        std::thread::yield_now();
                    },
                });
                let error = failure(waited)?;
                // The work that waited ends.
                stream.synchronize()?;
                let is_named = error.root_cause().is_some_and(|cause| cause.rank == 1);
                match begun.elapsed() < SOON && is_named && error.to_string().contains("its disk is full") {
                    true => Ok(()),
                    false => Err(format!("after {:?}: {error}", begun.elapsed()).into()),
                }
            });
            let place = || format!("{wait:?}, prepared: {is_prepared}");
            results.into_iter().collect::<Result<(), Failed>>().map_err(|failed| at(place(), &failed))?;
        }
    }
    Ok(())
}

/// A signal of an interpreter ends the wait of a first transfer on the host, and all ranks learn why.
pub(super) fn interrupted_first_transfer_ends(seed: u64) -> Result<(), Failed> {
    let results = each_on(without_timeouts(seed), 2, 2, group_options(600), |comm, device| {
        let (stream, begun) = (device.stream()?, Instant::now());
        comm.set_first_transfer_wait(Duration::MAX);
        let mut memory = DeviceVec::<u32>::new(device, 30)?;
        let error = if comm.rank() == 0 {
            let on = comm.on(&stream);
            let made = with_interrupt_check(|| true, || on.recv(&mut memory, 1));
            failure(made.and_then(|()| on.synchronize()))?
        } else {
            loop {
                match comm.check() {
                    Err(error) => break error,
                    Ok(()) if begun.elapsed() > SOON => return Err("rank 1 did not learn of it".into()),
                    Ok(()) => std::thread::yield_now(),
                }
            }
        };
        let is_named = error.root_cause().is_some_and(|cause| cause.rank == 0);
        match begun.elapsed() < SOON && is_named && error.to_string().contains("its call was interrupted") {
            true => Ok(()),
            false => Err(format!("after {:?}: {error}", begun.elapsed()).into()),
        }
    });
    results.into_iter().collect()
}

/// A thread waits in a call for another rank, while a transfer fails, and then the communicator.
pub(super) fn failure_is_reported_while_another_thread_is_in_a_call(seed: u64) -> Result<(), Failed> {
    let reported = Barrier::new(2);
    let results = each_on(without_timeouts(seed), 2, 2, group_options(600), |comm, device| {
        let stream = device.stream()?;
        let mut memory = DeviceVec::<u32>::new(device, 30 + comm.rank() as usize)?;
        if comm.rank() == 1 {
            comm.on(&stream).recv(&mut memory, 0)?;
            reported.wait();
            comm.bootstrap().abort("its disk is full");
            return Ok(());
        }
        let check = |expected: &str| -> Result<Error, Failed> {
            let begun = Instant::now();
            loop {
                match comm.check() {
                    Err(error) if error.to_string().contains(expected) => return Ok(error),
                    found if begun.elapsed() > SOON => return Err(format!("{found:?}, expected {expected}").into()),
                    _ => std::thread::yield_now(),
                }
            }
        };
        std::thread::scope(|scope| {
            let call = scope.spawn(|| -> Result<(), Error> {
                let stream = device.stream()?;
                let mut own = DeviceVec::<f32>::new(device, 8)?;
                comm.on(&stream).all_reduce_in_place(&mut own, ReduceOp::Sum)
            });
            while !matches!(comm.is_idle(), Err(Error::Busy)) {
                std::thread::yield_now();
            }
            let checked = comm.on(&stream).send(&memory, 1).map_err(Failed::from).and_then(|()| {
                let error = check("transfer of 31 u32")?;
                assert_eq!(error.kind(), ErrorKind::Mismatch, "{error}");
                assert!(matches!(comm.is_idle(), Err(Error::Busy)), "the call has ended");
                Ok(())
            });
            reported.wait();
            let aborted = check("its disk is full");
            let called = call.join().map_err(|_| "it panicked")?;
            checked?;
            assert_eq!(aborted?.root_cause().map(|cause| cause.rank), Some(1));
            assert!(called.is_err(), "the other rank did not make the call");
            Ok(())
        })
    });
    results.into_iter().collect()
}

/// Both ranks send more than fits into the buffer, and then receive, on one stream: the first time, and when the transfer is prepared.
pub(super) fn long_sends_that_wait_for_each_other_are_named(seed: u64) -> Result<(), Failed> {
    for is_prepared in [false, true] {
        let options = Options { patience: Duration::from_millis(300), ..machine_options(seed, 0, false) };
        let results = each_on(options, 2, 2, group_options(120), |comm, device| {
            let (stream, rank) = (device.stream()?, comm.rank());
            let [sent, mut received] = [DeviceVec::<u32>::new(device, LONG)?, DeviceVec::<u32>::new(device, LONG)?];
            if is_prepared {
                exchange(comm, device, &stream, (&mut received, 0))?;
                comm.on(&stream).synchronize()?;
            }
            let impatient = comm.with_timeout(Duration::from_millis(500));
            let on = impatient.on(&stream);
            let made = on.send(&sent, 1 - rank).and_then(|()| on.recv(&mut received, 1 - rank));
            let error = failure(made.and_then(|()| on.synchronize()))?;
            let (text, other) =
                (error.to_string(), format!("if it is in a send to rank {rank}, both wait for each other"));
            let help = error.diagnostic().help.unwrap_or_default();
            let is_named = text.contains(&other) && text.contains("4 MiB") && help.contains("in a group");
            match is_named && matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Stalled) {
                true => Ok(()),
                false => Err(format!("{:?}: {text}; help: {help}", error.kind()).into()),
            }
        });
        let place = || format!("prepared: {is_prepared}");
        results.into_iter().collect::<Result<(), Failed>>().map_err(|failed| at(place(), &failed))?;
    }
    Ok(())
}

/// Work of a device that has one hardware queue for each priority. The ranks reach each other through port channels, whose proxies copy:
/// neither the wait of the caller's stream nor the copies are in the queue of the transfer.
pub(super) fn transfers_share_no_queue_with_callers_and_proxies(seed: u64) -> Result<(), Failed> {
    let options = Options { peers: 1, multicast: 0, one_connection: true, ..machine_options(seed, 0, false) };
    let results = each_on(options, 2, 2, group_options(60), |comm, device| {
        let stream = device.stream()?;
        let on = comm.on(&stream);
        for len in [5, 5, 3000] {
            let mut memory = DeviceVec::from_slice(device, &vec![7 + comm.rank(); len])?;
            match comm.rank() {
                0 => on.send(&memory, 1)?,
                _ => on.recv(&mut memory, 0)?,
            }
            on.synchronize()?;
            assert_eq!(memory.to_vec()?, vec![7; len]);
        }
        Ok(comm.barrier()?)
    });
    results.into_iter().collect()
}
