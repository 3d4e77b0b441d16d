//! Switch channels through multicast objects: which path was taken is counted by the simulator, and results are those of the CPU
//! executor, bit for bit, but for sums of floats that were left to the switch.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use libtest_mimic::{Failed, Trial};
use mscclpp_core::compile::compile;
use mscclpp_core::plan::{Op, OpKind, Place, Plan, PlanTree};
use mscclpp_core::vocab::{BufferKind, ReduceOp, Sync};
use mscclpp_exec::cuda::jit::Cache;
use mscclpp_exec::cuda::{self, Device, DeviceBuffer, NotMulticast, Prepare, Switch, World};
use mscclpp_exec::verify::{Pattern, Verifier};
use mscclpp_exec::{Accumulate, DataType, Error, Message, algorithms, cpu};
use mscclpp_kernels::{MulticastCounts, Options, machine, switch_bugs};

use super::bits::{Pair, shipped};
use super::devices::with_seeds;
use super::processes::{Work, each_in_a_thread, machine_options};
use super::{CACHE, at, mock};

pub(crate) fn tests(seeds: std::ops::Range<u64>) -> Vec<Trial> {
    type Test = fn(u64) -> Result<(), Failed>;
    let tests: [(&str, Test); 12] = [
        ("many_groups", many_groups),
        ("shipped_algorithms", shipped_algorithms),
        ("types_and_operations", types_and_operations),
        ("sums_of_floats", sums_of_floats),
        ("any_length", any_length),
        ("reduced_without_broadcast", reduced_without_broadcast),
        ("memory_anywhere", memory_anywhere),
        ("why_there_is_none", why_there_is_none),
        ("graphs", graphs),
        ("specialised_kernels", specialised_kernels),
        ("processes", processes),
        ("processes_whose_calls_fail", processes_whose_calls_fail),
    ];
    let tests = tests.into_iter().map(|(name, test)| with_seeds(format!("switches::{name}"), seeds.clone(), test));
    let faults = [Trial::test("switches::every_call_fails_once", every_call_fails_once)];
    let bugs = switch_bugs().map(|bug| Trial::test(format!("switches::bugs::{bug}"), move || is_found(bug)));
    tests.chain(faults).chain(bugs).collect()
}

/// With the mock driver.
pub(crate) fn on_mock(mock: &Result<&'static mock::Driver, String>) -> [Trial; 2] {
    let (one, two) = (mock.clone(), mock.clone());
    [
        Trial::test("mock::switches::shipped_algorithms", move || {
            let rig = one?.devices(Options { multicast: 3, ..Options::default() }, 3)?;
            let world = World::across(&rig.devices, cuda::Options::default())?;
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
            each_fails(calls.chain([("cuMemRetainAllocationHandle", true)]), |options| {
                let rig = mock.devices(options, 2)?;
                program(&World::across(&rig.devices, cuda::Options::default())?)
            })
        }),
    ]
}

/// The shipped algorithms with switch channels.
const ALGORITHMS: [&str; 4] =
    ["allreduce_switch", "allreduce_switch_pipeline", "allgather_switch", "allgather_switch_packets"];

/// Somewhere to count.
fn counts() -> &'static MulticastCounts {
    Box::leak(Box::new(MulticastCounts { loads: AtomicU64::new(0), stores: AtomicU64::new(0) }))
}

/// What was counted since the last time: loads and stores.
fn taken(counts: &MulticastCounts) -> (u64, u64) {
    (counts.loads.swap(0, Relaxed), counts.stores.swap(0, Relaxed))
}

fn options(seed: u64, counts: &'static MulticastCounts) -> Options {
    let stop_at_one_of = [0, 16, 3][seed as usize % 3];
    Options { seed, stop_at_one_of, multicast: u32::MAX, counts: Some(counts), ..Options::default() }
}

/// A world with ranks on the devices of these numbers.
fn world_on(map: &[usize], machine_options: Options, options: cuda::Options) -> Result<World, Failed> {
    let with_cache = |driver| Device::with_cache(driver, Cache::at(CACHE));
    let count = map.iter().max().map_or(0, |&last| last as u32 + 1);
    let devices: Vec<Device> = machine(machine_options, count)?.into_iter().map(with_cache).collect();
    let ranks: Vec<_> = map.iter().map(|&number| devices[number].clone()).collect();
    Ok(World::across(&ranks, options)?)
}

