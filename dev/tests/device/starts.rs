//! Launches of changing sizes in sequence, before the host waits for any: between them the callers' streams write
//! inputs and outputs and read outputs, at random times, while one device is slow. Most plans begin such launches
//! without a barrier of the devices, so one device may be a launch ahead of another one.

use std::sync::Barrier;
use std::time::Duration;

use libtest_mimic::{Failed, Trial};
use mscclpp_algorithms as algorithms;
use mscclpp_algorithms::{BufferMode, BuiltinAlgorithm};
use mscclpp_core::check::check;
use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::diag::Code;
use mscclpp_core::plan::{
    Plan,
    raw::{OpKind, PlanTree},
};
use mscclpp_dev::{Options, barrier_bugs, machine, simulator};
use mscclpp_exec::cuda::{
    self, Buffers, Device, DeviceBuffer, DeviceSlice, Executor, Handle, PreparedPlan, SharedDriver, Stream,
};
use mscclpp_exec::error::WaitsFor;
use mscclpp_exec::verify::{Pattern, Verifier};
use mscclpp_exec::{DataType, Error, Message, cpu};

use super::bits::{Pair, shipped};
use super::devices::{seeds_of_case, with_seeds};
use super::processes::{each_in_a_thread, machine_options};
use super::seeds::some_seed_finds;
use super::{at, mock};

pub(crate) fn tests(seeds: std::ops::Range<u64>) -> Vec<Trial> {
    type Test = fn(u64, &BuiltinAlgorithm) -> Result<(), Failed>;
    let tests: [(&str, Test); 3] =
        [("one_process", in_one_process), ("processes", in_processes), ("short", few_elements)];
    let of_plans = seeds.clone();
    let plans = algorithms::all().iter().enumerate().flat_map(|(number, algorithm)| {
        let seeds = seeds_of_case(&of_plans, number);
        tests.map(move |(name, test)| {
            let name = format!("starts::{name}::{}", algorithm.name());
            with_seeds(name, seeds.clone(), move |seed| test(seed, algorithm))
        })
    });
    let kept = with_seeds("starts::kept_barriers".into(), seeds.clone(), |seed| {
        [false, true].into_iter().try_for_each(|at_end| plans_without_syncs(seed, at_end, None))
    });
    let short = with_seeds("starts::short_messages".into(), seeds.clone(), short_messages);
    let bugs = barrier_bugs().map(|bug| Trial::test(format!("starts::bugs::{bug}"), move || is_found(bug)));
    let grown = with_seeds("starts::graphs_before_growth".into(), 0..8, graphs_before_growth);
    let graphs = with_seeds("starts::graphs_of_several_sizes".into(), seeds.clone(), graphs_of_several_sizes);
    let absent = with_seeds("starts::absent_rank_is_named".into(), seeds, absent_rank_is_named);
    plans.chain(bugs).chain([kept, short, grown, graphs, absent]).collect()
}

/// With CUDA's own functions: the host writes the data of all launches before the first one.
pub(crate) fn on_mock(mock: &Result<&'static mock::Driver, String>, seeds: std::ops::Range<u64>) -> Trial {
    let mock = mock.clone();
    Trial::test("mock::starts::shipped_algorithms", move || {
        let mock = mock?;
        for seed in seeds {
            let rig = mock.devices(options(seed, 3, None), 3)?;
            let world = Executor::with_devices(&rig.devices, cuda::Options::default())?;
            for algorithm in algorithms::all().iter().filter(|algorithm| algorithm.supports(3, 3)) {
                let plan = plan_of(algorithm, 3, 3)?;
                let pair = |count: u64| -> Result<Pair, Failed> {
                    let message = Message::new(DataType::F32, 3 * count).any_size();
                    Ok(Pair::new(&world, &plan, message)?.ok_or("too many thread blocks")?)
                };
                let mut pairs = [53, 7, 16].into_iter().map(pair).collect::<Result<Vec<_>, _>>()?;
                for _ in 0..2 {
                    pairs.iter_mut().try_for_each(Pair::refill)?;
                    pairs.iter_mut().try_for_each(Pair::launch)?;
                    let compared = pairs.iter_mut().try_for_each(Pair::compare);
                    compared.map_err(|failed| at(algorithm.name(), &failed))?;
                }
            }
        }
        Ok(())
    })
}

