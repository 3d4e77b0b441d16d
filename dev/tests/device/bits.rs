//! Compares launches on the device with launches on the CPU.

use libtest_mimic::Failed;
use mscclpp_algorithms as algorithms;
use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::dsl::Program;
use mscclpp_core::lower::lower;
use mscclpp_core::origin::Origin;
use mscclpp_core::plan::json::{self, ReadOptions};
use mscclpp_core::plan::{
    Plan,
    raw::{LoopBody, Op, OpKind},
};
use mscclpp_core::spec::AlgoSpec;
use mscclpp_core::types::ReduceOp;
use mscclpp_exec::cuda::{DeviceBuffer, DeviceSlice, Executor, Graph, PrepareOptions, Stream};
use mscclpp_exec::verify::{Pattern, Verifier};
use mscclpp_exec::{AccumType, DataType, Error, Message, PacketType, cpu, cuda};

use super::{Rig, Test, at};

/// A plan and message on both executors.
pub(crate) struct Pair {
    pub(crate) run: cuda::PreparedPlan,
    pub(crate) buffers: cuda::Buffers,
    cpu: cpu::PreparedPlan,
    cpu_buffers: cpu::Buffers,
    stream: Stream,
    seed: u64,
}

impl Pair {
    /// Creates a pair; `None` if not all thread blocks are co-resident on the device.
    pub(crate) fn new(world: &Executor, plan: &Plan, message: Message) -> Result<Option<Self>, Failed> {
        Self::with(world, plan, message, PrepareOptions::default())
    }

    /// Creates a pair that is prepared with settings.
    pub(crate) fn with(
        world: &Executor,
        plan: &Plan,
        message: Message,
        prepare: PrepareOptions,
    ) -> Result<Option<Self>, Failed> {
        let run = match world.prepare_with_options(plan, message, prepare) {
            Err(Error::NotCoResident { .. }) => return Ok(None),
            run => run?,
        };
        let cpu = cpu::Executor::new(plan.num_ranks()).prepare(plan, message)?;
        let (buffers, cpu_buffers) = (run.buffers()?, cpu.buffers()?);
        Ok(Some(Self { run, buffers, cpu, cpu_buffers, stream: world.stream()?, seed: 1 }))
    }

    /// Writes new inputs on both, and computes the CPU's results.
    pub(crate) fn refill(&mut self) -> Result<(), Failed> {
        self.seed += 1;
        for rank in 0..self.run.num_ranks() {
            self.cpu_buffers.output_mut(rank).fill(0xa5);
        }
        Verifier::with_pattern(&self.cpu, self.seed, Pattern::Real).fill(&mut self.cpu_buffers);
        for rank in 0..self.run.num_ranks() {
            self.buffers.write_output(rank, self.cpu_buffers.output(rank))?;
            self.buffers.write_input(rank, self.cpu_buffers.input(rank))?;
        }
        Ok(self.cpu.launch_buffers(&mut self.cpu_buffers)?)
    }

    pub(crate) fn launch(&mut self) -> Result<(), Failed> {
        Ok(self.run.launch_buffers(&mut self.buffers, &self.stream)?)
    }

    /// Waits for the device, and compares every byte of every output.
    pub(crate) fn compare(&mut self) -> Result<(), Failed> {
        self.run.synchronize(&self.stream)?;
        for rank in 0..self.run.num_ranks() {
            let expected = self.cpu_buffers.output(rank);
            let mut found = vec![0; expected.len()];
            self.buffers.read_output(rank, &mut found)?;
            if let Some(at) = (0..found.len()).find(|&at| found[at] != expected[at]) {
                let wrong = (0..found.len()).filter(|&at| found[at] != expected[at]).count();
                return Err(format!(
                    "rank {rank}, byte {at} of {}: {:#x}, expected {:#x}; {wrong} bytes differ; {:?}, launch with seed {}",
                    found.len(),
                    found[at],
                    expected[at],
                    self.run.message(),
                    self.seed
                )
                .into());
            }
        }
        Ok(())
    }