/// A world with a rank on each of so many devices.
fn world(seed: u64, ranks: u32, counts: &'static MulticastCounts) -> Result<World, Failed> {
    let map: Vec<usize> = (0..ranks as usize).collect();
    world_on(&map, options(seed, counts), cuda::Options::default())
}

/// All switch channels of a run.
fn switches(run: &cuda::Run, buffers: &cuda::Buffers) -> Vec<Switch> {
    [&run.switches(), buffers.switches()].concat()
}

fn shipped_algorithms(seed: u64) -> Result<(), Failed> {
    let counts = counts();
    for name in ALGORITHMS {
        for ranks in [2, 3, 8] {
            let world = world(seed, ranks, counts)?;
            let dtype = DataType::ALL[(seed as usize + ranks as usize) % DataType::ALL.len()];
            for (dtype, each) in [(DataType::F32, 128), (DataType::I32, 192), (dtype, 53)] {
                let message = Message::new(dtype, u64::from(ranks) * each).any_size();
                let place = format!("{name}, {ranks} ranks, {each} {dtype} each");
                let mut pair = Pair::new(&world, &shipped(name, ranks)?, message)?.ok_or("too many thread blocks")?;
                let switches = switches(&pair.run, &pair.buffers);
                let all_members = |switch: &Switch| switch.members.len() == ranks as usize && switch.path.is_ok();
                assert!(switches.len() == 1 && switches.iter().all(all_members), "{place}: {switches:?}");
                pair.check(2).map_err(|failed| at(&place, &failed))?;
                let (loads, stores) = taken(counts);
                let reduces = name.contains("allreduce");
                if each != 53 {
                    assert!(stores > 0 && (loads > 0) == (reduces && dtype == DataType::I32), "{place}: {counts:?}");
                }
            }
        }
    }
    Ok(())
}

/// Whether switches give a reduction to the same bits as anybody else.
fn is_exact(dtype: DataType, op: ReduceOp) -> bool {
    let integers = [DataType::I32, DataType::U32, DataType::I64, DataType::U64];
    integers.contains(&dtype) && op != ReduceOp::Prod
}

fn types_and_operations(seed: u64) -> Result<(), Failed> {
    let counts = counts();
    let (plan, world) = (shipped("allreduce_switch", 3)?, world(seed, 3, counts)?);
    for &dtype in DataType::ALL {
        for accumulate in [Accumulate::Native, Accumulate::F32, Accumulate::F64] {
            for op in ReduceOp::ALL.into_iter().filter(|_| accumulate.supports(dtype)) {
                let message = Message::new(dtype, 3 * 64).op(op).accumulate(accumulate).any_size();
                let place = format!("{dtype} {op} in {accumulate}");
                let mut pair = Pair::new(&world, &plan, message)?.ok_or("too many thread blocks")?;
                pair.check(1).map_err(|failed| at(&place, &failed))?;
                let (loads, stores) = taken(counts);
                assert!(stores > 0 && (loads > 0) == is_exact(dtype, op), "{place}: {loads} loads, {stores} stores");
            }
        }
    }
    Ok(())
}