/// Elements per rank of the launches in sequence.
const COUNTS: [u64; 5] = [53, 16, 16, 53, 7];

/// Elements of three ranks together, every other time too few for all ranks to send something to all others.
const SHORT: [u64; 5] = [6000, 1, 6000, 2, 6000];

/// A launch's data, by rank: input, output before, output after.
type Data = Vec<[Vec<u8>; 3]>;

/// Launches and their expected results.
struct Sequence {
    plan: Plan,
    launches: Vec<(Message, Data)>,
}

impl Sequence {
    fn new(plan: Plan) -> Result<Self, Failed> {
        let ranks = u64::from(plan.num_ranks());
        Self::of_counts(plan, &COUNTS.map(|count| count * ranks))
    }

    /// Launches of these numbers of elements.
    fn of_counts(plan: Plan, counts: &[u64]) -> Result<Self, Failed> {
        let ranks = plan.num_ranks();
        let mut launches = Vec::new();
        for (seed, &count) in (1..).zip(counts) {
            let message = Message::new(DataType::F32, count).any_size();
            let mut run = cpu::Executor::new(ranks).prepare(&plan, message)?;
            let mut buffers = run.buffers()?;
            (0..ranks).for_each(|rank| buffers.output_mut(rank).fill(0xa5));
            Verifier::with_pattern(&run, seed, Pattern::Real).fill(&mut buffers);
            let before: Vec<_> =
                (0..ranks).map(|rank| [buffers.input(rank).to_vec(), buffers.output(rank).to_vec()]).collect();
            run.launch_buffers(&mut buffers)?;
            let after = (0..).zip(before).map(|(rank, [input, output])| [input, output, buffers.output(rank).to_vec()]);
            launches.push((message, after.collect()));
        }
        Ok(Self { plan, launches })
    }
}

/// A rank whose caller is in this process: its device, and a stream of the device.
struct Caller {
    rank: u32,
    driver: SharedDriver,
    device: Device,
    stream: Handle,
}

impl Caller {
    fn new(rank: u32, driver: &SharedDriver, device: &Device, stream: Handle) -> Self {
        Self { rank, driver: driver.clone(), device: device.clone(), stream }
    }

    /// Enqueues a copy on the stream.
    fn copy(&self, to: DeviceSlice, from: DeviceSlice) -> Result<(), Error> {
        if to.bytes == 0 {
            return Ok(());
        }
        Ok(self.driver.copy(to.address, from.address, to.bytes, self.stream)?)
    }

    fn memory(&self, bytes: &[u8]) -> Result<DeviceBuffer, Error> {
        let mut memory = DeviceBuffer::new(&self.device, bytes.len() as u64)?;
        memory.write(bytes)?;
        Ok(memory)
    }
}

/// Runs the launches, and compares all outputs. `pause`: called before each of them.
fn run(
    world: &Executor,
    stream: &Stream,
    callers: &[Caller],
    sequence: &Sequence,
    mut pause: impl FnMut(),
) -> Result<(), Error> {
    // Launches of a size share buffers, so consecutive ones access the same memory.
    let mut bound: Vec<(u64, PreparedPlan, Buffers)> = Vec::new();
    for (message, _) in &sequence.launches {
        if bound.iter().all(|(count, ..)| *count != message.count) {
            let run = world.prepare(&sequence.plan, *message)?;
            let buffers = run.buffers()?;
            bound.push((message.count, run, buffers));
        }
    }
    let (mut memories, mut results) = (Vec::new(), Vec::new());
    for (message, data) in &sequence.launches {
        let Some((_, run, buffers)) = bound.iter_mut().find(|(count, ..)| *count == message.count) else { continue };
        let mut found = Vec::new();
        for caller in callers {
            let [input, before, after] = &data[caller.rank as usize];
            let [input, before] = [caller.memory(input)?, caller.memory(before)?];
            caller.copy(buffers.output(caller.rank), before.as_slice())?;
            caller.copy(buffers.input(caller.rank), input.as_slice())?;
            found.push(caller.memory(&vec![0; after.len()])?);
            memories.extend([input, before]);
        }
        pause();
        run.launch_buffers(buffers, stream)?;
        for (caller, found) in callers.iter().zip(&found) {
            caller.copy(found.as_slice(), buffers.output(caller.rank))?;
            // The data that peers would read after the end of the launch, or before the beginning of the next one.
            let noise = caller.memory(&vec![0x3c; buffers.input(caller.rank).bytes as usize])?;
            caller.copy(buffers.input(caller.rank), noise.as_slice())?;
            memories.push(noise);
        }
        results.push(found);
    }
    for (_, run, _) in &bound {
        run.synchronize(stream)?;
    }
    for (number, (found, (message, data))) in results.iter().zip(&sequence.launches).enumerate() {
        for (caller, found) in callers.iter().zip(found) {
            let after = &data[caller.rank as usize][2];
            let mut bytes = vec![0; after.len()];
            found.read(&mut bytes)?;
            if let Some(at) = (0..bytes.len()).find(|&at| bytes[at] != after[at]) {
                return Err(Error::Internal(format!(
                    "launch {number}, {} elements, rank {}, byte {at}: {:#x}, expected {:#x}",
                    message.count, caller.rank, bytes[at], after[at]
                )));
            }
        }
    }
    Ok(())
}

