//! Selection of the tests that run, and of their seeds.

use std::ops::Range;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use libtest_mimic::Trial;
use mscclpp_dev::{Options, simulator};
use mscclpp_exec::cuda::jit::Cache;
use mscclpp_exec::cuda::{CudaUnavailable, Device};

use super::devices::seeds_of_case;
use super::suite::STALL_TIMEOUT;
use super::{
    CACHE, Rig, Test, accesses, at, bugs, capture_modes, communicator, connections, counts, deadlocks, devices, faults,
    instructions, machines, mock, nodes, planted, processes, prologue, rehearsal, row_norms, starts, suite, switches,
    tensors, threads,
};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Options of a seed, from threads that are preempted only at waits to threads that are preempted nearly everywhere.
fn with_seed(seed: u64) -> Options {
    // Some plans stall although threads serve their device.
    let patience = Duration::from_secs(2);
    Options { seed, stop_at_one_of: [0, 16, 3][seed as usize % 3], patience, ..Options::default() }
}

/// Returns all tests; those that cannot run on this machine are ignored, and the reason is printed.
pub(crate) fn all() -> Vec<Trial> {
    let days = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs() / 86_400);
    let first = number("MSCCLPP_SEED").unwrap_or(days);
    let asked = number("MSCCLPP_NUM_SEEDS");
    let seeds = first..first + asked.unwrap_or(1).max(1);
    let device = Device::new(0);
    match &device {
        Ok(device) => println!("cuda: on {}", device.properties()),
        Err(reason) => println!("cuda: ignored: {reason}"),
    }
    let no_simulator = simulator(Options::default()).err();
    match &no_simulator {
        None => println!("sim: seeds {}..{}", seeds.start, seeds.end),
        Some(reason) => println!("sim: ignored: {reason}"),
    }
    // Not with a real driver: a process has only one.
    let mock = match (&device, &no_simulator) {
        (Err(CudaUnavailable::NoDriver), None) => mock::driver(),
        (_, Some(reason)) => Err(reason.clone()),
        _ => Err("there is a driver".into()),
    };
    match &mock {
        Ok(_) => println!("mock: seeds {}..{}", seeds.start, seeds.end),
        Err(reason) => println!("mock: ignored: {reason}"),
    }
    let simulated = on_simulator(&seeds).into_iter().map(|trial| trial.with_ignored_flag(no_simulator.is_some()));
    let mut trials = suite::on_device(&device, first);
    trials.extend(processes::on_device(&device));
    trials.extend(planted::tests(&device));
    trials.extend(simulated);
    trials.extend(instructions::tests(no_simulator.is_some()));
    trials.extend(on_mock(&mock, seeds, asked.is_some()));
    trials.extend(threads::tests(no_simulator.as_ref()));
    trials
}

/// Returns the suite and the tests that only a simulator supports.
fn on_simulator(seeds: &Range<u64>) -> Vec<Trial> {
    let suite = suite::tests().into_iter().filter(|test| !test.calls_cuda).enumerate().map(|(number, test)| {
        // Those that compile take samples, the same as the comparison of accesses, so that each kernel is compiled once.
        let seeds = seeds_of_case(seeds, if test.compiles { 0 } else { number });
        Trial::test(format!("sim::{}", test.name), move || {
            for seed in seeds {
                let device = Device::with_cache(simulator(with_seed(seed))?, Cache::at(CACHE));
                let rig = Rig { device, small: true, stall_timeout: STALL_TIMEOUT, seed };
                (test.run)(&rig).map_err(|failed| at(format_args!("seed {seed}"), &failed))?;
            }
            Ok(())
        })
    });
    let others = [
        faults::tests(),
        bugs::tests(),
        capture_modes::tests(),
        accesses::tests(seeds.clone()),
        prologue::tests(),
        devices::tests(seeds.clone()),
        counts::on_several_devices(seeds.clone()),
        row_norms::on_simulator(seeds.clone()),
        tensors::tests(),
        machines::tests(),
        rehearsal::tests(),
        starts::tests(seeds.clone()),
        deadlocks::tests(seeds.clone()),
        processes::tests(seeds.clone()),
        nodes::tests(seeds.clone()),
        switches::tests(seeds.clone()),
        communicator::tests(seeds.clone()),
        connections::tests(seeds.clone()),
    ];
    suite.chain(others.into_iter().flatten()).collect()
}

/// Returns the suite, and the tests of the calls of CUDA's functions.
fn on_mock(mock: &Result<&'static mock::Driver, String>, seeds: Range<u64>, all: bool) -> Vec<Trial> {
    let first = seeds.start;
    // The results of further plans and messages do not depend on the driver's functions, so they run on request only.
    let is_one = |test: &Test| all || !["plans::", "bits::"].iter().any(|family| test.name.starts_with(family));
    let suite = suite::tests().into_iter().filter(is_one).map(|test| {
        let (mock, seeds, ignored) = (mock.clone(), seeds.clone(), mock.is_err() || test.compiles);
        Trial::test(format!("mock::{}", test.name), move || {
            let mock = mock?;
            for seed in seeds {
                let mock = mock.devices(with_seed(seed), 1)?;
                let device = mock.devices[0].clone();
                let rig = Rig { device, small: true, stall_timeout: STALL_TIMEOUT, seed };
                (test.run)(&rig).map_err(|failed| at(format_args!("seed {seed}"), &failed))?;
            }
            Ok(())
        })
        .with_ignored_flag(ignored)
    });
    let processes = processes::on_mock(first);
    let others = faults::on_mock(mock).into_iter().chain(nodes::on_mock(first)).chain(processes);
    let others = others
        .chain(switches::on_mock(mock))
        .chain(communicator::on_mock(first))
        .chain([starts::on_mock(mock, seeds.clone())])
        .map(|trial| trial.with_ignored_flag(mock.is_err()));
    suite.chain(others).collect()
}
