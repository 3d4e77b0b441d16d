//! Channels for user-supplied kernels when driver calls fail, and when ranks are lost or leave: nothing is leaked, and no kernel waits on.

use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use mscclpp_communicator::Communicator;
use mscclpp_dev::{Options, machine, simulator};
use mscclpp_exec::Error;
use mscclpp_exec::cuda::Device;
use mscclpp_exec::cuda::jit::Cache;
use mscclpp_exec::error::ErrorKind;

use super::channels::{Gather, module, on_devices, options};
use super::failures::READY;
use super::{failure, group_options};
use crate::processes::{Job, machine_options};
use crate::{CACHE, at};

/// Calls that fail, one after the other; whether the error is reported.
const CALLS: [(&str, bool); 17] = [
    ("cuMemAlloc", true),
    ("cuMemHostAlloc", true),
    ("cuMemCreate", true),
    ("cuMemcpyHtoDAsync", true),
    ("cuMemcpyDtoHAsync", true),
    ("cuMemcpyAsync", true),
    ("cuMemsetD8Async", true),
    ("cuModuleLoadData", true),
    ("cuLaunchKernel", true),
    ("cuStreamCreate", true),
    ("cuStreamWriteValue64", true),
    ("cuEventCreate", true),
    ("cuEventRecord", true),
    ("cuEventQuery", true),
    ("cuMemFree", false),
    ("cuMemFreeHost", false),
    ("cuStreamDestroy", false),
];

/// All calls of a rank with channels to itself, twice: with the proxy stopped, and with the channels dropped.
fn program(options_of_host: Options) -> Result<(), Error> {
    let internal = |reason| Error::Internal(format!("{reason:?}"));
    let device = Device::with_cache(simulator(options_of_host).map_err(internal)?, Cache::at(CACHE));
    let comm = Communicator::local_with_options(1, group_options(30))?.remove(0);
    let stream = device.stream()?;
    let module = module(&device)?;
    for stops in [true, false] {
        let memory = comm.on(&stream).alloc::<u32>(16)?;
        let mut channels = comm.on(&stream).channels(memory, options().multicast(false))?;
        channels.local_mut().write(&[7; 16])?;
        Gather::new(&comm, &channels, 16, 1)?.launch(&module, "with_itself", &stream)?;
        channels.synchronize(&stream)?;
        assert_eq!(channels.local().to_vec()?, [7; 16]);
        if stops {
            channels.stop_proxy()?;
        }
    }
    Ok(())
}

/// The simulator checks for leaks when it is dropped.
pub(super) fn every_call_fails_once(_: u64) -> Result<(), Failed> {
    program(Options::default())?;
    for (call, is_reported) in CALLS {
        let mut failures = 0;
        for nth in 1..=60 {
            let place = || format!("call {nth} of {call}");
            // A thread of the host may be late on a busy machine: then the test is repeated with a longer timeout.
            let run = |seconds| {
                let (failing, patience) = (Some((call, nth)), Duration::from_secs(seconds));
                program(Options { failing, patience, ..Options::default() })
            };
            let mut result = run(2);
            if result.as_ref().is_err_and(|error| error.kind() == ErrorKind::Stalled) {
                result = run(30);
            }
            match result {
                Ok(()) if is_reported => break,
                Ok(()) if nth > 8 => break,
                Ok(()) => {}
                Err(Error::Driver(error)) if is_reported && error.call == call => failures += 1,
                Err(error) => return Err(at(place(), &error.to_string().into())),
            }
        }
        if is_reported && failures == 0 {
            return Err(format!("{call} was never called").into());
        }
    }
    Ok(())
}