    /// Launches and compares a few times, with new inputs.
    pub(crate) fn check(&mut self, launches: u32) -> Result<(), Failed> {
        for _ in 0..launches {
            self.refill()?;
            self.launch()?;
            self.compare()?;
        }
        Ok(())
    }

    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Launches on new inputs, in one of several rounds: every third one eagerly, the others by a graph of such a
    /// launch.
    pub(crate) fn replay(&mut self, graph: &Graph, round: u32) -> Result<(), Failed> {
        self.refill()?;
        if round.is_multiple_of(3) {
            self.launch()?;
        } else {
            // SAFETY: prepared plan and buffers live as long as `self`.
            unsafe { graph.launch(&self.stream)? };
        }
        self.compare()
    }
}

/// Returns the plan of a built-in algorithm with all of its defaults.
pub(crate) fn shipped(name: &str, ranks: u32) -> Result<Plan, Failed> {
    let algorithm = algorithms::find(name).ok_or("no such algorithm")?;
    Ok(Plan::new(&algorithm.compile_tree(algorithm.spec(ranks, ranks), &algorithm.arguments([])?)?))
}

pub(crate) fn tests() -> Vec<Test> {
    vec![
        Test::new("bits::every_type_and_operation", every_type_and_operation),
        Test::new("bits::minima_and_maxima_of_zeros", minima_and_maxima_of_zeros),
        Test::new("bits::lengths_and_alignments", lengths_and_alignments),
        Test::new("bits::packets_of_both_sizes", packets_of_both_sizes),
        Test::new("bits::long_messages", long_messages),
        Test::new("bits::plans_without_operations", plans_without_operations),
        Test::new("bits::scrambled_scratch_changes_stale_reads", scrambled_scratch_changes_stale_reads),
        Test::new("bits::size_beyond_memory_is_rejected", size_beyond_memory_is_rejected),
        Test::new("bits::slices_anywhere", slices_anywhere),
        Test::new("bits::averages_of_one_rank", averages_of_one_rank),
        Test::new("bits::average_of_a_custom_collective_is_an_error", average_of_a_custom_collective_is_an_error),
        Test::new("bits::empty_pipelines", empty_pipelines),
        Test::new("bits::long_pipelines", long_pipelines),
        Test::new("bits::more_than_four_gigabytes", more_than_four_gigabytes),
    ]
}

fn every_type_and_operation(rig: &Rig) -> Result<(), Failed> {
    for name in ["allreduce_all_pairs", "allreduce_packets"] {
        let plan = shipped(name, 3)?;
        let world = Executor::new(&rig.device, 3);
        for &dtype in DataType::ALL {
            for accumulate in [AccumType::Native, AccumType::F32, AccumType::F64] {
                if !accumulate.supports(dtype) {
                    continue;
                }
                for op in ReduceOp::ALL {
                    for &count in if rig.small { &[97][..] } else { &[1, 1000, 4099] } {
                        let message = Message::new(dtype, count).op(op).accumulate(accumulate).any_size();
                        let mut pair = Pair::new(&world, &plan, message)?.ok_or("too many thread blocks")?;
                        pair.check(2)
                            .map_err(|failed| at(format_args!("{name}, {dtype} {op} in {accumulate}"), &failed))?;
                    }
                }
            }
        }
    }
    Ok(())
}

/// The sign does not depend on the order in which ranks are combined.
fn minima_and_maxima_of_zeros(rig: &Rig) -> Result<(), Failed> {
    let world = Executor::new(&rig.device, 3);
    for (name, dtype, op) in ["allreduce_ring", "allreduce_one_shot_packets"].into_iter().flat_map(|name| {
        let dtypes = [DataType::F64, DataType::F32, DataType::F16, DataType::BF16].into_iter();
        dtypes.flat_map(move |dtype| [ReduceOp::Min, ReduceOp::Max].map(|op| (name, dtype, op)))
    }) {
        let message = Message::new(dtype, 3 * 16).op(op).any_size();
        let mut run = world.prepare(&shipped(name, 3)?, message)?;
        let (mut buffers, stream) = (run.buffers()?, world.stream()?);
        let zeros = |is_negative: &dyn Fn(usize) -> bool| -> Vec<u8> {
            let byte =
                |at: usize| u8::from(at % dtype.size() == dtype.size() - 1 && is_negative(at / dtype.size())) << 7;
            (0..48 * dtype.size()).map(byte).collect()
        };
        for rank in 0..3 {
            buffers.write_input(rank, &zeros(&|element| (element + rank as usize).is_multiple_of(2)))?;
        }
        run.launch_buffers(&mut buffers, &stream)?;
        run.synchronize(&stream)?;
        let mut found = vec![1; 48 * dtype.size()];
        for rank in 0..3 {
            buffers.read_output(rank, &mut found)?;
            assert_eq!(found, zeros(&|_| op == ReduceOp::Min), "{name} {dtype:?} {op:?} rank {rank}");
        }
    }
    Ok(())
}

