//! One launch on device and CPU, compared.

use libtest_mimic::Failed;
use mscclpp_core::origin::Origin;
use mscclpp_core::plan::{LoopBody, Op, OpKind, Plan};
use mscclpp_core::vocab::ReduceOp;
use mscclpp_exec::cuda::{DeviceBuffer, Prepare, Stream, World};
use mscclpp_exec::verify::{Pattern, Verifier};
use mscclpp_exec::{Accumulate, DataType, Error, Message, algorithms, cpu, cuda};

use super::{Rig, Test, at};

/// A plan and message on both executors.
pub(crate) struct Pair {
    pub(crate) run: cuda::Run,
    pub(crate) buffers: cuda::Buffers,
    cpu: cpu::Run,
    cpu_buffers: cpu::Buffers,
    stream: Stream,
    seed: u64,
}

impl Pair {
    /// `None` if the device cannot run so many thread blocks at once.
    pub(crate) fn new(world: &World, plan: &Plan, message: Message) -> Result<Option<Self>, Failed> {
        Self::with(world, plan, message, Prepare::default())
    }

    /// The same, prepared in a certain way.
    pub(crate) fn with(world: &World, plan: &Plan, message: Message, prepare: Prepare) -> Result<Option<Self>, Failed> {
        let run = match world.prepare_with(plan, message, prepare) {
            Err(Error::NotResident { .. }) => return Ok(None),
            run => run?,
        };
        let cpu = cpu::World::new(plan.num_ranks()).prepare(plan, message)?;
        let (buffers, cpu_buffers) = (run.buffers()?, cpu.buffers()?);
        Ok(Some(Self { run, buffers, cpu, cpu_buffers, stream: world.stream()?, seed: 1 }))
    }

    /// Gives both new inputs, and the CPU its results.
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

    /// A few launches on new inputs.
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
}

/// The plan of a shipped algorithm with all of its defaults.
pub(crate) fn shipped(name: &str, ranks: u32) -> Result<Plan, Failed> {
    let algorithm = algorithms::find(name).ok_or("no such algorithm")?;
    Ok(Plan::new(&algorithm.compile(algorithm.spec(ranks, ranks), &algorithm.arguments([])?)?))
}

pub(crate) fn tests() -> Vec<Test> {
    vec![
        Test::new("bits::every_type_and_operation", every_type_and_operation),
        Test::new("bits::lengths_and_alignments", lengths_and_alignments),
        Test::new("bits::long_messages", long_messages),
        Test::new("bits::more_memory_than_there_is", more_memory_than_there_is),
        Test::new("bits::slices_anywhere", slices_anywhere),
        Test::new("bits::averages_of_one_rank", averages_of_one_rank),
        Test::new("bits::empty_pipelines", empty_pipelines),
        Test::new("bits::long_pipelines", long_pipelines),
        Test::new("bits::more_than_four_gigabytes", more_than_four_gigabytes),
    ]
}