/// A call of rank 1 fails, which names it; rank 0 has an error, too, and its kernel does not wait on.
pub(super) fn failed_call_of_a_peer_ends_the_waits(seed: u64) -> Result<(), Failed> {
    for call in ["cuMemHostAlloc", "cuLaunchKernel", "cuMemcpyAsync", "cuStreamWriteValue64"] {
        let device = |rank: u32| {
            let failing = (rank == 1).then_some((call, 1));
            let options = Options { failing, ..machine_options(seed, rank, true) };
            Ok(Device::with_cache(simulator(options)?, Cache::at(CACHE)))
        };
        let results = super::in_threads(2, group_options(120), device, |comm, device| {
            let begun = Instant::now();
            let work = || -> Result<(), Error> {
                let stream = device.stream()?;
                let memory = comm.on(&stream).alloc::<u32>(16)?;
                let channels = comm.on(&stream).channels(memory, options().multicast(false))?;
                Gather::new(comm, &channels, 4, 1)?.launch(&module(device)?, "by_port", &stream)?;
                channels.synchronize(&stream)
            };
            let error = failure(work())?;
            let is_right = match (comm.rank(), &error) {
                (1, Error::Driver(error)) => error.call == call,
                (0, _) => begun.elapsed() < Duration::from_secs(60),
                _ => false,
            };
            if is_right { Ok(()) } else { Err(format!("after {:?}: {error}", begun.elapsed()).into()) }
        });
        results.into_iter().collect::<Result<(), Failed>>().map_err(|failed| at(call, &failed))?;
    }
    Ok(())
}

/// Rank 1 leaves in order while a kernel of rank 0 waits for it.
pub(super) fn rank_that_leaves_is_reported(seed: u64) -> Result<(), Failed> {
    on_devices(seed, 2, 2, |comm, device| {
        let stream = device.stream()?;
        let channels = comm.on(&stream).channels(comm.on(&stream).alloc::<u32>(8)?, options())?;
        if comm.rank() == 1 {
            return Ok(());
        }
        waits_in_vain(
            comm,
            device,
            |module| Gather::new(comm, &channels, 4, 1)?.launch(module, "wait_alone", &stream),
            || channels.synchronize(&stream),
        )
    })
}

/// Launches a kernel that waits for rank 1, which is lost: the error names it long before the timeout.
fn waits_in_vain(
    comm: &Communicator,
    device: &Device,
    launch: impl FnOnce(&mscclpp_exec::cuda::jit::Module) -> Result<(), Error>,
    synchronize: impl FnOnce() -> Result<(), Error>,
) -> Result<(), Failed> {
    let begun = Instant::now();
    launch(&module(device)?)?;
    let error = failure(synchronize())?;
    let (kind, cause) = (error.kind(), error.root_cause().map(|cause| cause.rank));
    match begun.elapsed() < comm.bootstrap().options().timeout / 2 {
        true if (kind, cause) == (ErrorKind::RankLost, Some(1)) => Ok(()),
        _ => Err(format!("{kind:?} of rank {cause:?} after {:?}: {error}", begun.elapsed()).into()),
    }
}

pub(super) fn killed_process_is_reported(seed: u64) -> Result<(), Failed> {
    for per_node in [2, 1] {
        let mut job = Job::start("communicator_channels_killed", "simulator", seed, 2, per_node)?;
        job.wait_for_line(0, READY)?;
        job.wait_for_line(1, READY)?;
        job.kill(1)?;
        let results = job.wait()?;
        if !results[0].0 {
            return Err(format!("{per_node} ranks per node: {}", results[0].1).into());
        }
    }
    Ok(())
}

/// The part of a process: rank 1 waits to be killed.
pub(super) fn play(comm: &Communicator, seed: u64) -> Result<(), Failed> {
    // A launch on a host with one device returns when its kernel has ended.
    let devices = machine(machine_options(seed, comm.rank(), false), 2)?;
    let device = &Device::with_cache(devices[0].clone(), Cache::at(CACHE));
    let stream = device.stream()?;
    let channels = comm.on(&stream).channels(comm.on(&stream).alloc::<u32>(8)?, options())?;
    print!("{READY}");
    std::io::Write::flush(&mut std::io::stdout())?;
    if comm.rank() == 1 {
        loop {
            std::thread::park();
        }
    }
    let launch = |module: &_| Gather::of_ports(comm, &channels, 4)?.launch(module, "wait_for_port", &stream);
    waits_in_vain(comm, device, launch, || channels.synchronize(&stream))
}
