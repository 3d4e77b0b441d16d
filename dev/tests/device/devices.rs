//! Ranks on several devices.

use std::time::Duration;

use libtest_mimic::{Failed, Trial};
use mscclpp_algorithms as algorithms;
use mscclpp_algorithms::{BufferMode, BuiltinAlgorithm};
use mscclpp_communicator::tune::{Tuner, TuningTable};
use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::diag::Code;
use mscclpp_core::plan::Plan;
use mscclpp_core::plan::raw::OpKind;
use mscclpp_core::types::ReduceOp;
use mscclpp_dev::{Options, machine};
use mscclpp_exec::cuda::jit::Cache;
use mscclpp_exec::cuda::{self, Device, Executor};
use mscclpp_exec::{DataType, Error, Message};
use mscclpp_select::{Backend, DecidedBy, Registry, Request};

use super::bits::{Pair, shipped};
use super::{CACHE, at, stalls};

pub(crate) fn tests(seeds: std::ops::Range<u64>) -> Vec<Trial> {
    type Test = fn(u64) -> Result<(), Failed>;
    let plans = algorithms::all().iter().enumerate().map(|(number, algorithm)| {
        let name = format!("devices::plans::{}", algorithm.name());
        with_seeds(name, seeds_of_case(&seeds, number), move |seed| every_map(seed, algorithm))
    });
    let tests: [(&str, Test); 12] = [
        ("streams_in_turns", streams_in_turns),
        ("tuning_table_names_devices", tuning_table_names_devices),
        ("memory_that_is_made_to_be_shared", memory_that_is_made_to_be_shared),
        ("port_channels_are_drained_after_wait", port_channels_are_drained_after_wait),
        ("specialized_kernels", specialized_kernels),
        ("launch_ends_after_all_devices_have_finished", launch_ends_after_all_devices_have_finished),
        ("launches_follow_one_another", launches_follow_one_another),
        ("graphs_on_several_devices", graphs_on_several_devices),
        ("averages_of_many_ranks", averages_of_many_ranks),
        ("missing_signal_is_reported", missing_signal_is_reported),
        ("stream_of_one_device_is_rejected", stream_of_one_device_is_rejected),
        ("devices_without_peer_access_are_rejected", devices_without_peer_access_are_rejected),
    ];
    let tests = tests
        .into_iter()
        .enumerate()
        .map(|(number, (name, test))| with_seeds(format!("devices::{name}"), seeds_of_case(&seeds, number), test));
    let bug = Trial::test("devices::bugs::lost_waits", lost_waits_are_detected);
    plans.chain(tests).chain([bug]).collect()
}

/// A table that is measured on devices serves calls on any memory.
fn tuning_table_names_devices(seed: u64) -> Result<(), Failed> {
    let devices = devices(seed, 2, Options::default())?;
    let executor = Executor::with_devices(&devices, cuda::Options::default())?;
    let tuner = Tuner {
        collectives: vec![CollectiveKind::Broadcast],
        max_bytes: 1 << 10,
        in_place: vec![false],
        iterations: Some(1),
        blocks: vec![2],
        threads: vec![64],
        ..Tuner::default()
    };
    let mut registry = Registry::builtin();
    let mut reported = 0;
    let table = tuner.run_on_devices(&executor, &registry, |_| reported += 1)?;
    assert_eq!((reported, table.entries.len()), (1, 1));
    assert_eq!(table.machine.devices.as_deref(), Some("2 × simulated device"));
    let text = table.text();
    let read = TuningTable::parse("a table".as_ref(), &text)?;
    assert_eq!(read, table);
    registry.set_table(Some(read));
    for registered in [false, true] {
        let request = Request {
            backend: Backend::Cuda,
            registered,
            ..Request::new(CollectiveKind::Broadcast, 2, DataType::F32, 1000)
        };
        let decision = registry.select(&request)?;
        assert_eq!((decision.config.threads, decision.decided_by), (Some(64), DecidedBy::Table(1 << 10)));
    }
    Ok(())
}

