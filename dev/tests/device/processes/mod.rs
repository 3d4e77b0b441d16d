//! Ranks with separate bootstraps: in threads, each with a separate simulated host, so that all memory of others is
//! mapped; and in processes.

mod job;
mod player;
mod threads;
mod work;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use libtest_mimic::{Failed, Trial};
use mscclpp_algorithms as algorithms;
use mscclpp_algorithms::{BufferMode, BuiltinAlgorithm};
use mscclpp_bootstrap as bootstrap;
use mscclpp_communicator::tune::check_launch;
use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::diag::Code;
use mscclpp_core::plan::Plan;
use mscclpp_core::plan::raw::OpKind;
use mscclpp_core::types::ReduceOp;
use mscclpp_dev::{Options, simulator};
use mscclpp_exec::cuda::{self, CudaUnavailable, Device, DeviceBuffer, DeviceSlice, Executor};
use mscclpp_exec::{DataType, Error, Message};
use mscclpp_select::Request;

pub(crate) use self::job::Job;
pub(crate) use self::player::{Player, rank};
use self::threads::{CALL_TIMEOUT, in_threads, on_one_machine};
pub(crate) use self::threads::{each_in_a_thread, machine_options};
pub(crate) use self::work::Work;
use super::at;
use super::bits::shipped;
use super::devices::{seeds_of_case, with_seeds};
use super::stalls;

pub(crate) fn tests(seeds: std::ops::Range<u64>) -> Vec<Trial> {
    let plans = algorithms::all().iter().enumerate().map(|(number, algorithm)| {
        let name = format!("processes::plans::{}", algorithm.name());
        with_seeds(name, seeds_of_case(&seeds, number), move |seed| every_size(seed, algorithm))
    });
    type Test = fn(u64) -> Result<(), Failed>;
    let tests: [(&str, Test); 10] = [
        ("internal_memory_has_no_ipc_handle", internal_memory_has_no_ipc_handle),
        ("waits_follow_timeout_of_calls", waits_follow_timeout_of_calls),
        ("every_call_fails_once", every_call_fails_once),
        ("freed_memory_is_registered_again", freed_memory_is_registered_again),
        ("slice_of_several_allocations_is_rejected", slice_of_several_allocations_is_rejected),
        ("threads_of_one_process", threads_of_one_process),
        ("stalled_launch_makes_executor_unusable", stalled_launch_makes_executor_unusable),
        ("ranks_that_differ_are_told", different_calls_are_reported),
        ("rank_without_memory_is_reported", rank_without_memory_is_reported),
        ("of_the_system", |seed| of_the_system(seed, "simulator")),
    ];
    let tests = tests
        .into_iter()
        .enumerate()
        .map(|(number, (name, test))| with_seeds(format!("processes::{name}"), seeds_of_case(&seeds, number), test));
    // With a given number of iterations, and without.
    let times = with_seeds("processes::ranks_agree_on_measured_times".into(), 0..2, ranks_agree_on_measured_times);
    plans.chain(tests).chain([times]).collect()
}

/// Every rank on a separate device.
fn every_size(seed: u64, algorithm: &BuiltinAlgorithm) -> Result<(), Failed> {
    for (ranks, per_node, files) in [(2, 2, false), (3, 3, true), (2, 1, true)] {
        if !algorithm.supports(ranks, per_node) {
            continue;
        }
        let mut spec = algorithm.spec(ranks, per_node);
        spec.collective.in_place = algorithm.buffer_mode() == BufferMode::InPlace;
        let plan = Plan::new(&algorithm.compile_tree(spec, &algorithm.arguments([])?)?);
        let works = [16, 53].map(|count| {
            let message = Message::new(DataType::F32, count * u64::from(ranks)).any_size();
            Work::new(plan.clone(), message, 2)
        });
        let works = works.into_iter().collect::<Result<Vec<_>, _>>()?;
        in_threads(seed, ranks, files, |world, _, rank| works.iter().try_for_each(|work| work.run(world, rank)))?;
    }
    Ok(())
}