fn lengths_and_alignments(rig: &Rig) -> Result<(), Failed> {
    for name in ["allreduce_all_pairs", "allreduce_ring", "allgather_ring", "alltoall_direct", "reducescatter_packets"]
    {
        let plan = shipped(name, 3)?;
        let world = Executor::new(&rig.device, 3);
        let long: &[u64] = if rig.small { &[127] } else { &[127, 128, 129, 1023, 4095, 65537] };
        for count in (0..if rig.small { 20 } else { 70 }).chain(long.iter().copied()) {
            for dtype in [DataType::U8, DataType::F16, DataType::F32] {
                let message = Message::new(dtype, 3 * count).any_size();
                Pair::new(&world, &plan, message)?
                    .ok_or("too many thread blocks")?
                    .check(1)
                    .map_err(|f| at(name, &f))?;
            }
        }
    }
    Ok(())
}

/// Messages that ask for packets of 8 bytes and of 16, also of lengths that end in the middle of a packet.
fn packets_of_both_sizes(rig: &Rig) -> Result<(), Failed> {
    for name in ["allreduce_packets", "allreduce_one_shot_packets", "allgather_packets"] {
        let (plan, world) = (shipped(name, 3)?, Executor::new(&rig.device, 3));
        for packet in [PacketType::LL8, PacketType::LL16] {
            for count in (1..10).chain([127, 1024]) {
                for dtype in [DataType::U8, DataType::F16, DataType::I32, DataType::F64] {
                    let message = Message::new(dtype, 3 * count).packet(packet).any_size();
                    let mut pair = Pair::new(&world, &plan, message)?.ok_or("too many thread blocks")?;
                    pair.check(1).map_err(|failed| at(format_args!("{name}, {packet:?}"), &failed))?;
                }
            }
        }
    }
    Ok(())
}

/// Sizes that overflow when they are rounded up are rejected, like those that are too large.
fn size_beyond_memory_is_rejected(rig: &Rig) -> Result<(), Failed> {
    let world = Executor::new(&rig.device, 1);
    for bytes in [1 << 50, u64::MAX - 1, u64::MAX] {
        if !matches!(world.alloc(0, bytes), Err(Error::Driver(_))) {
            return Err(format!("{bytes} bytes were not refused").into());
        }
    }
    Ok(())
}

/// Ranks without operations, eagerly and in a graph.
fn plans_without_operations(rig: &Rig) -> Result<(), Failed> {
    let algorithm = algorithms::find("allreduce_ring").ok_or("no such algorithm")?;
    let mut tree = algorithm.compile_tree(algorithm.spec(2, 2), &algorithm.arguments([])?)?;
    tree.ranks.iter_mut().for_each(|rank| rank.blocks.clear());
    let world = Executor::new(&rig.device, 2);
    let mut run = world.prepare(&Plan::new(&tree), Message::new(DataType::F32, 100).any_size())?;
    let (mut buffers, stream) = (run.buffers()?, world.stream()?);
    buffers.write_output(1, &[7; 400])?;
    run.launch_buffers(&mut buffers, &stream)?;
    let graph = stream.capture(|stream| run.launch_buffers(&mut buffers, stream))?;
    // SAFETY: prepared plan and buffers exist until the stream is complete.
    unsafe { graph.launch(&stream)? };
    run.synchronize(&stream)?;
    let mut found = [0; 400];
    buffers.read_output(1, &mut found)?;
    if found == [7; 400] { Ok(()) } else { Err(format!("{found:?}").into()) }
}

/// Copies scratch to the output, then the input to scratch.
const STALE: &str = r#"{"name": "stale", "collective": "allgather", "protocol": "Simple", "inplace": false,
    "reuse_resources": false, "num_threads_per_block": 32, "use_double_scratch_buffer": false, "buffer_alignment": 16,
    "min_message_size": 0, "max_message_size": 1048576, "gpus": [{"id": 0, "input_chunks": 1, "output_chunks": 1,
    "scratch_chunks": 1, "channels": [], "remote_buffers": [], "semaphores": [],
    "threadblocks": [{"id": 0, "channels": [], "remote_buffer_refs": [], "ops": [
        {"name": "copy", "src_buff": [{"type": "s", "index": 0, "size": 1}], "dst_buff": [{"type": "o", "index": 0, "size": 1}]},
        {"name": "nop"},
        {"name": "copy", "src_buff": [{"type": "i", "index": 0, "size": 1}], "dst_buff": [{"type": "s", "index": 0, "size": 1}]}
    ]}]}]}"#;