/// Floats that the switch sums, if it is asked to: as near to the true sum as the CPU executor's.
fn sums_of_floats(seed: u64) -> Result<(), Failed> {
    let counts = counts();
    let asked = cuda::Options { float_sums_by_switch: true, ..cuda::Options::default() };
    let world = world_on(&[0, 1, 2, 3], options(seed, counts), asked)?;
    let plan = shipped("allreduce_switch", 4)?;
    for (dtype, accumulate, summed) in [
        (DataType::F32, Accumulate::Native, true),
        (DataType::F64, Accumulate::Native, true),
        (DataType::F16, Accumulate::Native, true),
        (DataType::F16, Accumulate::F32, true),
        (DataType::BF16, Accumulate::Native, true),
        (DataType::BF16, Accumulate::F32, true),
        // In a wider type than the switch has, or none that it knows.
        (DataType::F32, Accumulate::F64, false),
        (DataType::BF16, Accumulate::F64, false),
        (DataType::F8E4M3, Accumulate::Native, false),
    ] {
        for op in [ReduceOp::Sum, ReduceOp::Avg, ReduceOp::Max] {
            for pattern in [Pattern::Exact, Pattern::Real] {
                let message = Message::new(dtype, 4 * 128 + 3).op(op).accumulate(accumulate).any_size();
                let place = format!("{dtype} {op} in {accumulate}, {pattern:?}");
                let mut run = world.prepare(&plan, message)?;
                let cpu = cpu::World::new(4).prepare(&plan, message)?;
                let (mut buffers, mut expected, stream) = (run.buffers()?, cpu.buffers()?, world.stream()?);
                let verifier = Verifier::with_pattern(&cpu, seed, pattern);
                verifier.fill(&mut expected);
                for rank in 0..4 {
                    buffers.write_input(rank, expected.input(rank))?;
                }
                run.launch_buffers(&mut buffers, &stream)?;
                run.synchronize(&stream)?;
                for rank in 0..4 {
                    buffers.read_output(rank, expected.output_mut(rank))?;
                }
                let report = verifier.check(&expected);
                assert!(report.is_correct() && !report.is_unverified(), "{place}: {report:?}");
                let by_switch = summed && op != ReduceOp::Max;
                assert_eq!(taken(counts).0 > 0, by_switch, "{place}");
            }
        }
    }
    Ok(())
}

/// Whatever is no whole vector goes to the members one by one.
fn any_length(seed: u64) -> Result<(), Failed> {
    let world = world(seed, 2, counts())?;
    for name in ALGORITHMS {
        let plan = shipped(name, 2)?;
        for count in (0..18).chain([37, 64, 129, 1023]) {
            for dtype in [DataType::U8, DataType::I32, DataType::F16, DataType::I64] {
                let message = Message::new(dtype, 2 * count).any_size();
                let mut pair = Pair::new(&world, &plan, message)?.ok_or("too many thread blocks")?;
                pair.check(1).map_err(|failed| at(format_args!("{name}, {count} {dtype} each"), &failed))?;
            }
        }
    }
    Ok(())
}

/// A plan that reduces into its own memory only, and then stores what is there at all members.
fn in_two_steps(ranks: u32) -> Result<PlanTree, Failed> {
    let algorithm = algorithms::find("allreduce_switch").ok_or("no such algorithm")?;
    let mut tree = algorithm.compile(algorithm.spec(ranks, ranks), &algorithm.arguments([])?)?;
    let mut split = 0;
    for block in tree.ranks.iter_mut().flat_map(|rank| &mut rank.blocks) {
        let both = |op: Op| {
            if op.kind != OpKind::SwitchReduceBroadcast {
                return vec![op];
            }
            split += 1;
            let mut local = op.srcs[0];
            local.place = Place::Local(BufferKind::Input);
            let mut first = op.clone();
            (first.kind, first.dsts) = (OpKind::SwitchReduce, [local].into_iter().collect());
            let mut second = op;
            (second.kind, second.srcs, second.reduce) = (OpKind::SwitchBroadcast, [local].into_iter().collect(), None);
            vec![first, second]
        };
        block.ops = std::mem::take(&mut block.ops).into_iter().flat_map(both).collect();
    }
    if split == ranks { Ok(tree) } else { Err(format!("{split} operations of {ranks} ranks").into()) }
}

fn reduced_without_broadcast(seed: u64) -> Result<(), Failed> {
    let counts = counts();
    let (plan, world) = (Plan::new(&in_two_steps(3)?), world(seed, 3, counts)?);
    for (dtype, op) in [(DataType::U32, ReduceOp::Sum), (DataType::I64, ReduceOp::Min), (DataType::F32, ReduceOp::Sum)]
    {
        for count in [3 * 64, 3 * 64 + 2] {
            let message = Message::new(dtype, count).op(op).any_size();
            let mut pair = Pair::new(&world, &plan, message)?.ok_or("too many thread blocks")?;
            pair.check(2).map_err(|failed| at(format_args!("{count} {dtype} {op}"), &failed))?;
            let (loads, stores) = taken(counts);
            assert!(stores > 0 && (loads > 0) == is_exact(dtype, op), "{dtype}: {loads} loads, {stores} stores");
        }
    }
    Ok(())
}