/// Ranks on the devices of one process; `map`: by rank.
fn on_devices(options: Options, map: &[usize], sequence: &Sequence) -> Result<(), Failed> {
    let count = map.iter().max().map_or(0, |&last| last as u32 + 1);
    let drivers = machine(options, count)?;
    let devices: Vec<Device> = drivers.iter().cloned().map(Device::with_driver).collect();
    let streams = drivers.iter().map(|driver| driver.create_stream()).collect::<Result<Vec<_>, _>>()?;
    let ranks: Vec<Device> = map.iter().map(|&number| devices[number].clone()).collect();
    let done = (|| {
        let world = Executor::with_devices(&ranks, cuda::Options::default())?;
        // SAFETY: streams of these devices, which are destroyed after the executor.
        let lane = |(device, stream): (&Device, &Handle)| unsafe { Stream::from_raw(device, stream.0) };
        let stream = Stream::join(devices.iter().zip(&streams).map(lane));
        let caller = |(rank, &at): (u32, &usize)| Caller::new(rank, &drivers[at], &devices[at], streams[at]);
        let callers: Vec<Caller> = (0..).zip(map).map(caller).collect();
        run(&world, &stream, &callers, sequence, || {})
    })();
    for (driver, stream) in drivers.iter().zip(streams) {
        driver.destroy_stream(stream)?;
    }
    Ok(done?)
}

/// Threads that are preempted more or less often, a slow device, and for every other seed delayed copies. Where copies
/// are immediate, the next kernel of a device begins while a slow device is still in the launch before.
fn options(seed: u64, devices: u32, bug: Option<&'static str>) -> Options {
    let slow = Some(seed as u32 % (devices + 1)).filter(|&device| device < devices);
    let late = seed.is_multiple_of(2);
    Options { seed, stop_at_one_of: [0, 16, 3][seed as usize % 3], slow, late, bug, ..Options::default() }
}

fn plan_of(algorithm: &BuiltinAlgorithm, ranks: u32, per_node: u32) -> Result<Plan, Failed> {
    let mut spec = algorithm.spec(ranks, per_node);
    spec.collective.in_place = algorithm.buffer_mode() == BufferMode::InPlace;
    Ok(Plan::new(&algorithm.compile_tree(spec, &algorithm.arguments([])?)?))
}

fn in_one_process(seed: u64, algorithm: &BuiltinAlgorithm) -> Result<(), Failed> {
    let maps: [(&[usize], u32); 4] = [(&[0, 1], 2), (&[0, 1, 2], 3), (&[0, 1, 0], 3), (&[0, 0, 1, 1], 2)];
    for (map, per_node) in maps {
        let ranks = map.len() as u32;
        if algorithm.supports(ranks, per_node) {
            let sequence = Sequence::new(plan_of(algorithm, ranks, per_node)?)?;
            on_devices(options(seed, 2, None), map, &sequence)
                .map_err(|failed| at(format_args!("ranks on devices {map:?}"), &failed))?;
        }
    }
    Ok(())
}