/// Returns the seeds of test `number` of several: neighbors have others, so that also with one seed per test all settings occur that
/// a seed selects.
pub(crate) fn seeds_of_case(seeds: &std::ops::Range<u64>, number: usize) -> std::ops::Range<u64> {
    seeds.start + number as u64..seeds.end + number as u64
}

/// A test that tries several seeds.
pub(crate) fn with_seeds(
    name: String,
    seeds: std::ops::Range<u64>,
    run: impl Fn(u64) -> Result<(), Failed> + Send + 'static,
) -> Trial {
    Trial::test(name, move || {
        seeds.into_iter().try_for_each(|seed| run(seed).map_err(|failed| at(format_args!("seed {seed}"), &failed)))
    })
}

/// The devices of a host.
fn devices(seed: u64, count: u32, options: Options) -> Result<Vec<Device>, Failed> {
    let options = Options { seed, stop_at_one_of: [0, 16, 3][seed as usize % 3], ..options };
    let with_cache = |driver| Device::with_cache(driver, Cache::at(CACHE));
    Ok(machine(options, count)?.into_iter().map(with_cache).collect())
}

/// An executor whose ranks are on the devices of these numbers.
pub(crate) fn world(seed: u64, map: &[usize]) -> Result<Executor, Failed> {
    let devices = devices(seed, map.iter().max().map_or(0, |&last| last as u32 + 1), Options::default())?;
    let ranks: Vec<_> = map.iter().map(|&number| devices[number].clone()).collect();
    Ok(Executor::with_devices(&ranks, cuda::Options::default())?)
}

/// Each device has a kernel for its own thread blocks.
fn specialized_kernels(seed: u64) -> Result<(), Failed> {
    for name in ["allreduce_all_pairs", "allreduce_packets", "allreduce_ring_ports"] {
        let world = world(seed, &[0, 1, 0])?;
        for count in [64, 37] {
            let message = Message::new(DataType::F32, 3 * count).any_size();
            let prepare = cuda::PrepareOptions::default().specialize(true);
            let mut pair = Pair::with(&world, &shipped(name, 3)?, message, prepare)?.ok_or("too many thread blocks")?;
            pair.run.specialized().map_err(|reason| format!("not specialized: {reason}"))?;
            pair.check(2).map_err(|failed| at(name, &failed))?;
        }
    }
    Ok(())
}

/// Every rank on a separate device, and two ranks on each.
fn every_map(seed: u64, algorithm: &BuiltinAlgorithm) -> Result<(), Failed> {
    let maps: [(&[usize], u32); 5] = [(&[0, 1], 2), (&[0, 1, 2], 3), (&[0, 1, 0], 3), (&[0, 0, 1, 1], 2), (&[1, 0], 1)];
    for (map, per_node) in maps {
        let ranks = map.len() as u32;
        if !algorithm.supports(ranks, per_node) {
            continue;
        }
        let mut spec = algorithm.spec(ranks, per_node);
        spec.collective.in_place = algorithm.buffer_mode() == BufferMode::InPlace;
        let plan = Plan::new(&algorithm.compile_tree(spec, &algorithm.arguments([])?)?);
        let world = world(seed, map)?;
        for count in [16, 53] {
            let message = Message::new(DataType::F32, count * u64::from(ranks)).any_size();
            let place = format!("ranks on devices {map:?}, {count} elements each");
            Pair::new(&world, &plan, message)?
                .ok_or("too many thread blocks")?
                .check(2)
                .map_err(|failed| at(place, &failed))?;
        }
    }
    Ok(())
}