/// Callers' memory: that of `World::alloc` at equal places can be multicast, all other is used as it is.
fn memory_anywhere(seed: u64) -> Result<(), Failed> {
    const COUNT: u64 = 2 * 64;
    let counts = counts();
    let (plan, world) = (shipped("allreduce_switch", 2)?, world(seed, 2, counts)?);
    let message = Message::new(DataType::I32, COUNT).any_size();
    let mut run = world.prepare(&plan, message)?;
    let stream = world.stream()?;
    // Whether it is shared, the first byte of each rank's, whether there is an object, and whether it is of use.
    type Case = (bool, [u64; 2], fn(&Result<(), NotMulticast>) -> bool, bool);
    let cases: [Case; 5] = [
        (true, [0, 0], Result::is_ok, true),
        (true, [4096, 4096], Result::is_ok, true),
        (true, [4, 4], Result::is_ok, false),
        (
            true,
            [0, 16],
            |path| matches!(path, Err(NotMulticast::Places { rank: 1, found: 16, other: 0, expected: 0 })),
            false,
        ),
        (false, [0, 0], |path| matches!(path, Err(NotMulticast::Failed { .. } | NotMulticast::Room { .. })), false),
    ];
    for (shared, skips, expected, used) in cases {
        let mut memories = Vec::new();
        for (rank, skip) in (0..).zip(skips) {
            let bytes = skip + 4 * COUNT + 64;
            let mut memory = match shared {
                true => world.alloc(rank, bytes)?,
                false => DeviceBuffer::new(&world.devices()[rank as usize], 1 << 17)?,
            };
            let all = memory.as_slice().bytes as usize;
            let mut content = vec![0x55; all];
            for (at, word) in content[skip as usize..][..4 * COUNT as usize].chunks_exact_mut(4).enumerate() {
                word.copy_from_slice(&(1000 * rank as i32 + at as i32).to_le_bytes());
            }
            memory.write(&content)?;
            memories.push((memory, skip as usize));
        }
        let slices = memories.iter().map(|(memory, skip)| {
            [memory.slice(*skip as u64..*skip as u64 + 4 * COUNT).expect("inside"), cuda::DeviceSlice::EMPTY]
        });
        let binding = run.bind(slices)?;
        let place = format!("shared {shared}, from {skips:?}");
        assert!(
            binding.switches().len() == 1 && expected(&binding.switches()[0].path),
            "{place}: {:?}",
            binding.switches()
        );
        for bound in [true, false] {
            let all: Vec<_> = memories
                .iter()
                .map(|(memory, skip)| memory.slice(*skip as u64..*skip as u64 + 4 * COUNT).expect("inside"))
                .map(|slice| [slice, cuda::DeviceSlice::EMPTY])
                .collect();
            taken(counts);
            // SAFETY: memory of the ranks' devices, which lives until the launch is over.
            unsafe { if bound { run.launch_bound(&binding, &stream)? } else { run.launch(all.into_iter(), &stream)? } }
            run.synchronize(&stream)?;
            let (loads, stores) = taken(counts);
            assert_eq!((loads > 0, stores > 0), (used && bound, used && bound), "{place}, bound {bound}");
            for (memory, skip) in &mut memories {
                let mut content = vec![0; memory.as_slice().bytes as usize];
                memory.read(&mut content)?;
                let times = if bound { 1 } else { 2 };
                for (at, word) in content[*skip..][..4 * COUNT as usize].chunks_exact(4).enumerate() {
                    let found = i32::from_le_bytes([word[0], word[1], word[2], word[3]]);
                    assert_eq!(found, times * (1000 + 2 * at as i32), "{place}, element {at}");
                }
                let around = content[..*skip].iter().chain(&content[*skip + 4 * COUNT as usize..]);
                assert!(around.copied().all(|byte| byte == 0x55), "{place}: bytes around it were written");
            }
        }
    }
    Ok(())
}

