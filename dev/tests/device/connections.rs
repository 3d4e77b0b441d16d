//! Streams that share a hardware queue: copies of a proxy do not wait for the kernel that waits for them.

use std::time::Duration;

use libtest_mimic::{Failed, Trial};
use mscclpp_dev::{Options, machine, simulator};
use mscclpp_exec::cuda::{self, Device, Executor};
use mscclpp_exec::{DataType, Message};

use super::bits::{Pair, shipped};
use super::devices::with_seeds;

pub(crate) fn tests(seeds: std::ops::Range<u64>) -> Vec<Trial> {
    vec![
        with_seeds("connections::proxy_copies_pass_waiting_kernels".into(), seeds, |seed| run(seed, None)),
        Trial::test("connections::copies_of_equal_priority_never_begin", || match run(1, Some("equal_priorities")) {
            Err(failed) if failed.message().is_some_and(|text| text.contains("stall") || text.contains("wait")) => {
                Ok(())
            }
            other => Err(format!("expected a stall, found {other:?}").into()),
        }),
    ]
}

/// Launches with port channels on one device and on two.
fn run(seed: u64, bug: Option<&'static str>) -> Result<(), Failed> {
    // Without progress for this time, the clock of the device advances.
    let patience = Duration::from_millis(if bug.is_some() { 200 } else { 10_000 });
    let options = Options { seed, one_connection: true, bug, patience, ..Options::default() };
    let timeout = cuda::Options::default().timeout(Duration::from_secs(if bug.is_some() { 1 } else { 60 }));
    let one = Executor::with_options(&Device::with_driver(simulator(options)?), 2, timeout);
    let devices: Vec<Device> = machine(options, 2)?.into_iter().map(Device::with_driver).collect();
    for world in [one, Executor::with_devices(&devices, timeout)?] {
        for name in ["allgather_ring_ports", "allreduce_ring_ports"] {
            let message = Message::new(DataType::F32, 106).any_size();
            let mut pair = Pair::new(&world, &shipped(name, 2)?, message)?.ok_or("too many thread blocks")?;
            pair.check(3).map_err(|failed| crate::at(name, &failed))?;
        }
    }
    Ok(())
}