/// No memory is mapped then: each rank accesses the allocations of the others directly, including multicast objects and
/// memory for sharing.
fn threads_of_one_process(seed: u64) -> Result<(), Failed> {
    for name in ["allreduce_packets", "allreduce_ring_ports", "allreduce_switch", "allgather_switch"] {
        let works =
            [128, 53].map(|each| Work::new(shipped(name, 2)?, Message::new(DataType::I32, 2 * each).any_size(), 2));
        let works = works.into_iter().collect::<Result<Vec<_>, _>>()?;
        on_one_machine(seed, 2, |world, _, rank| works.iter().try_for_each(|work| work.run(world, rank)))
            .map_err(|failed| at(name, &failed))?;
    }
    on_one_machine(seed, 2, |world, device, rank| {
        files_and_handles(world, device, rank, "allgather_all_pairs")
            .map_err(|failed| Error::Internal(format!("{failed:?}")))
    })
}

/// A process that does not see the device of another rank cannot open CUDA's interprocess handles of its memory: what the
/// executor allocates needs none, unless a rank's device supports nothing else, and then all ranks use them.
fn internal_memory_has_no_ipc_handle(seed: u64) -> Result<(), Failed> {
    for name in ["allreduce_packets", "allgather_ring_ports", "allreduce_switch"] {
        let work = Work::new(shipped(name, 2)?, Message::new(DataType::F32, 64).any_size(), 2)?;
        for (call, legacy) in [("cuIpcGetMemHandle", false), ("cuIpcOpenMemHandle", false), ("cuMemCreate", true)] {
            let machine = |rank| Options {
                failing: Some((call, 1)),
                legacy: legacy && rank == 1,
                multicast: 0,
                ..machine_options(seed, rank, false)
            };
            let results =
                each_in_a_thread(2, machine, cuda::Options::default(), |world, _, rank| work.run(world, rank))?;
            let results = results.into_iter().collect::<Result<Vec<()>, _>>();
            results.map_err(|error| at(format_args!("{name} without {call}"), &error.to_string().into()))?;
        }
    }
    Ok(())
}

/// Ranks measure the same number of launches, and each returns the times of the slowest one and the wrong elements of all.
fn ranks_agree_on_measured_times(seed: u64) -> Result<(), Failed> {
    let plan = shipped("allreduce_packets", 2)?;
    let request = Request::new(CollectiveKind::AllReduce, 2, DataType::I32, 64);
    let measured = Mutex::new(Vec::new());
    in_threads(seed, 2, false, |world, _, rank| {
        let mut run = world.prepare(&plan, request.message())?;
        let (mut buffers, stream) = (run.buffers()?, world.stream()?);
        let right = check_launch(&mut run, &mut buffers, &stream, &request)?;
        let times = cuda::time(&mut run, &mut buffers, &stream, seed.is_multiple_of(2).then_some(1))?;
        // Other inputs on rank 1 than those that are expected.
        let other = Request { op: Some(ReduceOp::Max), ..request };
        let wrong = check_launch(&mut run, &mut buffers, &stream, if rank == 1 { &other } else { &request })?;
        measured.lock().unwrap_or_else(PoisonError::into_inner).push((times, right, wrong));
        Ok(())
    })?;
    match &measured.into_inner().unwrap_or_else(PoisonError::into_inner)[..] {
        [first, second] if first == second && first.1 == 0 && first.2 > 0 => Ok(()),
        other => Err(format!("{other:?}").into()),
    }
}

/// Without a timeout of its own an executor waits as long as the calls of its communicator.
fn waits_follow_timeout_of_calls(seed: u64) -> Result<(), Failed> {
    let calls = bootstrap::Options::default().timeout;
    let own = Duration::from_secs(7);
    let device = Device::with_driver(simulator(machine_options(seed, 0, false))?);
    for (options, of_group, of_one) in
        [(cuda::Options::default(), CALL_TIMEOUT, calls), (cuda::Options::default().timeout(own), own, own)]
    {
        let machine = |rank| machine_options(seed, rank, false);
        let results = each_in_a_thread(2, machine, options, |world, _, _| match world.timeout() {
            found if found == of_group => Ok(()),
            found => Err(Error::Internal(format!("{found:?} with {options:?}"))),
        })?;
        results.into_iter().collect::<Result<Vec<()>, _>>()?;
        let alone = Executor::with_options(&device, 2, options);
        if alone.timeout() != of_one {
            return Err(format!("{:?} of one process with {options:?}", alone.timeout()).into());
        }
    }
    Ok(())
}