/// Worlds in which there are no objects, and what they say.
fn why_there_is_none(seed: u64) -> Result<(), Failed> {
    let off = cuda::Options { multicast: false, ..cuda::Options::default() };
    type Case = (&'static [usize], u32, cuda::Options, &'static str);
    let cases: [Case; 4] = [
        (&[0, 1, 2], u32::MAX, off, "switched off by `Options::multicast`"),
        (&[0, 1, 0], u32::MAX, cuda::Options::default(), "ranks 0 and 2 are on one device"),
        (&[0, 1, 2], 2, cuda::Options::default(), "device 2 (simulated device) of rank 2 has no multicast objects"),
        (&[0, 1, 2], 0, cuda::Options::default(), "device 0 (simulated device) of rank 0 has no multicast objects"),
    ];
    for (map, multicast, given, expected) in cases {
        let counts = counts();
        let world = world_on(map, Options { multicast, ..options(seed, counts) }, given)?;
        for name in ALGORITHMS {
            let message = Message::new(DataType::I32, 3 * 128).any_size();
            let mut pair = Pair::new(&world, &shipped(name, 3)?, message)?.ok_or("too many thread blocks")?;
            let switches = switches(&pair.run, &pair.buffers);
            let says = |switch: &Switch| switch.path.as_ref().is_err_and(|why| why.to_string() == expected);
            assert!(switches.len() == 1 && switches.iter().all(says), "{name}: {switches:?}, expected {expected}");
            pair.check(2).map_err(|failed| at(name, &failed))?;
        }
        assert_eq!(taken(counts), (0, 0), "{expected}");
    }
    Ok(())
}

/// Rank 0 is in a group with every other one: more of them than a device can be in.
fn many_groups(seed: u64) -> Result<(), Failed> {
    const RANKS: u32 = 7;
    let algorithm = algorithms::find("broadcast_chain").ok_or("no such algorithm")?;
    let mut spec = algorithm.spec(RANKS, RANKS);
    spec.collective.in_place = false;
    let plan = compile(spec, |p| {
        let root = p.rank(0);
        for peer in p.ranks().filter(|peer| peer.id() != 0) {
            let switch = p.switch_channel([0, peer.id()], BufferKind::Output);
            let (there, back) = (root.memory_channel(peer), peer.memory_channel(root));
            back.signal(0).relaxed();
            there.wait(0).relaxed().sync(Sync::After);
            for chunk in p.ranks() {
                switch.at(root).broadcast(chunk.id(), root.input().chunk(chunk.id()), 0);
            }
            there.signal(0).sync(Sync::Before);
            back.wait(0);
        }
    });
    let plan = plan.map_err(|errors| format!("{errors}"))?;
    let counts = counts();
    let world = world(seed, RANKS, counts)?;
    for each in [16, 37].map(|each| each * u64::from(RANKS)) {
        let message = Message::new(DataType::F64, each).any_size();
        let mut pair = Pair::new(&world, &plan, message)?.ok_or("too many thread blocks")?;
        let switches = switches(&pair.run, &pair.buffers);
        let refused = |switch: &&Switch| switch.path == Err(NotMulticast::TooMany { most: 4 });
        assert_eq!((switches.len(), switches.iter().filter(refused).count()), (6, 2), "{switches:?}");
        assert_eq!(switches.iter().filter(|switch| switch.path.is_ok()).count(), 4, "{switches:?}");
        taken(counts);
        pair.check(1)?;
        // The first four groups.
        assert_eq!(taken(counts).1, 4 * (8 * each / 16));
    }
    Ok(())
}

/// Graphs find the scratch of larger messages, too, and its multicast addresses.
fn graphs(seed: u64) -> Result<(), Failed> {
    for name in ["allreduce_switch", "allreduce_switch_pipeline", "allgather_switch_packets"] {
        let counts = counts();
        let world = world(seed, 2, counts)?;
        let message = |each: u64| Message::new(DataType::I32, 2 * each).any_size();
        let mut pair = Pair::new(&world, &shipped(name, 2)?, message(128))?.ok_or("too many thread blocks")?;
        let Pair { run, buffers, .. } = &mut pair;
        let graph = world.stream()?.capture(|stream| run.launch_buffers(buffers, stream))?;
        let mut larger = None;
        for round in 0..6 {
            pair.refill()?;
            if round % 3 == 0 {
                pair.launch()?;
            } else {
                // SAFETY: run and buffers live as long as `pair`.
                unsafe { graph.launch(pair.stream())? };
            }
            pair.compare().map_err(|failed| at(format_args!("{name}, round {round}"), &failed))?;
            assert!(taken(counts).1 > 0, "{name}, round {round}");
            if round == 2 {
                // Memory for more than all that there is now.
                let mut pair =
                    Pair::new(&world, &shipped(name, 2)?, message(40_000))?.ok_or("too many thread blocks")?;
                pair.check(1).map_err(|failed| at(format_args!("{name}, larger"), &failed))?;
                larger = Some(pair);
            }
        }
        assert!(larger.is_some());
    }
    Ok(())
}