/// Replays of launches of two sizes and plans, all before any wait: captured launches do not depend on the launches
/// before them.
fn graphs_of_several_sizes(seed: u64) -> Result<(), Failed> {
    let devices = machine(options(seed, 3, None), 3)?.into_iter().map(Device::with_driver).collect::<Vec<_>>();
    let world = Executor::with_devices(&devices, cuda::Options::default())?;
    let mut pairs = Vec::new();
    for (name, count) in [("allreduce_packets", 159), ("allreduce_all_pairs", 48), ("allreduce_packets", 21)] {
        let algorithm = algorithms::find(name).ok_or("no such algorithm")?;
        let mut spec = algorithm.spec(3, 3);
        // So that every replay has the same result.
        spec.collective.in_place = false;
        let plan = Plan::new(&algorithm.compile_tree(spec, &algorithm.arguments([])?)?);
        let message = Message::new(DataType::F32, count).any_size();
        let mut pair = Pair::new(&world, &plan, message)?.ok_or("too many thread blocks")?;
        pair.refill()?;
        pairs.push(pair);
    }
    let stream = world.stream()?;
    let graph = stream.capture(|stream| {
        let mut launch = |Pair { run, buffers, .. }: &mut Pair| run.launch_buffers(buffers, stream);
        pairs.iter_mut().try_for_each(&mut launch)?;
        pairs.iter_mut().rev().try_for_each(launch)
    })?;
    for _ in 0..3 {
        // SAFETY: prepared plans and buffers exist until the stream is complete, and nothing else is launched.
        unsafe { graph.launch(&stream)? };
    }
    stream.synchronize()?;
    pairs.iter_mut().try_for_each(Pair::compare)
}

/// Replays of a launch that was captured before scratch grew for a longer message, alternating with launches of that message.
fn graphs_before_growth(seed: u64) -> Result<(), Failed> {
    let options = Options { slow: Some(seed as u32 % 2), late: false, ..options(seed, 2, None) };
    let devices = machine(options, 2)?.into_iter().map(Device::with_driver).collect::<Vec<_>>();
    let world = Executor::with_devices(&devices, cuda::Options::default())?;
    let algorithm = algorithms::find("allreduce_packets").ok_or("no such algorithm")?;
    let mut spec = algorithm.spec(2, 2);
    spec.collective.in_place = false;
    let plan = Plan::new(&algorithm.compile_tree(spec, &algorithm.arguments([])?)?);
    let pair = |count| -> Result<Pair, Failed> {
        let message = Message::new(DataType::F32, count).any_size();
        let mut pair = Pair::new(&world, &plan, message)?.ok_or("too many thread blocks")?;
        pair.refill()?;
        Ok(pair)
    };
    let mut short = pair(500)?;
    let stream = world.stream()?;
    let graph = stream.capture(|stream| short.run.launch_buffers(&mut short.buffers, stream))?;
    let mut long = pair(20_000)?;
    for _ in 0..4 {
        // SAFETY: the prepared plan and the buffers exist until the stream is complete.
        unsafe { graph.launch(&stream)? };
        long.run.launch_buffers(&mut long.buffers, &stream)?;
    }
    stream.synchronize()?;
    short.compare()?;
    long.compare()
}

/// Ranks in threads that pause at random, each with a separate host that does not track the kernels of the others.
fn in_processes(seed: u64, algorithm: &BuiltinAlgorithm) -> Result<(), Failed> {
    const RANKS: u32 = 3;
    if !algorithm.supports(RANKS, RANKS) {
        return Ok(());
    }
    with_pauses(seed, RANKS, &Sequence::new(plan_of(algorithm, RANKS, RANKS)?)?)
}

/// Runs launches on ranks in threads that pause at random.
fn with_pauses(seed: u64, ranks: u32, sequence: &Sequence) -> Result<(), Failed> {
    let results = each_with_driver(seed, ranks, |world, driver, device, rank| {
        let handle = driver.create_stream()?;
        let mut state = seed ^ u64::from(rank) << 32;
        // SAFETY: a stream of this device, which is destroyed after the executor's last launch.
        let stream = unsafe { Stream::from_raw(device, handle.0) };
        let done = run(world, &stream, &[Caller::new(rank, driver, device, handle)], sequence, || {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            std::thread::sleep(Duration::from_micros((state >> 33) % 3 * 500));
        });
        driver.destroy_stream(handle)?;
        done
    })?;
    let failed: Vec<String> =
        (0..).zip(results).filter_map(|(rank, done)| Some(format!("rank {rank}: {}", done.err()?))).collect();
    if failed.is_empty() { Ok(()) } else { Err(failed.join("; ").into()) }
}