/// A slice that extends past the end of its allocation, as in memory that other libraries compose of several
/// allocations, cannot be shared as one.
fn slice_of_several_allocations_is_rejected(seed: u64) -> Result<(), Failed> {
    let plan = shipped("allreduce_packets", 2)?;
    in_threads(seed, 2, false, |world, device, rank| {
        let run = world.prepare(&plan, Message::new(DataType::F32, 64).any_size())?;
        let [whole, short] = [DeviceBuffer::new(device, 256)?, DeviceBuffer::new(device, 128)?];
        let memory = if rank == 0 { short } else { whole };
        let slice = DeviceSlice { bytes: 256, ..memory.as_slice() };
        match run.bind([[slice, DeviceSlice { bytes: 0, ..slice }]]) {
            Err(Error::NotShareable { rank: 0, reason })
                if reason.contains("of 256 bytes, of which 128 are in its first allocation") => {}
            other => return Err(Error::Internal(format!("rank {rank}: {other:?}"))),
        }
        // The executor is as before.
        let other = DeviceBuffer::new(device, 256)?;
        run.bind([[other.as_slice(), DeviceSlice { bytes: 0, ..slice }]]).map(drop)
    })
}

/// Memory that is freed and allocated again, perhaps at the same address, is registered again.
fn freed_memory_is_registered_again(seed: u64) -> Result<(), Failed> {
    let machine = |rank| Options { equal_ids: true, ..machine_options(seed, rank, false) };
    let results = each_in_a_thread(2, machine, cuda::Options::default(), |world, device, rank| {
        allgathers(world, device, rank, "allgather_all_pairs", |_| true)
            .map_err(|failed| Error::Internal(format!("{failed:?}")))
    })?;
    results.into_iter().collect::<Result<Vec<()>, _>>()?;
    in_threads(seed, 2, false, |world, device, rank| {
        files_and_handles(world, device, rank, "allgather_all_pairs")
            .map_err(|failed| Error::Internal(format!("{failed:?}")))
    })
}

/// Launches of an all-gather on memory that is allocated and freed repeatedly, every second time on memory for sharing.
pub(crate) fn files_and_handles(world: &Executor, device: &Device, rank: u32, name: &str) -> Result<(), Failed> {
    allgathers(world, device, rank, name, |round| round % 2 == 1)
}

/// Launches of an all-gather; `is_shared` decides by the round whether memory is allocated to be shared.
pub(crate) fn allgathers(
    world: &Executor,
    device: &Device,
    rank: u32,
    name: &str,
    is_shared: fn(u8) -> bool,
) -> Result<(), Failed> {
    let ranks = world.num_ranks();
    let algorithm = algorithms::find(name).ok_or("no such algorithm")?;
    let mut spec = algorithm.spec(ranks, ranks);
    spec.collective.in_place = false;
    let plan = Plan::new(&algorithm.compile_tree(spec, &algorithm.arguments([])?)?);
    let message = Message::new(DataType::U8, 32 * u64::from(ranks));
    let mut run = world.prepare(&plan, message)?;
    let stream = world.stream()?;
    let whole = run.buffers()?;
    let [input, output] = [whole.input(rank).bytes, whole.output(rank).bytes];
    for round in 0..4_u8 {
        let bytes = input + output + 16;
        // Memory that other ranks map by a handle, and memory that they receive as a file.
        let mut memory = if is_shared(round) { world.alloc(rank, bytes)? } else { DeviceBuffer::new(device, bytes)? };
        let value = 16 * round + rank as u8 + 1;
        memory.write(&vec![value; (input + output + 16) as usize])?;
        // The second time only offsets are sent.
        for _ in 0..2 {
            let slices = [memory.slice(0..input), memory.slice(input + 16..input + 16 + output)];
            let [Some(first), Some(second)] = slices else { return Err("not inside".into()) };
            let binding = run.bind([[first, second]])?;
            // SAFETY: this rank's memory, which lives until the launch is complete.
            unsafe { run.launch_bound(&binding, &stream)? };
            run.synchronize(&stream)?;
        }
        let mut found = vec![0; (input + output + 16) as usize];
        memory.read(&mut found)?;
        let (at, each) = ((input + 16) as usize, output as usize / ranks as usize);
        for peer in 0..ranks as usize {
            let expected = 16 * round + peer as u8 + 1;
            let part = &found[at + peer * each..][..each];
            if part.iter().any(|&byte| byte != expected) {
                return Err(format!("round {round}, part {peer}: {part:x?}").into());
            }
        }
    }
    Ok(())
}

