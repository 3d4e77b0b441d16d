//! The CUDA executor: its results are those of the CPU executor, bit for bit.
//!
//! On a device, if there is one; on the simulator, if there was a C++ compiler to build it; and on the simulator behind CUDA's own
//! functions (`kernels/mock`), if there is no driver in its place. What cannot run is ignored, and the reason printed. What is compiled
//! at run time is not for the mock, which loads no machine code. The simulator tries a few seeds, beginning with `MSCCLPP_SEED` (the day's, printed); `MSCCLPP_SEEDS=50`
//! tries so many. `MSCCLPP_PLANS=FOLDER` adds the plans of a folder; `MSCCLPP_SMALL=1` has a device do no more than the simulator.

#[path = "../../benches/cuda/baselines.rs"]
mod baselines;
#[path = "../../benches/cuda/bench.rs"]
mod bench;
mod bits;
mod bugs;
#[path = "../../benches/cuda/calls.rs"]
#[allow(dead_code, reason = "not all of the benchmarks is tried")]
mod calls;
#[path = "../../benches/cuda/compare.rs"]
#[allow(dead_code, reason = "not all of the benchmarks is tried")]
mod compare;
mod deadlocks;
mod devices;
mod faults;
mod graphs;
#[path = "../../benches/cuda/hand_written.rs"]
mod hand_written;
#[path = "../../benches/cuda/measure.rs"]
mod measure;
mod mock;
mod native;
mod nodes;
mod plans;
#[path = "../../../mscclpp-exec/tests/common/port.rs"]
mod port;
mod processes;
mod rehearsal;
#[path = "../../benches/cuda/rows/mod.rs"]
mod rows;
mod specialised;
mod stalls;
mod streams;
mod suite;
mod switches;
mod tensors;
mod threads;

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use libtest_mimic::{Arguments, Trial};
use mscclpp_exec::cuda::jit::Cache;
use mscclpp_exec::cuda::{Device, Unavailable};
use mscclpp_kernels::{Options, simulator};
pub(crate) use suite::{Rig, Test, at};

/// Where the simulator's kernels are kept that are compiled while it runs.
pub(crate) const CACHE: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/compiled");

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// From threads that stop at their waits only to such that stop nearly everywhere.
fn with_seed(seed: u64) -> Options {
    Options { seed, stop_at_one_of: [0, 16, 3][seed as usize % 3], ..Options::default() }
}

fn main() -> ExitCode {
    threads::run_case();
    if let Some(result) = processes::rank() {
        return result.map_or_else(
            |failed| {
                eprintln!("{}", failed.message().unwrap_or("no message"));
                ExitCode::FAILURE
            },
            |()| ExitCode::SUCCESS,
        );
    }
    let arguments = Arguments::from_args();
    let days = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs() / 86_400);
    let seed = number("MSCCLPP_SEED").unwrap_or(days);
    let seeds = number("MSCCLPP_SEEDS").unwrap_or(2).max(1);
    let device = Device::new(0);
    match &device {
        Ok(device) => println!("cuda: on {}", device.properties()),
        Err(reason) => println!("cuda: ignored: {reason}"),
    }
    let no_simulator = simulator(Options::default()).err();
    match &no_simulator {
        None => println!("sim: seeds {seed}..{}", seed + seeds),
        Some(reason) => println!("sim: ignored: {reason}"),
    }
    let on_device = suite::on_device(&device, seed);
    let simulated = suite::tests().into_iter().filter(|test| !test.calls_cuda).map(|test| {
        Trial::test(format!("sim::{}", test.name), move || {
            for seed in seed..seed + seeds {
                let device = Device::with_cache(simulator(with_seed(seed))?, Cache::at(CACHE));
                let rig = Rig { device, small: true, seed };
                (test.run)(&rig).map_err(|failed| at(format_args!("seed {seed}"), &failed))?;
            }
            Ok(())
        })
        .with_ignored_flag(no_simulator.is_some())
    });
    // Not beside a driver: a process has one.
    let mock = match (&device, &no_simulator) {
        (Err(Unavailable::NoDriver), None) => mock::driver(),
        (_, Some(reason)) => Err(reason.clone()),
        _ => Err("there is a driver".into()),
    };
    // One, unless more were asked for: the simulator alone tries the others.
    let mock_seeds = number("MSCCLPP_SEEDS").map_or(1, |_| seeds);
    match &mock {
        Ok(_) => println!("mock: seeds {seed}..{}", seed + mock_seeds),
        Err(reason) => println!("mock: ignored: {reason}"),
    }
    let mocked = suite::tests().into_iter().map(|test| {
        let (mock, ignored) = (mock.clone(), mock.is_err() || test.compiles);
        Trial::test(format!("mock::{}", test.name), move || {
            let mock = mock?;
            for seed in seed..seed + mock_seeds {
                let mock = mock.devices(with_seed(seed), 1)?;
                let rig = Rig { device: mock.devices[0].clone(), small: true, seed };
                (test.run)(&rig).map_err(|failed| at(format_args!("seed {seed}"), &failed))?;
            }
            Ok(())
        })
        .with_ignored_flag(ignored)
    });
    let faults = faults::tests().into_iter().chain(bugs::tests()).chain(devices::tests(seed..seed + seeds));
    let faults = faults
        .chain(tensors::tests())
        .chain(rehearsal::tests())
        .chain(deadlocks::tests(seed..seed + seeds))
        .chain(processes::tests(seed..seed + seeds))
        .chain(nodes::tests(seed..seed + seeds))
        .chain(switches::tests(seed..seed + seeds));
    let faults = faults.map(|trial| trial.with_ignored_flag(no_simulator.is_some()));
    let mock_faults = faults::on_mock(&mock).into_iter().map(|trial| trial.with_ignored_flag(mock.is_err()));
    let mock_processes = Trial::test("mock::processes::of_the_system", move || processes::of_the_system(seed, "mock"));
    let mock_nodes = nodes::on_mock(seed).into_iter().chain([mock_processes]).chain(switches::on_mock(&mock));
    let mock_faults = mock_faults.chain(mock_nodes.map(|trial| trial.with_ignored_flag(mock.is_err())));
    let threaded = threads::tests(no_simulator.as_ref());
    let trials =
        on_device.into_iter().chain(simulated).chain(mocked).chain(faults).chain(mock_faults).chain(threaded).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}