/// Plans whose ranks access their peers' buffers without synchronization at one end of a launch: the signals and waits before
/// the first access of each thread block, or after the last one, are removed. They keep the barrier there.
fn without_syncs(name: &str, ranks: u32, at_end: bool) -> Result<PlanTree, Failed> {
    let algorithm = algorithms::find(name).ok_or("no such algorithm")?;
    let mut tree = algorithm.compile_tree(algorithm.spec(ranks, ranks), &algorithm.arguments([])?)?;
    for block in tree.ranks.iter_mut().flat_map(|rank| &mut rank.blocks) {
        let moves = |kind| {
            !matches!(kind, OpKind::Signal | OpKind::RelaxedSignal | OpKind::Wait | OpKind::RelaxedWait | OpKind::Nop)
        };
        if at_end {
            let end = block.ops.iter().rposition(|op| moves(op.kind)).map_or(0, |last| last + 1);
            block.ops.truncate(end);
        } else {
            let first = block.ops.iter().position(|op| moves(op.kind)).unwrap_or(0);
            block.ops.drain(..first);
        }
    }
    // The plan has no other error.
    let allowed = if at_end { Code::LateAccess } else { Code::EarlyAccess };
    match check(&tree).iter().find(|found| found.code != allowed) {
        Some(found) => Err(format!("{name}: {found}").into()),
        None => Ok(tree),
    }
}

/// Algorithms for which this removal makes such plans.
const SIMPLE: [&str; 3] = ["allreduce_all_pairs", "allgather_pull", "alltoall_pull"];

fn plans_without_syncs(seed: u64, at_end: bool, bug: Option<&'static str>) -> Result<(), Failed> {
    for name in SIMPLE {
        let sequence = Sequence::new(Plan::new(&without_syncs(name, 3, at_end)?))?;
        on_devices(options(seed, 3, bug), &[0, 1, 2], &sequence).map_err(|failed| at(name, &failed))?;
    }
    Ok(())
}

/// Packets, which order launches only where ranks have data for each other: a rank that receives none could otherwise use
/// the same half of scratch again before another rank has read it. All-to-all, but of any number of elements.
fn short_messages(seed: u64) -> Result<(), Failed> {
    const RANKS: u32 = 3;
    let algorithm = algorithms::find("alltoall_packets").ok_or("no such algorithm")?;
    let mut tree = algorithm.compile_tree(algorithm.spec(RANKS, RANKS), &algorithm.arguments([])?)?;
    tree.collective.kind = CollectiveKind::Test { input: RANKS, output: RANKS };
    let sequence = Sequence::of_counts(Plan::new(&tree), &SHORT)?;
    on_devices(options(seed, RANKS, None), &[0, 1, 2], &sequence)
}

/// Launches of 1 to 64 elements between longer ones, where some ranks have nothing to send to some others. 448 seeds have all numbers of
/// elements on 2 to 8 ranks, on devices of one process and of several.
fn few_elements(seed: u64, algorithm: &BuiltinAlgorithm) -> Result<(), Failed> {
    let (is_one_process, ranks, first) = (seed.is_multiple_of(2), 2 + (seed / 2 % 7) as u32, 1 + seed / 14 % 32);
    if !algorithm.supports(ranks, ranks) {
        return Ok(());
    }
    let plan = plan_of(algorithm, ranks, ranks)?;
    let is_possible = |count: u64| {
        let run = cpu::Executor::new(ranks).prepare(&plan, Message::new(DataType::F32, count).any_size());
        !matches!(run, Err(Error::IndivisibleCount { .. }))
    };
    let unit = if is_possible(1) { 1 } else { u64::from(ranks) };
    let long = 60 * u64::from(ranks);
    let counts: Vec<u64> = [first, first + 32].into_iter().flat_map(|count| [unit * count, long]).collect();
    let sequence = Sequence::of_counts(plan, &counts)?;
    let place = |failed: Failed| at(format_args!("{ranks} ranks, {counts:?} elements"), &failed);
    match is_one_process {
        true => {
            let map: Vec<usize> = (0..ranks as usize).collect();
            on_devices(options(seed / 2, ranks, None), &map, &sequence).map_err(place)
        }
        false => with_pauses(seed, ranks, &sequence).map_err(place),
    }
}