/// A missing signal is reported by the rank that waits for it; afterwards no wait is endless.
fn stalled_launch_makes_executor_unusable(seed: u64) -> Result<(), Failed> {
    let tree = stalls::without("allreduce_ring", 2, 1, OpKind::Signal)?;
    let (broken, right) = (Plan::new(&tree), shipped("allreduce_ring", 2)?);
    let message = Message::new(DataType::F32, 100).any_size();
    let machine = |rank| Options { patience: Duration::from_secs(2), ..machine_options(seed, rank, false) };
    let options = cuda::Options::default().timeout(Duration::from_millis(1));
    let results = each_in_a_thread(2, machine, options, |world, _, _| {
        let mut run = world.prepare(&broken, message)?;
        let (mut buffers, stream) = (run.buffers()?, world.stream()?);
        let launched = run.launch_buffers(&mut buffers, &stream).and_then(|()| run.synchronize(&stream));
        for again in [run.launch_buffers(&mut buffers, &stream), world.prepare(&right, message).map(|_| ())] {
            if !matches!(again, Err(Error::Bootstrap(_))) {
                return Err(Error::Internal(format!("after a stall: {again:?}")));
            }
        }
        launched
    })?;
    let stalled = |result: &Result<(), Error>| matches!(result, Err(Error::Stalled(_) | Error::Interrupted(_)));
    if results.iter().all(stalled) { Ok(()) } else { Err(format!("{results:?}").into()) }
}

fn different_calls_are_reported(seed: u64) -> Result<(), Failed> {
    let plan = shipped("allreduce_ring", 2)?;
    let machine = |rank| machine_options(seed, rank, false);
    let results = each_in_a_thread(2, machine, cuda::Options::default(), |world, _, rank| {
        let message = Message::new(DataType::F32, 100 + u64::from(rank)).any_size();
        world.prepare(&plan, message).map(|_| ())
    })?;
    let told = |result: &Result<(), Error>| result.as_ref().is_err_and(|error| error.code() == Code::CallMismatch);
    if results.iter().all(told) { Ok(()) } else { Err(format!("{results:?}").into()) }
}

/// Returns the results of two ranks that prepare a plan and allocate buffers, while rank 1's nth call of a driver
/// function fails.
fn prepared_while_one_fails(
    seed: u64,
    plan: &Plan,
    call: &'static str,
    nth: u64,
) -> Result<[Result<(), Error>; 2], Failed> {
    let failing = |rank| (rank == 1).then_some((call, nth));
    let machine = |rank| Options { failing: failing(rank), ..machine_options(seed, rank, false) };
    let results = each_in_a_thread(2, machine, cuda::Options::default(), |world, device, rank| {
        let run = world.prepare(plan, Message::new(DataType::F32, 100).any_size())?;
        let buffers = run.buffers()?;
        // Memory of the caller, which is exported in another way than that of the executor.
        let slices = [buffers.input(rank), buffers.output(rank)];
        let memory = DeviceBuffer::new(device, slices[0].bytes + slices[1].bytes)?;
        let slice = |slice: DeviceSlice, at| DeviceSlice { address: memory.as_slice().address + at, ..slice };
        run.bind([[slice(slices[0], 0), slice(slices[1], slices[0].bytes)]]).map(drop)
    })?;
    results.try_into().map_err(|_| "two ranks".into())
}

