//! Switch channels through multicast objects: the simulator counts which path was taken, and results are bitwise equal
//! to those of the CPU executor, except for sums of floats that the switch computes.

mod bugs;
mod failures;
mod launches;
mod objects;
mod processes;
mod results;

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use libtest_mimic::{Failed, Trial};
use mscclpp_dev::{MulticastCounts, Options, machine, switch_bugs};
use mscclpp_exec::cuda::jit::Cache;
use mscclpp_exec::cuda::{self, Device, Executor, SwitchPath};
use mscclpp_exec::{DataType, Message};

use self::failures::{CALLS, each_fails, program};
use super::bits::{Pair, shipped};
use super::devices::{seeds_of_case, with_seeds};
use super::{CACHE, at, mock};

pub(crate) fn tests(seeds: std::ops::Range<u64>) -> Vec<Trial> {
    type Test = fn(u64) -> Result<(), Failed>;
    let tests: [(&str, Test); 13] = [
        ("many_groups", objects::many_groups),
        ("buffers_of_another_plan", objects::buffers_of_another_plan),
        ("shipped_algorithms", results::shipped_algorithms),
        ("types_and_operations", results::types_and_operations),
        ("reductions_of_floats", results::reductions_of_floats),
        ("any_length", results::any_length),
        ("reduced_without_broadcast", results::reduced_without_broadcast),
        ("memory_at_any_offset", objects::memory_at_any_offset),
        ("missing_object_has_reason", objects::missing_object_has_reason),
        ("graphs", launches::graphs),
        ("specialized_kernels", launches::specialized_kernels),
        ("processes", processes::all_agree),
        ("processes_whose_calls_fail", processes::a_call_fails),
    ];
    let tests = tests
        .into_iter()
        .enumerate()
        .map(|(number, (name, test))| with_seeds(format!("switches::{name}"), seeds_of_case(&seeds, number), test));
    let faults = [Trial::test("switches::every_call_fails_once", failures::every_call_fails_once)];
    let bugs = switch_bugs().map(|bug| Trial::test(format!("switches::bugs::{bug}"), move || bugs::is_found(bug)));
    tests.chain(faults).chain(bugs).collect()
}

/// The tests with the mock driver.
pub(crate) fn on_mock(mock: &Result<&'static mock::Driver, String>) -> [Trial; 2] {
    let (one, two) = (mock.clone(), mock.clone());
    [
        Trial::test("mock::switches::shipped_algorithms", move || {
            let rig = one?.devices(Options { multicast: 3, ..Options::default() }, 3)?;
            let world = Executor::with_devices(&rig.devices, cuda::Options::default())?;
            for name in ALGORITHMS {
                let message = Message::new(DataType::F32, 3 * 128).any_size();
                let mut pair = Pair::new(&world, &shipped(name, 3)?, message)?.ok_or("too many thread blocks")?;
                let switches = switches(&pair.run, &pair.buffers);
                assert!(switches.iter().all(|switch| switch.path.is_ok()), "{name}: {switches:?}");
                pair.check(2).map_err(|failed| at(name, &failed))?;
            }
            Ok(())
        }),
        Trial::test("mock::switches::every_call_fails_once", move || {
            let mock = two?;
            let calls = CALLS.into_iter().filter(|(call, _)| call.starts_with("cuMulticast"));
            each_fails(calls.chain([(RETAIN, true)]), |options| {
                let rig = mock.devices(options, 2)?;
                program(&Executor::with_devices(&rig.devices, cuda::Options::default())?)
            })
        }),
    ]
}

/// A call that only CUDA's own functions need.
const RETAIN: &str = "cuMemRetainAllocationHandle";

/// Returns all calls that fail in these tests.
pub(crate) fn calls() -> impl Iterator<Item = &'static str> {
    let between = processes::CALLS.iter().map(|(_, call, _)| *call);
    CALLS.iter().map(|(call, _)| *call).chain([RETAIN]).chain(between)
}

/// The built-in algorithms with switch channels.
const ALGORITHMS: [&str; 6] = [
    "allreduce_switch",
    "allreduce_switch_packets",
    "allreduce_switch_pipeline",
    "allgather_switch",
    "allgather_switch_packets",
    "reducescatter_switch",
];

/// Returns whether an algorithm reduces in switches, and whether it stores through them.
fn uses(name: &str) -> (bool, bool) {
    let reduces = !name.starts_with("allgather") && !name.ends_with("packets");
    (reduces, !name.starts_with("reducescatter"))
}

/// Creates counters.
fn counts() -> &'static MulticastCounts {
    Box::leak(Box::new(MulticastCounts { loads: AtomicU64::new(0), stores: AtomicU64::new(0) }))
}

/// Returns the loads and stores since the last call.
fn taken(counts: &MulticastCounts) -> (u64, u64) {
    (counts.loads.swap(0, Relaxed), counts.stores.swap(0, Relaxed))
}

fn options(seed: u64, counts: &'static MulticastCounts) -> Options {
    let stop_at_one_of = [0, 16, 3][seed as usize % 3];
    Options { seed, stop_at_one_of, multicast: u32::MAX, counts: Some(counts), ..Options::default() }
}

/// An executor with ranks on the devices of these numbers.
fn world_on(map: &[usize], machine_options: Options, options: cuda::Options) -> Result<Executor, Failed> {
    let with_cache = |driver| Device::with_cache(driver, Cache::at(CACHE));
    let count = map.iter().max().map_or(0, |&last| last as u32 + 1);
    let devices: Vec<Device> = machine(machine_options, count)?.into_iter().map(with_cache).collect();
    let ranks: Vec<_> = map.iter().map(|&number| devices[number].clone()).collect();
    Ok(Executor::with_devices(&ranks, options)?)
}

/// An executor with a rank on each of this number of devices.
fn world(seed: u64, ranks: u32, counts: &'static MulticastCounts) -> Result<Executor, Failed> {
    let map: Vec<usize> = (0..ranks as usize).collect();
    world_on(&map, options(seed, counts), cuda::Options::default())
}

/// Returns all switch channels of a prepared plan.
fn switches(run: &cuda::PreparedPlan, buffers: &cuda::Buffers) -> Vec<SwitchPath> {
    [&run.switch_paths(), buffers.switch_paths()].concat()
}
