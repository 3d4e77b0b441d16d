//! Ranks in threads, each with a separate simulated host.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use libtest_mimic::Failed;
use mscclpp_bootstrap as bootstrap;
use mscclpp_bootstrap::Bootstrap;
use mscclpp_dev::{Options, machine, simulator};
use mscclpp_exec::Error;
use mscclpp_exec::cuda::{self, Device, Executor};

/// Timeout of the ranks' calls.
pub(super) const CALL_TIMEOUT: Duration = Duration::from_secs(120);

/// Returns the options of a rank's host.
pub(crate) fn machine_options(seed: u64, rank: u32, files: bool) -> Options {
    let stop_at_one_of = [0, 16, 3][seed as usize % 3];
    // Every other seed with multicast objects.
    let multicast = if seed.is_multiple_of(2) { u32::MAX } else { 0 };
    Options { seed: seed + u64::from(rank), stop_at_one_of, others: true, files, multicast, ..Options::default() }
}

/// Runs ranks in threads, each with a device of a separate driver. `run`: the part of each rank.
pub(super) fn in_threads(
    seed: u64,
    ranks: u32,
    files: bool,
    run: impl Fn(&Executor, &Device, u32) -> Result<(), Error> + Sync,
) -> Result<(), Failed> {
    let options = |rank| machine_options(seed, rank, files);
    let results = each_in_a_thread(ranks, options, cuda::Options::default(), run)?;
    let named = (0..).zip(results).filter_map(|(rank, result)| Some(format!("rank {rank}: {}", result.err()?)));
    let failed: Vec<String> = named.collect();
    if failed.is_empty() { Ok(()) } else { Err(failed.join("; ").into()) }
}

/// Runs ranks in threads, and returns the result of each.
pub(crate) fn each_in_a_thread(
    ranks: u32,
    machine: impl Fn(u32) -> Options + Sync,
    options: cuda::Options,
    run: impl Fn(&Executor, &Device, u32) -> Result<(), Error> + Sync,
) -> Result<Vec<Result<(), Error>>, Failed> {
    let device = |rank| Ok(Device::with_driver(simulator(machine(rank)).map_err(Error::Internal)?));
    each_on(ranks, device, options, run)
}

/// Runs ranks in threads, on the devices of one host: devices of one process, which access one another's memory by its
/// address.
pub(crate) fn on_one_machine(
    seed: u64,
    ranks: u32,
    run: impl Fn(&Executor, &Device, u32) -> Result<(), Error> + Sync,
) -> Result<(), Failed> {
    let options = Options { multicast: u32::MAX, ..machine_options(seed, 0, false) };
    let devices: Vec<Device> = machine(options, ranks)?.into_iter().map(Device::with_driver).collect();
    let device = |rank: u32| Ok(devices[rank as usize].clone());
    let results = each_on(ranks, device, cuda::Options::default(), run)?;
    results.into_iter().collect::<Result<Vec<()>, _>>().map(drop).map_err(|error| error.to_string().into())
}

/// Runs ranks in threads, each with a bootstrap and a device.
fn each_on(
    ranks: u32,
    device: impl Fn(u32) -> Result<Device, Error> + Sync,
    options: cuda::Options,
    run: impl Fn(&Executor, &Device, u32) -> Result<(), Error> + Sync,
) -> Result<Vec<Result<(), Error>>, Failed> {
    let deadline = bootstrap::Options::default().timeout(CALL_TIMEOUT);
    let groups = Bootstrap::local_with_options(ranks, deadline)?;
    Ok(thread::scope(|scope| {
        let threads: Vec<_> = (0..ranks)
            .zip(groups)
            .map(|(rank, group)| {
                let (run, device) = (&run, &device);
                scope.spawn(move || {
                    let device = device(rank)?;
                    let world = Executor::connect(&Arc::new(group), &device, options)?;
                    run(&world, &device, rank)
                })
            })
            .collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|_| Err(Error::Internal("it panicked".into())))
        };
        threads.into_iter().map(join).collect()
    }))
}