/// A rank without memory reports that to the others; it does not block them.
fn rank_without_memory_is_reported(seed: u64) -> Result<(), Failed> {
    let plan = shipped("allreduce_ring", 2)?;
    // Tables and the caller's memory; the allocation on trial, counters, scratch and buffers: each in its turn.
    for (call, count) in [("cuMemAlloc", 2), ("cuMemCreate", 5)] {
        for nth in 1..=count {
            let results = prepared_while_one_fails(seed, &plan, call, nth)?;
            match &results {
                // Memory that it has shared may be freed before the other rank has mapped it.
                [Err(first), Err(Error::Driver(_))] if first.root_cause().is_some_and(|cause| cause.rank == 1) => {}
                _ => return Err(format!("{call} {nth}: {results:?}").into()),
            }
        }
    }
    Ok(())
}

/// Calls for memory of other processes, and whether their failure is reported to a rank.
pub(crate) const CALLS: [(&str, bool); 7] = [
    ("cuMemExportToShareableHandle", true),
    ("cuMemImportFromShareableHandle", true),
    ("cuIpcGetMemHandle", true),
    ("cuIpcOpenMemHandle", true),
    ("cuMemGetAddressRange", true),
    ("cuPointerGetAttribute", true),
    ("cuIpcCloseMemHandle", false),
];

/// Calls for memory of other processes, for each of the first calls of a function a failure on one rank: no wait is
/// endless, and the simulator detects no leak.
fn every_call_fails_once(seed: u64) -> Result<(), Failed> {
    let plan = shipped("allreduce_ring", 2)?;
    for (call, is_heard) in CALLS {
        for nth in 1..=20 {
            let results = prepared_while_one_fails(seed, &plan, call, nth)?;
            let [first, second] = &results;
            let is_named = match second {
                Err(Error::Driver(error)) => error.call == call,
                Err(Error::MapFailed { error, peer: 0, .. }) => error.call == call,
                Err(Error::NotShareable { rank: 1, reason }) => reason.contains(call),
                _ => false,
            };
            match (first, second) {
                (Ok(()), Ok(())) if nth > 1 || !is_heard => break,
                // The last call of the program is complete.
                (
                    Ok(())
                    | Err(
                        Error::RankLost { peer: 1, .. }
                        | Error::Bootstrap(_)
                        | Error::MapFailed { peer: 1, .. }
                        | Error::NotShareable { rank: 1, .. },
                    ),
                    Err(_),
                ) if is_named => {}
                _ => return Err(format!("call {nth} of {call}: {results:?}").into()),
            }
        }
    }
    Ok(())
}

/// Executors and processes on devices of the mock.
pub(crate) fn on_mock(seed: u64) -> [Trial; 2] {
    [
        Trial::test("mock::processes::of_the_system", move || of_the_system(seed, "mock")),
        Trial::test("mock::processes::hidden_devices", move || Job::start("hidden", "mock", seed, 2, 2)?.succeed()),
    ]
}

/// Ranks in processes.
pub(crate) fn of_the_system(seed: u64, driver: &str) -> Result<(), Failed> {
    Job::start("processes", driver, seed, 2, 2)?.succeed()
}

/// Processes on the one real device: they share their memory by handles or by descriptors; or half of them are assigned
/// to another simulated host. They share the device in time slices, so a launch takes milliseconds.
pub(crate) fn on_device(device: &Result<Device, CudaUnavailable>) -> Vec<Trial> {
    let roles = ["handles", "descriptors", "hosts"];
    let trial = |(ranks, role): (u32, &'static str)| {
        let per_node = if role == "hosts" { ranks / 2 } else { ranks };
        Trial::test(format!("cuda::processes::{role}_of_{ranks}"), move || {
            Job::start(role, "cuda", 1, ranks, per_node)?.succeed()
        })
        .with_ignored_flag(device.is_err())
    };
    [2, 4].into_iter().flat_map(|ranks| roles.map(|role| (ranks, role))).map(trial).collect()
}
