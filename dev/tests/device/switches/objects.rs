//! Memory with and without multicast objects, and the reasons.

use libtest_mimic::Failed;
use mscclpp_algorithms as algorithms;
use mscclpp_core::compile;
use mscclpp_core::plan::Plan;
use mscclpp_core::types::{BlockSync, BufferKind};
use mscclpp_dev::Options;
use mscclpp_exec::cuda::{self, DeviceBuffer, MulticastUnavailable, SwitchPath};
use mscclpp_exec::{DataType, Message};

use super::{ALGORITHMS, counts, options, switches, taken, world, world_on};
use crate::at;
use crate::bits::{Pair, shipped};

/// Number of elements in the caller's part of an allocation.
const COUNT: u64 = 2 * 64;

/// Value of the bytes outside the caller's part.
const BESIDE: u8 = 0x55;

/// Writes numbers after the first `skip` bytes of an allocation.
fn fill(memory: &mut DeviceBuffer, skip: usize, number: impl Fn(i32) -> i32) -> Result<(), Failed> {
    let mut content = vec![BESIDE; memory.as_slice().bytes as usize];
    for (at, word) in (0..).zip(content[skip..][..4 * COUNT as usize].chunks_exact_mut(4)) {
        word.copy_from_slice(&number(at).to_le_bytes());
    }
    Ok(memory.write(&content)?)
}

/// Checks the numbers, and the bytes outside of them.
fn check(memory: &mut DeviceBuffer, skip: usize, expected: impl Fn(i32) -> i32) -> Result<(), Failed> {
    let mut content = vec![0; memory.as_slice().bytes as usize];
    memory.read(&mut content)?;
    for (at, word) in (0..).zip(content[skip..][..4 * COUNT as usize].chunks_exact(4)) {
        let found = i32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        if found != expected(at) {
            return Err(format!("element {at} is {found}, expected {}", expected(at)).into());
        }
    }
    let mut beside = content[..skip].iter().chain(&content[skip + 4 * COUNT as usize..]);
    if beside.all(|&byte| byte == BESIDE) { Ok(()) } else { Err("bytes around it were written".into()) }
}

/// Callers' memory: that of `Executor::alloc` at equal offsets can be multicast, all other memory is used without.
pub(super) fn memory_at_any_offset(seed: u64) -> Result<(), Failed> {
    let counts = counts();
    let (plan, world) = (shipped("allreduce_switch", 2)?, world(seed, 2, counts)?);
    let message = Message::new(DataType::I32, COUNT).any_size();
    let mut run = world.prepare(&plan, message)?;
    let stream = world.stream()?;
    // Whether it is shared, the offset of each rank's memory, whether there is an object, and whether it is used.
    type Case = (bool, [u64; 2], fn(&Result<(), MulticastUnavailable>) -> bool, bool);
    let cases: [Case; 5] = [
        (true, [0, 0], Result::is_ok, true),
        (true, [4096, 4096], Result::is_ok, true),
        (true, [4, 4], Result::is_ok, false),
        (
            true,
            [0, 16],
            |path| {
                matches!(path, Err(MulticastUnavailable::OffsetMismatch { rank: 1, found: 16, other: 0, expected: 0 }))
            },
            false,
        ),
        (
            false,
            [0, 0],
            |path| matches!(path, Err(MulticastUnavailable::Failed { .. } | MulticastUnavailable::SizeMismatch { .. })),
            false,
        ),
    ];
    for (shared, skips, expected, used) in cases {
        let mut memories = Vec::new();
        for (rank, skip) in (0..).zip(skips) {
            let bytes = skip + 4 * COUNT + 64;
            let mut memory = match shared {
                true => world.alloc(rank, bytes)?,
                false => DeviceBuffer::new(&world.devices()[rank as usize], 1 << 17)?,
            };
            fill(&mut memory, skip as usize, |at| 1000 * rank as i32 + at)?;
            memories.push((memory, skip as usize));
        }
        let slices: Vec<_> = memories
            .iter()
            .map(|(memory, skip)| memory.slice(*skip as u64..*skip as u64 + 4 * COUNT).expect("inside"))
            .map(|slice| [slice, cuda::DeviceSlice::EMPTY])
            .collect();
        let binding = run.bind(slices.iter().copied())?;
        let place = format!("shared {shared}, from {skips:?}");
        assert!(
            binding.switch_paths().len() == 1 && expected(&binding.switch_paths()[0].path),
            "{place}: {:?}",
            binding.switch_paths()
        );
        for bound in [true, false] {
            taken(counts);
            // SAFETY: memory of the ranks' devices, which lives until the launch is complete.
            unsafe {
                if bound { run.launch_bound(&binding, &stream)? } else { run.launch(slices.iter().copied(), &stream)? }
            }
            run.synchronize(&stream)?;
            let (loads, stores) = taken(counts);
            assert_eq!((loads > 0, stores > 0), (used && bound, used && bound), "{place}, bound {bound}");
            let times = if bound { 1 } else { 2 };
            for (memory, skip) in &mut memories {
                check(memory, *skip, |at| times * (1000 + 2 * at)).map_err(|failed| at(&place, &failed))?;
            }
        }
    }
    Ok(())
}