fn every_type_and_operation(rig: &Rig) -> Result<(), Failed> {
    for name in ["allreduce_all_pairs", "allreduce_packets"] {
        let plan = shipped(name, 3)?;
        let world = World::new(&rig.device, 3);
        for &dtype in DataType::ALL {
            for accumulate in [Accumulate::Native, Accumulate::F32, Accumulate::F64] {
                if !accumulate.supports(dtype) {
                    continue;
                }
                for op in ReduceOp::ALL {
                    for &count in if rig.simulated { &[97][..] } else { &[1, 1000, 4099] } {
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

fn lengths_and_alignments(rig: &Rig) -> Result<(), Failed> {
    for name in ["allreduce_all_pairs", "allreduce_ring", "allgather_ring", "alltoall_direct", "reducescatter_packets"]
    {
        let plan = shipped(name, 3)?;
        let world = World::new(&rig.device, 3);
        let long: &[u64] = if rig.simulated { &[127] } else { &[127, 128, 129, 1023, 4095, 65537] };
        for count in (0..if rig.simulated { 20 } else { 70 }).chain(long.iter().copied()) {
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

/// Sizes that cannot even be rounded up are refused, like those that are too large.
fn more_memory_than_there_is(rig: &Rig) -> Result<(), Failed> {
    let world = World::new(&rig.device, 1);
    for bytes in [1 << 50, u64::MAX - 1, u64::MAX] {
        if !matches!(world.alloc(0, bytes), Err(Error::Driver(_))) {
            return Err(format!("{bytes} bytes were not refused").into());
        }
    }
    Ok(())
}

/// Many stores of a thread under way, and bytes that are written twice between two signals.
fn long_messages(rig: &Rig) -> Result<(), Failed> {
    for name in ["reduce_gather", "allreduce_all_pairs"] {
        let message = Message::new(DataType::F32, if rig.simulated { 16_400 } else { 1_000_003 }).any_size();
        let world = World::new(&rig.device, 2);
        Pair::new(&world, &shipped(name, 2)?, message)?.ok_or("too many thread blocks")?.check(1)?;
    }
    Ok(())
}

/// Only the root's result is divided, also where the argument does not hold all buffers.
fn averages_of_one_rank(rig: &Rig) -> Result<(), Failed> {
    for ranks in [3, 33] {
        let plan = shipped("reduce_packets", ranks)?;
        let message = Message::new(DataType::F32, 41).op(ReduceOp::Avg).any_size();
        Pair::new(&World::new(&rig.device, ranks), &plan, message)?.ok_or("too many thread blocks")?.check(2)?;
    }
    Ok(())
}

/// A pipeline without operations does nothing, and what follows it is whole.
fn empty_pipelines(rig: &Rig) -> Result<(), Failed> {
    let algorithm = algorithms::find("allreduce_all_pairs").ok_or("no such algorithm")?;
    let mut tree = algorithm.compile(algorithm.spec(3, 3), &algorithm.arguments([])?)?;
    for block in tree.ranks.iter_mut().flat_map(|rank| &mut rank.blocks) {
        let body = Some(Box::new(LoopBody { unit: 16, num_chunks: 1, ops: Vec::new() }));
        block.ops.insert(0, Op { body, ..Op::new(OpKind::Pipeline, Origin::UNKNOWN) });
    }
    let message = Message::new(DataType::F32, 300).any_size();
    Pair::new(&World::new(&rig.device, 3), &Plan::new(&tree), message)?.ok_or("too many thread blocks")?.check(2)
}

/// Pipelines whose bodies do not fit into the window of operations, nor their headers beside them.
fn long_pipelines(rig: &Rig) -> Result<(), Failed> {
    let algorithm = algorithms::find("allreduce_switch_pipeline").ok_or("no such algorithm")?;
    for nops in [20, 31, 32, 70] {
        let mut tree = algorithm.compile(algorithm.spec(3, 3), &algorithm.arguments([])?)?;
        for body in tree.ranks.iter_mut().flat_map(|rank| &mut rank.blocks).flat_map(|block| &mut block.ops) {
            let Some(body) = &mut body.body else { continue };
            body.unit = 64;
            for at in [1, 0] {
                let more = (0..nops).map(|_| Op::new(OpKind::Nop, Origin::UNKNOWN));
                body.ops.splice(at..at, more);
            }
        }
        let message = Message::new(DataType::F32, 300).any_size();
        Pair::new(&World::new(&rig.device, 3), &Plan::new(&tree), message)?
            .ok_or("too many thread blocks")?
            .check(2)?;
    }
    Ok(())
}

/// Slices that begin at any element, with bytes around them that nothing may touch.
fn slices_anywhere(rig: &Rig) -> Result<(), Failed> {
    const AROUND: u64 = 48;
    const CANARY: u8 = 0x77;
    let names =
        ["allreduce_all_pairs", "allreduce_packets", "allgather_all_pairs", "reducescatter_ring", "alltoall_direct"];
    for (turn, name) in (0_u64..).zip(names.iter().cycle().take(if rig.simulated { 10 } else { 60 })) {
        let dtype = [DataType::U8, DataType::F16, DataType::F32, DataType::F64][turn as usize % 4];
        let algorithm = algorithms::find(name).ok_or("no such algorithm")?;
        let mut spec = algorithm.spec(3, 3);
        spec.collective.in_place = false;
        let plan = Plan::new(&algorithm.compile(spec, &algorithm.arguments([])?)?);
        let size = dtype.size() as u64;
        let message = Message::new(dtype, 3 * (31 + 17 * turn)).any_size();
        let mut run = World::new(&rig.device, 3).prepare(&plan, message)?;
        let mut cpu = cpu::World::new(3).prepare(&plan, message)?;
        let mut expected = cpu.buffers()?;
        Verifier::with_pattern(&cpu, turn, Pattern::Real).fill(&mut expected);
        let stream = rig.device.stream()?;
        // Every buffer begins somewhere else.
        let mut memories = Vec::new();
        for rank in 0..3 {
            for (side, bytes) in [expected.input(rank), expected.output(rank)].into_iter().enumerate() {
                let skip = AROUND + size * ((turn + 5 * u64::from(rank) + 3 * side as u64) % (16 / size).max(1));
                let mut all = vec![CANARY; (skip + AROUND) as usize + bytes.len()];
                if side == 0 {
                    all[skip as usize..][..bytes.len()].copy_from_slice(bytes);
                }
                let mut memory = DeviceBuffer::new(&rig.device, all.len() as u64)?;
                memory.write(&all)?;
                let slice = memory.slice(skip..skip + bytes.len() as u64).ok_or("not inside")?;
                memories.push((memory, skip as usize, all, slice));
            }
        }
        let slices: Vec<_> = memories.chunks(2).map(|pair| [pair[0].3, pair[1].3]).collect();
        // SAFETY: memory of this device, which lives until the stream is done.
        unsafe { run.launch(slices.into_iter(), &stream)? };
        run.synchronize(&stream)?;
        cpu.launch_buffers(&mut expected)?;
        for (number, (memory, skip, mut wanted, slice)) in memories.into_iter().enumerate() {
            let mut found = vec![0; wanted.len()];
            memory.read(&mut found)?;
            if number % 2 == 1 {
                wanted[skip..][..slice.bytes as usize].copy_from_slice(expected.output(number as u32 / 2));
            }
            if let Some(at) = (0..found.len()).find(|&at| found[at] != wanted[at]) {
                let what = ["input", "output"][number % 2];
                return Err(format!(
                    "{name}, {dtype}, rank {}: byte {} of the {what} of {} bytes is {:#x}, expected {:#x}",
                    number / 2,
                    at as i64 - skip as i64,
                    slice.bytes,
                    found[at],
                    wanted[at]
                )
                .into());
            }
        }
    }
    Ok(())
}

/// Bytes of each part; their numbers need more than 32 bits.
fn more_than_four_gigabytes(rig: &Rig) -> Result<(), Failed> {
    if rig.simulated {
        // Left to a device: there is neither memory nor time.
        return Ok(());
    }
    let plan = shipped("allgather_all_pairs", 2)?;
    let world = World::new(&rig.device, 2);
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