fn specialised_kernels(seed: u64) -> Result<(), Failed> {
    let counts = counts();
    let world = world(seed, 3, counts)?;
    for (name, dtype) in [("allreduce_switch", DataType::I32), ("allreduce_switch_pipeline", DataType::F32)] {
        for count in [3 * 128, 3 * 37] {
            let message = Message::new(dtype, count).any_size();
            let prepare = Prepare { specialise: true };
            let mut pair = Pair::with(&world, &shipped(name, 3)?, message, prepare)?.ok_or("too many thread blocks")?;
            pair.run.specialised().map_err(|reason| format!("not specialised: {reason}"))?;
            pair.check(2).map_err(|failed| at(name, &failed))?;
            let (loads, stores) = taken(counts);
            assert!(stores > 0 && (loads > 0) == (dtype == DataType::I32), "{name}: {loads} loads, {stores} stores");
        }
    }
    Ok(())
}

/// Ranks with a machine each, so that everything about an object goes through files.
fn processes(seed: u64) -> Result<(), Failed> {
    for ranks in [2, 3] {
        let counts = counts();
        let machine = |rank| Options {
            multicast: u32::MAX,
            counts: Some(counts),
            ..machine_options(seed, rank, seed.is_multiple_of(2))
        };
        for name in ALGORITHMS {
            let plan = shipped(name, ranks)?;
            let works = [DataType::I32, DataType::F32].map(|dtype| {
                [128, 53]
                    .map(|each| Work::new(plan.clone(), Message::new(dtype, u64::from(ranks) * each).any_size(), 2))
            });
            let works = works.into_iter().flatten().collect::<Result<Vec<_>, _>>()?;
            let results = each_in_a_thread(ranks, machine, cuda::Options::default(), |world, _, rank| {
                works.iter().try_for_each(|work| work.run(world, rank))
            })?;
            results.into_iter().collect::<Result<Vec<()>, _>>().map_err(|error| format!("{name}: {error}"))?;
            let (loads, stores) = taken(counts);
            assert!(stores > 0 && (loads > 0) == name.contains("allreduce"), "{name}: {loads} loads, {stores} stores");
        }
    }
    Ok(())
}

/// A call that fails on one rank: nobody has objects then, all say why, and results are right.
fn processes_whose_calls_fail(seed: u64) -> Result<(), Failed> {
    let plan = shipped("allreduce_switch", 2)?;
    let work = Work::new(plan.clone(), Message::new(DataType::I32, 2 * 64).any_size(), 1)?;
    // Of whom, and whether the other one hears of it.
    let calls = [
        (0, "cuMulticastGetGranularity", false),
        (0, "cuMulticastCreate", true),
        (0, "cuMemExportToShareableHandle", true),
        (1, "cuMemImportFromShareableHandle", true),
        (0, "cuMulticastAddDevice", true),
        (1, "cuMulticastAddDevice", true),
        (0, "cuMulticastBindMem", true),
        (1, "cuMulticastBindMem", true),
        (0, "cuMemMap", true),
        (1, "cuMemMap", true),
        (1, "cuMulticastUnbind", false),
        (1, "cuMemRelease", false),
        (0, "cuMemUnmap", false),
    ];
    for (of, call, heard) in calls {
        let machine = |rank| {
            let failing = (rank == of).then_some((call, 1));
            Options { multicast: u32::MAX, failing, ..machine_options(seed, rank, false) }
        };
        let results = each_in_a_thread(2, machine, cuda::Options::default(), |world, _, rank| {
            let run = world.prepare(&plan, Message::new(DataType::I32, 2 * 64).any_size())?;
            let buffers = run.buffers()?;
            let path = &buffers.switches()[0].path;
            let named = path.as_ref().is_err_and(|why| why.to_string().contains(&format!("rank {of}: {call}")));
            if heard && !named {
                return Err(Error::Internal(format!("rank {rank}: {path:?}")));
            }
            drop((buffers, run));
            work.run(world, rank)
        })?;
        if results.iter().any(Result::is_err) {
            return Err(format!("{call} of rank {of}: {results:?}").into());
        }
    }
    Ok(())
}