/// A plan that copies data of an earlier launch from scratch to its output repeats its results, until scratch is
/// scrambled; the results of a correct plan do not change.
fn scrambled_scratch_changes_stale_reads(rig: &Rig) -> Result<(), Failed> {
    const COUNT: u64 = 100;
    let stale = Plan::new(&json::read(STALE, ReadOptions::default())?.0);
    let world = Executor::new(&rig.device, 1);
    let mut run = world.prepare(&stale, Message::new(DataType::U8, COUNT).any_size())?;
    let (mut buffers, stream) = (run.buffers()?, world.stream()?);
    buffers.write_input(0, &[7; COUNT as usize])?;
    let mut launch = |run: &mut cuda::PreparedPlan| -> Result<[u8; COUNT as usize], Error> {
        run.launch_buffers(&mut buffers, &stream)?;
        run.synchronize(&stream)?;
        let mut found = [0; COUNT as usize];
        buffers.read_output(0, &mut found)?;
        Ok(found)
    };
    launch(&mut run)?;
    assert_eq!(launch(&mut run)?, [7; COUNT as usize]);
    run.scramble_scratch(1)?;
    let found = launch(&mut run)?;
    assert!(found.iter().filter(|&&byte| byte == 7).count() < 10, "{found:?}");
    let world = Executor::new(&rig.device, 3);
    let message = Message::new(DataType::F32, 300).any_size();
    for name in ["allreduce_packets", "allreduce_ring", "allreduce_ring_ports"] {
        let mut pair = Pair::new(&world, &shipped(name, 3)?, message)?.ok_or("too many thread blocks")?;
        for seed in 0..4 {
            pair.check(1)?;
            pair.run.scramble_scratch(seed)?;
        }
        pair.check(1)?;
    }
    Ok(())
}

/// Many stores of a thread in flight, and bytes that are written twice between two signals.
fn long_messages(rig: &Rig) -> Result<(), Failed> {
    for name in ["reduce_gather", "allreduce_all_pairs"] {
        let message = Message::new(DataType::F32, if rig.small { 16_400 } else { 1_000_003 }).any_size();
        let world = Executor::new(&rig.device, 2);
        Pair::new(&world, &shipped(name, 2)?, message)?.ok_or("too many thread blocks")?.check(1)?;
    }
    Ok(())
}

/// Only the root's result is divided, also where the kernel parameters do not hold all buffers.
fn averages_of_one_rank(rig: &Rig) -> Result<(), Failed> {
    for ranks in [3, 33] {
        let plan = shipped("reduce_packets", ranks)?;
        let message = Message::new(DataType::F32, 41).op(ReduceOp::Avg).any_size();
        Pair::new(&Executor::new(&rig.device, ranks), &plan, message)?.ok_or("too many thread blocks")?.check(2)?;
    }
    Ok(())
}

/// Devices divide whole outputs, and those of a custom collective may be copies.
fn average_of_a_custom_collective_is_an_error(rig: &Rig) -> Result<(), Failed> {
    let program = Program::new(AlgoSpec::new("sums", CollectiveKind::Custom { input: 2, output: 2 }, 2));
    for rank in program.ranks() {
        rank.copy(rank.output().chunk(..), rank.input().chunk(..), 0);
        rank.reduce(rank.output().chunk(0), rank.input().chunk(1), 0);
    }
    let plan = Plan::new(&lower(&program.finish()?)?);
    match Executor::new(&rig.device, 2).prepare(&plan, Message::new(DataType::F32, 8).op(ReduceOp::Avg)).map(drop) {
        Err(Error::FixedReduction { requested: ReduceOp::Avg, .. }) => Ok(()),
        other => Err(format!("expected an error of the reduction, found {other:?}").into()),
    }
}