/// Without the wait at the beginning or at the end, plans that need it have wrong results.
fn is_found(bug: &'static str) -> Result<(), Failed> {
    let at_end = bug == "no_wait_at_the_end";
    some_seed_finds(bug, |seed| match plans_without_syncs(seed, at_end, Some(bug)) {
        Err(failed) if failed.message().is_some_and(|text| text.contains(", expected 0x")) => Ok(true),
        result => result.map(|()| false),
    })
}

/// In a ring only the next rank waits for a rank that does not begin, and the others wait for one another: all of them
/// name the absent rank.
fn absent_rank_is_named(seed: u64) -> Result<(), Failed> {
    const RANKS: u32 = 4;
    const ABSENT: u32 = 2;
    for (name, launches) in [("allreduce_ring", 1), ("allreduce_packets", 2), ("allgather_ring_ports", 3)] {
        let (plan, message) = (shipped(name, RANKS)?, Message::new(DataType::F32, 100).any_size());
        let machine = |rank| Options { patience: Duration::from_secs(2), ..machine_options(seed, rank, false) };
        let (begin, end) = (Barrier::new(RANKS as usize), Barrier::new(RANKS as usize));
        let results = each_in_a_thread(RANKS, machine, cuda::Options::default(), |world, _, rank| {
            let mut run = world.prepare(&plan, message)?;
            let (mut buffers, stream) = (run.buffers()?, world.stream()?);
            let mut launch = || run.launch_buffers(&mut buffers, &stream).and_then(|()| run.synchronize(&stream));
            let before = (1..launches).try_for_each(|_| launch());
            begin.wait();
            let last = if rank == ABSENT { Ok(()) } else { launch() };
            end.wait();
            before.and(last)
        })?;
        for (rank, result) in (0..).zip(results) {
            let stall = match result {
                Ok(()) if rank == ABSENT => continue,
                Err(Error::Stalled(stall)) => *stall,
                Err(Error::Interrupted(interrupted)) => interrupted.stall,
                other => return Err(format!("{name}, rank {rank}: {other:?}").into()),
            };
            let first = stall.blocked.first().map(|blocked| &blocked.waits_for);
            if first != Some(&WaitsFor::Peers { ranks: vec![ABSENT] }) || stall.launch != launches {
                return Err(format!("{name}, launch {launches}, rank {rank}: {stall}").into());
            }
            let names_another =
                |waits_for: &WaitsFor| matches!(waits_for, WaitsFor::Signal { peer, .. } if *peer != ABSENT);
            if let Some(blocked) = stall.blocked.iter().find(|blocked| names_another(&blocked.waits_for)) {
                return Err(format!("{name}, rank {rank}: {blocked}").into());
            }
        }
    }
    Ok(())
}

/// Ranks in threads, each with a separate driver.
fn each_with_driver(
    seed: u64,
    ranks: u32,
    run: impl Fn(&Executor, &SharedDriver, &Device, u32) -> Result<(), Error> + Sync,
) -> Result<Vec<Result<(), Error>>, Failed> {
    use std::sync::Arc;

    use mscclpp_bootstrap as bootstrap;
    use mscclpp_bootstrap::Bootstrap;
    let deadline = bootstrap::Options::default().timeout(Duration::from_secs(120));
    let groups = Bootstrap::local_with_options(ranks, deadline)?;
    Ok(std::thread::scope(|scope| {
        let start = |(rank, group): (u32, Bootstrap)| {
            let run = &run;
            scope.spawn(move || {
                let driver = simulator(machine_options(seed, rank, false)).map_err(Error::Internal)?;
                let device = Device::with_driver(driver.clone());
                let world = Executor::connect(&Arc::new(group), &device, cuda::Options::default())?;
                run(&world, &driver, &device, rank)
            })
        };
        let threads: Vec<_> = (0..ranks).zip(groups).map(start).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|_| Err(Error::Internal("it panicked".into())))
        };
        threads.into_iter().map(join).collect()
    }))
}