/// Calls that objects need, and whether channels go without when one fails. The granularity is first asked for memory's sake.
const CALLS: [(&str, bool); 7] = [
    ("cuMulticastCreate", true),
    ("cuMulticastAddDevice", true),
    ("cuMulticastBindMem", true),
    ("cuMulticastGetGranularity", false),
    ("cuMulticastUnbind", false),
    ("cuMemRelease", false),
    ("cuMemUnmap", false),
];

/// All that is done with switch channels, over scratch and over buffers; whether all of them had objects, and what they said if not.
fn program(world: &World) -> Result<Vec<Switch>, Failed> {
    let mut all = Vec::new();
    for name in ["allreduce_switch", "allreduce_switch_pipeline"] {
        let message = Message::new(DataType::I32, 2 * 64).any_size();
        let mut pair = Pair::new(world, &shipped(name, 2)?, message)?.ok_or("too many thread blocks")?;
        all.extend(switches(&pair.run, &pair.buffers));
        pair.check(1).map_err(|failed| at(name, &failed))?;
    }
    Ok(all)
}

/// Each of the calls fails, each of its times. Nothing is left behind, to which the simulator sees when it is dropped, and results
/// are right all the same.
fn each_fails(
    calls: impl Iterator<Item = (&'static str, bool)>,
    run: impl Fn(Options) -> Result<Vec<Switch>, Failed>,
) -> Result<(), Failed> {
    for (call, is_heard) in calls {
        for nth in 1..=20 {
            let place = format!("call {nth} of {call}");
            let options = Options { failing: Some((call, nth)), multicast: u32::MAX, ..Options::default() };
            let switches = run(options).map_err(|failed| at(&place, &failed))?;
            let named = |switch: &Switch| {
                switch.path.as_ref().is_err_and(|why| why.to_string().contains(&format!(": {call} failed")))
            };
            let refused = switches.iter().filter(|switch| switch.path.is_err()).count();
            assert_eq!(refused, switches.iter().filter(|switch| named(switch)).count(), "{place}: {switches:?}");
            // There are not so many of them.
            if refused == 0 && (nth > 1 || !is_heard) {
                break;
            }
            assert_eq!(refused, 1, "{place}: {switches:?}");
        }
    }
    Ok(())
}

fn every_call_fails_once() -> Result<(), Failed> {
    let calls = CALLS.into_iter().chain([("cuMemMap", true)]);
    each_fails(calls, |options| program(&world_on(&[0, 1], options, cuda::Options::default())?))
}

/// Bugs in what only switch channels use.
fn is_found(bug: &'static str) -> Result<(), Failed> {
    for seed in 1..=30 {
        let machine_options = Options { bug: Some(bug), ..options(seed, counts()) };
        let asked = cuda::Options { float_sums_by_switch: true, ..cuda::Options::default() };
        let world = world_on(&[0, 1, 2], machine_options, asked)?;
        for name in ALGORITHMS {
            for count in [3 * 1024, 3 * 1024 + 3] {
                let message = Message::new(DataType::F32, count).any_size();
                let mut run = world.prepare(&shipped(name, 3)?, message)?;
                let cpu = cpu::World::new(3).prepare(&shipped(name, 3)?, message)?;
                let (mut buffers, mut expected, stream) = (run.buffers()?, cpu.buffers()?, world.stream()?);
                let verifier = Verifier::new(&cpu, seed);
                verifier.fill(&mut expected);
                for rank in 0..3 {
                    buffers.write_output(rank, expected.output(rank))?;
                    buffers.write_input(rank, expected.input(rank))?;
                }
                run.launch_buffers(&mut buffers, &stream)?;
                if matches!(run.synchronize(&stream), Err(Error::Stalled(_))) {
                    return Ok(());
                }
                for rank in 0..3 {
                    buffers.read_output(rank, expected.output_mut(rank))?;
                }
                if !verifier.check(&expected).is_correct() {
                    return Ok(());
                }
            }
        }
    }
    Err("not found with 30 seeds".into())
}