/// A pipeline without operations has no effect, and the operations after it are complete.
fn empty_pipelines(rig: &Rig) -> Result<(), Failed> {
    let algorithm = algorithms::find("allreduce_all_pairs").ok_or("no such algorithm")?;
    let mut tree = algorithm.compile_tree(algorithm.spec(3, 3), &algorithm.arguments([])?)?;
    for block in tree.ranks.iter_mut().flat_map(|rank| &mut rank.blocks) {
        let body = Some(Box::new(LoopBody { unit: 16, num_chunks: 1, ops: Vec::new() }));
        block.ops.insert(0, Op { body, ..Op::new(OpKind::Pipeline, Origin::UNKNOWN) });
    }
    let message = Message::new(DataType::F32, 300).any_size();
    Pair::new(&Executor::new(&rig.device, 3), &Plan::new(&tree), message)?.ok_or("too many thread blocks")?.check(2)
}

/// Pipelines whose bodies do not fit into the cache of operations, nor their headers together with them.
fn long_pipelines(rig: &Rig) -> Result<(), Failed> {
    let algorithm = algorithms::find("allreduce_switch_pipeline").ok_or("no such algorithm")?;
    for nops in [20, 31, 32, 70] {
        let mut tree = algorithm.compile_tree(algorithm.spec(3, 3), &algorithm.arguments([])?)?;
        for body in tree.ranks.iter_mut().flat_map(|rank| &mut rank.blocks).flat_map(|block| &mut block.ops) {
            let Some(body) = &mut body.body else { continue };
            body.unit = 64;
            for at in [1, 0] {
                let more = (0..nops).map(|_| Op::new(OpKind::Nop, Origin::UNKNOWN));
                body.ops.splice(at..at, more);
            }
        }
        let message = Message::new(DataType::F32, 300).any_size();
        Pair::new(&Executor::new(&rig.device, 3), &Plan::new(&tree), message)?
            .ok_or("too many thread blocks")?
            .check(2)?;
    }
    Ok(())
}

/// Slices that begin at any element, surrounded by bytes that must not be accessed.
fn slices_anywhere(rig: &Rig) -> Result<(), Failed> {
    let names =
        ["allreduce_all_pairs", "allreduce_packets", "allgather_all_pairs", "reducescatter_ring", "alltoall_direct"];
    for (turn, name) in (0_u64..).zip(names.iter().cycle().take(if rig.small { 10 } else { 60 })) {
        let dtype = [DataType::U8, DataType::F16, DataType::F32, DataType::F64][turn as usize % 4];
        let algorithm = algorithms::find(name).ok_or("no such algorithm")?;
        let mut spec = algorithm.spec(3, 3);
        spec.collective.in_place = false;
        let plan = Plan::new(&algorithm.compile_tree(spec, &algorithm.arguments([])?)?);
        let message = Message::new(dtype, 3 * (31 + 17 * turn)).any_size();
        anywhere(&Executor::new(&rig.device, 3), &plan, message, PrepareOptions::default(), turn)
            .map_err(|failed| at(name, &failed))?;
    }
    Ok(())
}