/// Many launches of several sizes and plans before any wait: devices that are ahead must not disturb those that are
/// slower.
fn launches_follow_one_another(seed: u64) -> Result<(), Failed> {
    let world = world(seed, &[0, 1, 2])?;
    let mut pairs = Vec::new();
    for (name, count) in [("allreduce_packets", 30), ("allreduce_all_pairs", 60), ("allreduce_packets", 90)] {
        let message = Message::new(DataType::F32, count).any_size();
        // Out of place, so that every launch has the same result.
        let algorithm = algorithms::find(name).ok_or("no such algorithm")?;
        let mut spec = algorithm.spec(3, 3);
        spec.collective.in_place = false;
        let plan = Plan::new(&algorithm.compile_tree(spec, &algorithm.arguments([])?)?);
        let mut pair = Pair::new(&world, &plan, message)?.ok_or("too many thread blocks")?;
        pair.refill()?;
        pairs.push(pair);
    }
    for _ in 0..4 {
        pairs.iter_mut().try_for_each(Pair::launch)?;
    }
    pairs.iter_mut().try_for_each(Pair::compare)
}

/// Launches on two streams in turns, of two plans, while copies, records and waits are delayed: launches of an executor
/// are executed one after the other whatever their streams.
fn streams_in_turns(seed: u64) -> Result<(), Failed> {
    in_turns(seed, Options { late: true, ..Options::default() })
}

/// Without the waits between streams such launches overlap.
fn lost_waits_are_detected() -> Result<(), Failed> {
    let options = Options { late: true, bug: Some("lost_waits"), ..Options::default() };
    match (1..=30).any(|seed| in_turns(seed, options).is_err()) {
        true => Ok(()),
        false => Err("not found with 30 seeds".into()),
    }
}

fn in_turns(seed: u64, options: Options) -> Result<(), Failed> {
    // With port channels and without: where threads of the host serve devices, kernels count as stalled only after the
    // timeout.
    for names in [["allreduce_all_pairs", "allreduce_ring"], ["allreduce_all_pairs", "allreduce_ring_ports"]] {
        let world = Executor::with_devices(&devices(seed, 3, options)?, cuda::Options::default())?;
        plans_in_turns(&world, names).map_err(|failed| at(names.join(" and "), &failed))?;
    }
    Ok(())
}

fn plans_in_turns(world: &Executor, names: [&str; 2]) -> Result<(), Failed> {
    const TURNS: u32 = 4;
    const COUNT: u32 = 30;
    let streams = [world.stream()?, world.stream()?];
    let message = Message::new(DataType::U32, COUNT.into()).any_size();
    let value = |rank: u32, at: u32| 1000 * rank + at;
    let mut all = Vec::new();
    for name in names {
        let algorithm = algorithms::find(name).ok_or("no such algorithm")?;
        let mut spec = algorithm.spec(3, 3);
        spec.collective.in_place = true;
        let run = world.prepare(&Plan::new(&algorithm.compile_tree(spec, &algorithm.arguments([])?)?), message)?;
        let mut buffers = run.buffers()?;
        for rank in 0..3 {
            let input: Vec<u8> = (0..COUNT).flat_map(|at| value(rank, at).to_ne_bytes()).collect();
            buffers.write_input(rank, &input)?;
        }
        all.push((name, run, buffers));
    }
    for turn in 0..TURNS {
        for (number, (_, run, buffers)) in all.iter_mut().enumerate() {
            run.launch_buffers(buffers, &streams[(turn as usize + number) % 2])?;
        }
    }
    for (name, run, buffers) in &all {
        streams.iter().try_for_each(|stream| run.synchronize(stream))?;
        for rank in 0..3 {
            let mut found = [0; 4 * COUNT as usize];
            buffers.read_output(rank, &mut found)?;
            // In place, so each launch sums the results of the one before it.
            let sum = |at: u32| (0..3).map(|rank| value(rank, at)).sum::<u32>() * 3_u32.pow(TURNS - 1);
            if let Some(at) = (0..COUNT).find(|&at| found[4 * at as usize..][..4] != sum(at).to_ne_bytes()) {
                return Err(format!("{name}: element {at} of rank {rank} is wrong").into());
            }
        }
    }
    Ok(())
}