/// Executors without multicast objects, and the reasons that they report.
pub(super) fn missing_object_has_reason(seed: u64) -> Result<(), Failed> {
    let off = cuda::Options::default().multicast(false);
    type Case = (&'static [usize], u32, cuda::Options, &'static str);
    let cases: [Case; 4] = [
        (&[0, 1, 2], u32::MAX, off, "disabled by `Options::multicast`"),
        (&[0, 1, 0], u32::MAX, cuda::Options::default(), "ranks 0 and 2 are on the same device"),
        (
            &[0, 1, 2],
            2,
            cuda::Options::default(),
            "device 2 (simulated device) of rank 2 does not support multicast objects, or NCCL_NVLS_ENABLE=0 or MSCCLPP_FORCE_DISABLE_NVLS forbids \
            them there",
        ),
        (
            &[0, 1, 2],
            0,
            cuda::Options::default(),
            "device 0 (simulated device) of rank 0 does not support multicast objects, or NCCL_NVLS_ENABLE=0 or MSCCLPP_FORCE_DISABLE_NVLS forbids \
            them there",
        ),
    ];
    for (map, multicast, given, expected) in cases {
        let counts = counts();
        let world = world_on(map, Options { multicast, ..options(seed, counts) }, given)?;
        for name in ALGORITHMS {
            let message = Message::new(DataType::I32, 3 * 128).any_size();
            let mut pair = Pair::new(&world, &shipped(name, 3)?, message)?.ok_or("too many thread blocks")?;
            let switches = switches(&pair.run, &pair.buffers);
            let says = |switch: &SwitchPath| switch.path.as_ref().is_err_and(|why| why.to_string() == expected);
            assert!(switches.len() == 1 && switches.iter().all(says), "{name}: {switches:?}, expected {expected}");
            pair.check(2).map_err(|failed| at(name, &failed))?;
        }
        assert_eq!(taken(counts), (0, 0), "{expected}");
    }
    Ok(())
}

/// A broadcast of rank 0, which is in a group with every other rank; the groups in this order.
fn broadcast_to(peers: &[usize]) -> Result<Plan, Failed> {
    let ranks = peers.len() as u32 + 1;
    let algorithm = algorithms::find("broadcast_chain").ok_or("no such algorithm")?;
    let mut spec = algorithm.spec(ranks, ranks);
    spec.collective.in_place = false;
    let plan = compile(spec, |p| {
        let root = p.rank(0);
        for peer in peers.iter().map(|&peer| p.rank(peer)) {
            let switch = p.switch_channel([0, peer.id()], BufferKind::Output);
            let (there, back) = (root.memory_channel(peer), peer.memory_channel(root));
            back.signal(0).relaxed();
            there.wait(0).relaxed().sync(BlockSync::After);
            for chunk in p.ranks() {
                switch.at(root).broadcast(chunk.id(), root.input().chunk(chunk.id()), 0);
            }
            there.signal(0).sync(BlockSync::Before);
            back.wait(0);
        }
    });
    Ok(plan.map_err(|errors| format!("{errors}"))?)
}

/// More groups than a device can be in.
pub(super) fn many_groups(seed: u64) -> Result<(), Failed> {
    const RANKS: u32 = 7;
    let plan = broadcast_to(&[1, 2, 3, 4, 5, 6])?;
    let counts = counts();
    let world = world(seed, RANKS, counts)?;
    for each in [16, 37].map(|each| each * u64::from(RANKS)) {
        let message = Message::new(DataType::F64, each).any_size();
        let mut pair = Pair::new(&world, &plan, message)?.ok_or("too many thread blocks")?;
        let switches = switches(&pair.run, &pair.buffers);
        let refused = |switch: &&SwitchPath| switch.path == Err(MulticastUnavailable::TooMany { most: 4 });
        assert_eq!((switches.len(), switches.iter().filter(refused).count()), (6, 2), "{switches:?}");
        assert_eq!(switches.iter().filter(|switch| switch.path.is_ok()).count(), 4, "{switches:?}");
        taken(counts);
        pair.check(1)?;
        // The first four groups.
        assert_eq!(taken(counts).1, 4 * (8 * each / 16));
    }
    Ok(())
}

/// Buffers of another plan of the same lengths have objects of other groups: they are used without objects.
pub(super) fn buffers_of_another_plan(seed: u64) -> Result<(), Failed> {
    let counts = counts();
    let world = world(seed, 3, counts)?;
    let message = Message::new(DataType::F64, 3 * 16).any_size();
    let pair = |peers: &[usize]| -> Result<Pair, Failed> {
        Ok(Pair::new(&world, &broadcast_to(peers)?, message)?.ok_or("too many thread blocks")?)
    };
    let (mut one, mut other) = (pair(&[1, 2])?, pair(&[2, 1])?);
    for own in [true, false, true] {
        for pair in [&mut one, &mut other] {
            taken(counts);
            pair.check(1).map_err(|failed| at(format_args!("own buffers {own}"), &failed))?;
            assert_eq!(taken(counts).1 > 0, own);
        }
        std::mem::swap(&mut one.buffers, &mut other.buffers);
    }
    Ok(())
}