/// Launches on slices that begin at any element, another one for each turn, rank and side, surrounded by bytes that
/// must not be accessed. Plans that do not fit on the device are skipped.
pub(crate) fn anywhere(
    world: &Executor,
    plan: &Plan,
    message: Message,
    prepare: PrepareOptions,
    turn: u64,
) -> Result<(), Failed> {
    const AROUND: usize = 48;
    const CANARY: u8 = 0x77;
    let ranks = plan.num_ranks();
    let mut run = match world.prepare_with_options(plan, message, prepare) {
        Err(Error::NotCoResident { .. }) => return Ok(()),
        run => run?,
    };
    let mut cpu = cpu::Executor::new(ranks).prepare(plan, message)?;
    let mut expected = cpu.buffers()?;
    Verifier::with_pattern(&cpu, turn, Pattern::Real).fill(&mut expected);
    let in_place = run.collective().in_place;
    let size = message.dtype.size();
    /// Memory, the first byte of the slice in it, all of its bytes.
    type Placed = (DeviceBuffer, usize, Vec<u8>);
    let place = |rank: u32, side: usize, bytes: &[u8]| -> Result<Placed, Failed> {
        let skip = AROUND + size * ((turn as usize + 5 * rank as usize + 3 * side) % (16 / size).max(1));
        let mut all = vec![CANARY; skip + AROUND + bytes.len()];
        all[skip..][..bytes.len()].copy_from_slice(bytes);
        let mut memory = DeviceBuffer::new(&world.devices()[0], all.len() as u64)?;
        memory.write(&all)?;
        Ok((memory, skip, all))
    };
    // In place, the longer side is the whole allocation, and the output is a part of it.
    let sides = |rank: u32| {
        let (input, output) = (expected.input(rank), expected.output(rank));
        if in_place { vec![if input.len() < output.len() { output } else { input }] } else { vec![input, output] }
    };
    let at_output = |rank: u32| {
        let first = |bytes: &[u8]| bytes.as_ptr() as usize;
        let whole = *sides(rank).last().unwrap_or(&&[][..]);
        first(expected.output(rank)).saturating_sub(first(whole))
    };
    let places: Vec<usize> = (0..ranks).map(at_output).collect();
    let placed: Vec<Vec<Placed>> = (0..ranks)
        .map(|rank| (0..).zip(sides(rank)).map(|(side, bytes)| place(rank, side, bytes)).collect())
        .collect::<Result<_, _>>()?;
    let slice = |(memory, skip, all): &Placed| memory.slice(*skip as u64..(all.len() - AROUND) as u64);
    let slices: Vec<[DeviceSlice; 2]> = placed
        .iter()
        .map(|sides| [sides.first(), sides.get(1)].map(|side| side.and_then(slice).unwrap_or(DeviceSlice::EMPTY)))
        .collect();
    let stream = world.stream()?;
    // SAFETY: memory of this device, which lives until the stream is done.
    unsafe { run.launch(slices.into_iter(), &stream)? };
    run.synchronize(&stream)?;
    cpu.launch_buffers(&mut expected)?;
    for (rank, sides) in (0..).zip(placed) {
        let last = sides.len() - 1;
        for (side, (memory, skip, mut wanted)) in sides.into_iter().enumerate() {
            let mut found = vec![0; wanted.len()];
            memory.read(&mut found)?;
            if side == last {
                let (output, begin) = (expected.output(rank), skip + places[rank as usize]);
                if in_place {
                    // The contents next to the output are unspecified.
                    let whole = skip..wanted.len() - AROUND;
                    wanted[whole.clone()].copy_from_slice(&found[whole]);
                }
                wanted[begin..][..output.len()].copy_from_slice(output);
            } else {
                // Some plans overwrite their inputs, in the same way on both executors.
                wanted[skip..][..expected.input(rank).len()].copy_from_slice(expected.input(rank));
            }
            if let Some(at) = (0..found.len()).find(|&at| found[at] != wanted[at]) {
                return Err(format!(
                    "{}, rank {rank}: byte {} of side {side} of {} bytes, which begins {skip} bytes behind a multiple of 256, is \
                     {:#x}, expected {:#x}",
                    message.dtype,
                    at as i64 - skip as i64,
                    wanted.len() - skip - AROUND,
                    found[at],
                    wanted[at]
                )
                .into());
            }
        }
    }
    Ok(())
}

/// Bytes of each part; their offsets need more than 32 bits.
fn more_than_four_gigabytes(rig: &Rig) -> Result<(), Failed> {
    if rig.small {
        // Only on a real device: the simulator has neither the memory nor the time.
        return Ok(());
    }
    let plan = shipped("allgather_all_pairs", 2)?;
    let world = Executor::new(&rig.device, 2);
    let mut run = world.prepare(&plan, Message::new(DataType::F64, (5 << 30) / 8).any_size())?;
    let (mut buffers, stream) = (run.buffers()?, rig.device.stream()?);
    let bytes = buffers.input(0).bytes as usize;
    let mut block = vec![0_u8; bytes];
    for rank in 0..2 {
        block.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at >> 3) as u8 ^ (at >> 27) as u8 ^ rank as u8);
        buffers.write_input(rank, &block)?;
    }
    run.launch_buffers(&mut buffers, &stream)?;
    run.synchronize(&stream)?;
    let mut output = vec![0_u8; 2 * bytes];
    for rank in 0..2 {
        buffers.read_output(rank, &mut output)?;
        for (part, half) in output.chunks_exact(bytes).enumerate() {
            let wrong =
                half.iter().enumerate().find(|&(at, &byte)| byte != (at >> 3) as u8 ^ (at >> 27) as u8 ^ part as u8);
            if let Some((at, byte)) = wrong {
                return Err(format!("rank {rank}, byte {at} of part {part}: {byte:#x}").into());
            }
        }
    }
    Ok(())
}