/// A plan without signals from writers to readers is correct even so, also for later work on the reader's stream: no
/// device ends a launch before the others have completed their part. That holds on one device, hence it must hold on
/// several too.
fn launch_ends_after_all_devices_have_finished(seed: u64) -> Result<(), Failed> {
    const RANKS: usize = 3;
    let slow = Some(seed as u32 % RANKS as u32);
    let devices = devices(seed, RANKS as u32, Options { slow, ..Options::default() })?;
    let world = Executor::with_devices(&devices, cuda::Options::default())?;
    let algorithm = algorithms::find("alltoall_direct").ok_or("no such algorithm")?;
    let mut tree = algorithm.compile_tree(algorithm.spec(RANKS as u32, RANKS as u32), &algorithm.arguments([])?)?;
    for block in tree.ranks.iter_mut().flat_map(|rank| &mut rank.blocks) {
        block.ops.retain(|op| !matches!(op.kind, OpKind::Signal | OpKind::Wait));
    }
    let message = Message::new(DataType::U8, 999).any_size();
    let mut run = world.prepare(&Plan::new(&tree), message)?;
    let stream = world.stream()?;
    let mut memories = Vec::new();
    for (rank, device) in devices.iter().enumerate() {
        let mut three = Vec::new();
        for stage in 0..3 {
            let mut memory = cuda::DeviceBuffer::new(device, 999)?;
            memory.write(&vec![if stage == 0 { rank as u8 } else { 0xee }; 999])?;
            three.push(memory);
        }
        memories.push(three);
    }
    // The second launch reads the results of the first one.
    for stage in 0..2 {
        let slices = memories.iter().map(|three| [three[stage].as_slice(), three[stage + 1].as_slice()]);
        // SAFETY: memory of these devices, which lives until the stream is complete.
        unsafe { run.launch(slices.collect::<Vec<_>>().into_iter(), &stream)? };
    }
    run.synchronize(&stream)?;
    for (rank, three) in memories.iter().enumerate() {
        let mut found = vec![0; 999];
        three[2].read(&mut found)?;
        // The data is sent to the peer and back.
        if let Some(at) = found.iter().position(|&byte| byte != rank as u8) {
            return Err(format!("rank {rank}, byte {at}: {:#x}, slow device {slow:?}", found[at]).into());
        }
    }
    Ok(())
}

fn memory_that_is_made_to_be_shared(seed: u64) -> Result<(), Failed> {
    let world = world(seed, &[0, 1])?;
    let algorithm = algorithms::find("allgather_all_pairs").ok_or("no such algorithm")?;
    let mut spec = algorithm.spec(2, 2);
    spec.collective.in_place = false;
    let plan = Plan::new(&algorithm.compile_tree(spec, &algorithm.arguments([])?)?);
    let mut run = world.prepare(&plan, Message::new(DataType::U8, 100))?;
    let mut memories = Vec::new();
    for rank in 0..2 {
        let (mut input, output) = (world.alloc(rank, 50)?, world.alloc(rank, 100)?);
        input.write(&[rank as u8 + 1; 50])?;
        memories.push([input, output]);
    }
    let stream = world.stream()?;
    let binding = run.bind(memories.iter().map(|pair| [pair[0].as_slice(), pair[1].as_slice()]))?;
    // SAFETY: memory of the ranks' devices, which lives until the launch is complete.
    unsafe { run.launch_bound(&binding, &stream)? };
    run.synchronize(&stream)?;
    for [_, output] in &memories {
        let mut found = [0; 100];
        output.read(&mut found)?;
        assert_eq!(found, std::array::from_fn(|at| at as u8 / 50 + 1));
    }
    match world.alloc(2, 1) {
        Err(Error::NotLocalRank { rank: 2 }) => Ok(()),
        _ => Err("memory of a rank that is not there".into()),
    }
}

/// The triggers of a launch through port channels are complete when the launch has been waited for, also if the plan
/// itself waits for none.
fn port_channels_are_drained_after_wait(seed: u64) -> Result<(), Failed> {
    for map in [&[0, 0, 0][..], &[0, 1, 2]] {
        let algorithm = algorithms::find("alltoall_ports").ok_or("no such algorithm")?;
        let mut tree = algorithm.compile_tree(algorithm.spec(3, 3), &algorithm.arguments([])?)?;
        for block in tree.ranks.iter_mut().flat_map(|rank| &mut rank.blocks) {
            block.ops.retain(|op| !matches!(op.kind, OpKind::Signal | OpKind::Wait | OpKind::Flush));
        }
        let message = Message::new(DataType::U8, 999).any_size();
        let world = world(seed, map)?;
        let mut pair = Pair::new(&world, &Plan::new(&tree), message)?.ok_or("too many thread blocks")?;
        for _ in 0..5 {
            pair.check(2)?;
        }
    }
    Ok(())
}

fn graphs_on_several_devices(seed: u64) -> Result<(), Failed> {
    for name in ["allreduce_packets", "allreduce_ring"] {
        let world = world(seed, &[0, 1])?;
        let message = Message::new(DataType::F32, 2 * 33).any_size();
        let mut pair = Pair::new(&world, &shipped(name, 2)?, message)?.ok_or("too many thread blocks")?;
        let Pair { run, buffers, .. } = &mut pair;
        let graph = world.stream()?.capture(|stream| run.launch_buffers(buffers, stream))?;
        for round in 0..5 {
            pair.replay(&graph, round).map_err(|failed| at(name, &failed))?;
        }
    }
    Ok(())
}

/// More ranks than fit into the kernel parameters.
fn averages_of_many_ranks(seed: u64) -> Result<(), Failed> {
    let map: Vec<usize> = (0..34).map(|rank| rank % 2).collect();
    let world = world(seed, &map)?;
    let plan = shipped("allreduce_ring", 34)?;
    let message = Message::new(DataType::F32, 34 * 2).op(ReduceOp::Avg).any_size();
    Pair::new(&world, &plan, message)?.ok_or("too many thread blocks")?.check(1)
}

fn missing_signal_is_reported(seed: u64) -> Result<(), Failed> {
    let devices = devices(seed, 3, Options::default())?;
    let options = cuda::Options::default().timeout(Duration::from_millis(1));
    let world = Executor::with_devices(&devices, options)?;
    let tree = stalls::without("allreduce_ring", 3, 1, OpKind::Signal)?;
    stalls::in_world(&world, &tree, |waits_for| matches!(waits_for, mscclpp_exec::error::WaitsFor::Signal { .. }))
}

fn stream_of_one_device_is_rejected(seed: u64) -> Result<(), Failed> {
    let devices = devices(seed, 2, Options::default())?;
    let world = Executor::with_devices(&devices, cuda::Options::default())?;
    let mut run = world.prepare(&shipped("allreduce_ring", 2)?, Message::new(DataType::F32, 10).any_size())?;
    let mut buffers = run.buffers()?;
    match run.launch_buffers(&mut buffers, &devices[0].stream()?) {
        Err(error @ Error::StreamDeviceMismatch { .. })
            if error.to_string().contains("device 1 (simulated device)") => {}
        other => return Err(format!("{other:?}").into()),
    }
    // Both streams joined form one.
    let joined = cuda::Stream::join([devices[1].stream()?, devices[0].stream()?]);
    run.launch_buffers(&mut buffers, &joined)?;
    Ok(run.synchronize(&joined)?)
}

fn devices_without_peer_access_are_rejected(seed: u64) -> Result<(), Failed> {
    let devices = devices(seed, 2, Options { peers: 1, ..Options::default() })?;
    match Executor::with_devices(&devices, cuda::Options::default()) {
        Err(error @ Error::NoPeerAccess { .. }) if error.code() == Code::NoPeerAccess => {
            let expected = "device 0 (simulated device) cannot access the memory of device 1 (simulated device)";
            if error.to_string() == expected { Ok(()) } else { Err(error.to_string().into()) }
        }
        other => Err(format!("{other:?}").into()),
    }
}
