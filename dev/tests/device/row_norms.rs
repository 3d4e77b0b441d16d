//! Plans that normalize rows: on devices, rows, sums, quantized rows and scales have the bits of the CPU executor, whatever the number of
//! threads and thread blocks, and whichever kernel launches them.

use libtest_mimic::{Failed, Trial};
use mscclpp_algorithms as algorithms;
use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::plan::Plan;
use mscclpp_dev::{Options, simulator};
use mscclpp_exec::__half::{bf16, f16};
use mscclpp_exec::cuda::jit::Cache;
use mscclpp_exec::cuda::{
    self, Binding, Device, DeviceSlice, DeviceVec, Executor, PrepareOptions, PreparedPlan, RowOperands, Stream,
};
use mscclpp_exec::error::RowsError;
use mscclpp_exec::{E4m3, Element, Error, Message, RowNorm, cpu};

use super::devices::{seeds_of_case, with_seeds, world};
use super::{CACHE, Rig, Test, at};

/// Those that take any number of rows are first.
const ALGORITHMS: [&str; 7] = [
    "allreduce_norm_one_shot",
    "allreduce_norm_two_shot",
    "allreduce_norm_scatter",
    "allreduce_norm_pull",
    "reducescatter_norm",
    "allgather_norm_packets",
    "allgather_norm",
];

pub(crate) fn tests() -> Vec<Test> {
    vec![
        Test::new("row_norms::algorithms", |rig| algorithms_of_every_type(rig, PrepareOptions::default()).map(drop)),
        Test::new("row_norms::any_number_of_rows", any_number_of_rows),
        Test::new("row_norms::more_operands_than_kernel_parameters", more_operands_than_kernel_parameters),
        Test::new("row_norms::graphs_take_new_operands", graphs_take_new_operands),
        Test::new("row_norms::operands_of_other_lengths_are_rejected", operands_of_other_lengths_are_rejected),
        Test::new("row_norms::specialized_kernels", specialized_kernels).that_compiles(),
    ]
}

/// The tests with ranks on several simulated devices, and with other numbers of threads.
pub(crate) fn on_simulator(seeds: std::ops::Range<u64>) -> Vec<Trial> {
    let several = |seed: u64| -> Result<(), Failed> {
        for (turn, map) in [&[0, 1][..], &[0, 0, 1], &[1, 0, 1, 2]].into_iter().enumerate() {
            let world = world(seed, map)?;
            for name in ALGORITHMS {
                let plan = plan_of(name, map.len() as u32, 2)?;
                let rows = rows_of(name, map.len(), 5);
                check::<bf16>(&world, map, &plan, (rows, 136), turn, PrepareOptions::default())
                    .map_err(|failed| at(format_args!("{name} on {map:?}"), &failed))?;
            }
        }
        Ok(())
    };
    let threads = |seed: u64| -> Result<(), Failed> {
        // With the last number there are two rows at a time, and threads without a row.
        for threads in [1, 4, 16, 5, 600] {
            let options = Options { seed, threads, stop_at_one_of: [0, 16][seed as usize % 2], ..Options::default() };
            let device = Device::with_cache(simulator(options)?, Cache::at(CACHE));
            let world = Executor::new(&device, 2);
            for (turn, hidden) in [24, 1032, 2056].into_iter().enumerate() {
                let plan = plan_of(ALGORITHMS[turn % 2], 2, 2)?;
                let prepare = PrepareOptions::default();
                check::<bf16>(&world, &[0; 2], &plan, (6, hidden), turn, prepare)
                    .map_err(|failed| at(format_args!("{threads} threads, rows of {hidden}"), &failed))?;
                check::<f32>(&world, &[0; 2], &plan, (3, hidden), turn + 1, prepare)
                    .map_err(|failed| at(format_args!("{threads} threads, rows of {hidden}"), &failed))?;
            }
        }
        Ok(())
    };
    vec![
        with_seeds("devices::row_norms".into(), seeds_of_case(&seeds, 0), several),
        with_seeds("threads::row_norms".into(), seeds_of_case(&seeds, 1), threads),
    ]
}

/// Runs a plan of which every rank normalizes all rows.
pub(crate) fn normalizes_rows(rig: &Rig, plan: &Plan) -> Result<(), Failed> {
    let (ranks, world) = (plan.num_ranks() as usize, Executor::new(&rig.device, plan.num_ranks()));
    for (form, shape) in [(0, 8), (1, 8), (5, 24), (12, 520)].into_iter().enumerate() {
        check::<f32>(&world, &vec![0; ranks], plan, shape, form, PrepareOptions::default())?;
    }
    Ok(())
}

/// Launches some norms.
pub(crate) fn normalize(device: &Device, options: cuda::Options) -> Result<(), Failed> {
    let world = Executor::with_options(device, 2, options);
    for (form, name) in ALGORITHMS.into_iter().enumerate() {
        check::<f32>(&world, &[0; 2], &plan_of(name, 2, 2)?, (6, 264), form, PrepareOptions::default())?;
    }
    Ok(())
}

/// Elements that rows consist of.
trait Float: Element + PartialEq {
    fn of(value: f32) -> Self;
}
impl Float for f32 {
    fn of(value: f32) -> Self {
        value
    }
}
impl Float for f16 {
    fn of(value: f32) -> Self {
        Self::from_f32(value)
    }
}
impl Float for bf16 {
    fn of(value: f32) -> Self {
        Self::from_f32(value)
    }
}

/// Returns the plan of an algorithm, out of place.
pub(crate) fn plan_of(name: &str, ranks: u32, blocks: usize) -> Result<Plan, Failed> {
    let algorithm = algorithms::find(name).ok_or("no such algorithm")?;
    let mut spec = algorithm.spec(ranks, ranks);
    spec.collective.in_place = false;
    if ["allreduce_norm_one_shot", "allgather_norm_packets"].contains(&name) {
        return Ok(algorithm.plan(spec, &[blocks])?);
    }
    if name != "allreduce_norm_pull" {
        spec.collective.chunk_factor = blocks as u32;
    }
    Ok(algorithm.plan(spec, &[])?)
}

/// Returns the number of rows of a message of which some are requested.
fn rows_of(name: &str, ranks: usize, rows: usize) -> usize {
    if name.starts_with("allreduce") { rows } else { rows.next_multiple_of(ranks) }
}

/// Numbers between -2 and 2 that follow from a seed, some of them zeros of both signs.
fn values<T: Float>(seed: u64, len: usize) -> Vec<T> {
    let value = |index: u64| {
        let mixed = (index ^ seed << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40;
        if mixed.is_multiple_of(61) { -0.0 } else { (mixed % 4096) as f32 / 1024.0 - 2.0 }
    };
    (0..len as u64).map(|index| T::of(value(index))).collect()
}

/// What a rank passes besides its input, and has after a launch.
#[derive(Clone)]
struct Operands<T> {
    residual: Vec<T>,
    gamma: Vec<T>,
    output: Vec<T>,
    sums: Vec<T>,
    quantized: Vec<E4m3>,
    scales: Vec<f32>,
}

/// The input of a rank, and what else it passes and has.
type Case<T> = (Vec<T>, Operands<T>);

/// Number of forms of a norm. The last one is the second one with the scale in device memory.
const FORMS: usize = 7;
const SCALE: f32 = 0.3;

impl<T: Float> Operands<T> {
    /// `outputs`: rows of the output, of which `rows` are normalized on the rank.
    fn new(seed: u64, rows: usize, outputs: usize, hidden: usize) -> Self {
        let len = rows * hidden;
        Self {
            residual: values(seed, len),
            gamma: values(7, hidden),
            output: vec![T::of(-7.0); outputs * hidden],
            sums: vec![T::of(-7.0); len],
            quantized: vec![E4m3(1); len],
            scales: vec![-7.0; rows],
        }
    }

    /// Returns the norm of a form, and the output.
    fn norm(&mut self, form: usize) -> (RowNorm<'_, T>, &mut [T]) {
        let Self { residual, gamma, output, sums, quantized, scales } = self;
        let norm = RowNorm::new(1e-6);
        let norm = match form {
            0 => norm.gamma(gamma).bias(1.0).residual(residual).residual_out(sums).quantized_by_row(quantized, scales),
            1 | 6 => norm.gamma(gamma).residual_in_place(residual).quantized(quantized, SCALE),
            2 => norm,
            3 => RowNorm::add_only().residual(residual).residual_out(sums),
            4 => RowNorm::add_only().quantized_by_row(quantized, scales),
            _ => RowNorm::new(0.0).gamma(gamma).residual(residual).quantized_by_row(quantized, scales),
        };
        (norm, output)
    }
}

/// A vector in device memory that begins a number of elements past a multiple of 256 bytes.
struct Skewed<T> {
    memory: DeviceVec<T>,
    skew: usize,
}

impl<T: Element> Skewed<T> {
    fn new(device: &Device, elements: &[T], skew: usize) -> Result<Self, Failed> {
        let mut all = vec![T::zeroed(); skew];
        all.extend_from_slice(elements);
        Ok(Self { memory: DeviceVec::from_slice(device, &all)?, skew })
    }

    fn slice(&self) -> DeviceSlice {
        let DeviceSlice { address, bytes } = self.memory.as_slice();
        let before = (self.skew * size_of::<T>()) as u64;
        DeviceSlice { address: address + before, bytes: bytes - before }
    }

    fn write(&mut self, elements: &[T]) -> Result<(), Failed> {
        let mut all = vec![T::zeroed(); self.skew];
        all.extend_from_slice(elements);
        Ok(self.memory.write(&all)?)
    }

    fn to_vec(&self) -> Result<Vec<T>, Failed> {
        Ok(self.memory.to_vec()?.split_off(self.skew))
    }
}

/// The memory of a rank.
struct Memory<T> {
    input: Skewed<T>,
    residual: Skewed<T>,
    gamma: Skewed<T>,
    output: Skewed<T>,
    sums: Skewed<T>,
    quantized: Skewed<E4m3>,
    scales: Skewed<f32>,
    scale: Skewed<f32>,
}

impl<T: Float> Memory<T> {
    fn new(device: &Device, input: &[T], of: &Operands<T>, skew: usize) -> Result<Self, Failed> {
        Ok(Self {
            input: Skewed::new(device, input, skew)?,
            residual: Skewed::new(device, &of.residual, skew)?,
            gamma: Skewed::new(device, &of.gamma, skew)?,
            output: Skewed::new(device, &of.output, skew)?,
            sums: Skewed::new(device, &of.sums, skew)?,
            quantized: Skewed::new(device, &of.quantized, skew)?,
            scales: Skewed::new(device, &of.scales, skew)?,
            scale: Skewed::new(device, &[SCALE], skew)?,
        })
    }

    fn write(&mut self, input: &[T], of: &Operands<T>) -> Result<(), Failed> {
        self.input.write(input)?;
        self.residual.write(&of.residual)?;
        self.output.write(&of.output)?;
        self.sums.write(&of.sums)?;
        self.quantized.write(&of.quantized)?;
        self.scales.write(&of.scales)
    }

    fn operands(&self, form: usize) -> RowOperands {
        let [residual, gamma, sums] = [&self.residual, &self.gamma, &self.sums].map(|memory| Some(memory.slice()));
        let (quantized, scales) = (Some(self.quantized.slice()), Some(self.scales.slice()));
        let norm = RowOperands { eps: Some(1e-6), ..RowOperands::default() };
        match form {
            0 => RowOperands { gamma, bias: 1.0, residual, residual_out: sums, quantized, scales, ..norm },
            1 => RowOperands { gamma, residual, residual_out: residual, quantized, scale: SCALE, ..norm },
            2 => norm,
            3 => RowOperands { eps: None, residual, residual_out: sums, ..norm },
            4 => RowOperands { eps: None, quantized, scales, ..norm },
            5 => RowOperands { eps: Some(0.0), gamma, residual, quantized, scales, ..norm },
            _ => {
                let device_scale = Some(self.scale.slice());
                RowOperands { gamma, residual, residual_out: residual, quantized, device_scale, ..norm }
            }
        }
    }

    /// Compares with what the CPU executor has written.
    fn compare(&self, expected: &Operands<T>) -> Result<(), Failed> {
        let is_equal = |name: &str, found: &[u8], expected: &[u8]| match found == expected {
            true => Ok(()),
            false => {
                let at = found.iter().zip(expected).position(|(found, expected)| found != expected);
                Err(Failed::from(format!("{name} differ at byte {at:?} of {}", found.len())))
            }
        };
        let bytes = |list: &[T]| bytemuck::cast_slice::<T, u8>(list).to_vec();
        for (name, found, expected) in [
            ("rows", &self.output, &expected.output),
            ("sums", &self.sums, &expected.sums),
            ("residuals", &self.residual, &expected.residual),
        ] {
            is_equal(name, &bytes(&found.to_vec()?), &bytes(expected))?;
        }
        let (quantized, scales) = (self.quantized.to_vec()?, self.scales.to_vec()?);
        is_equal("quantized rows", bytemuck::cast_slice(&quantized), bytemuck::cast_slice(&expected.quantized))?;
        is_equal("scales", bytemuck::cast_slice(&scales), bytemuck::cast_slice(&expected.scales))
    }
}

/// A prepared plan on devices and on the CPU, and the memory of all ranks.
struct Norms<T> {
    // Dropped first: its destructor waits for launches.
    binding: Binding,
    run: PreparedPlan,
    stream: Stream,
    memory: Vec<Memory<T>>,
    cpu: cpu::PreparedPlan,
    /// Rows that a rank normalizes, and those of its output.
    rows: usize,
    outputs: usize,
    hidden: usize,
    form: usize,
}

impl<T: Float> Norms<T> {
    /// Prepares a plan of ranks that are on the devices of these numbers. `shape`: rows of the message, and elements of a row.
    fn new(
        world: &Executor,
        map: &[usize],
        plan: &Plan,
        shape: (usize, usize),
        form: usize,
        prepare: PrepareOptions,
    ) -> Result<Self, Failed> {
        let ((rows, hidden), ranks) = (shape, map.len());
        let message = Message::rows::<T>(rows, hidden);
        let run = world.prepare_with_options(plan, message, prepare)?;
        let cpu = cpu::Executor::new(ranks as u32).prepare(plan, message)?;
        let part = rows / ranks;
        let (inputs, own, outputs) = match run.collective().kind {
            CollectiveKind::ReduceScatter => (rows, part, part),
            CollectiveKind::AllGather => (part, part, rows),
            _ => (rows, rows, rows),
        };
        // Operands are at any element, except for kernels that take no other inputs and outputs.
        let skew = if prepare.specialize { 0 } else { form };
        let memory = |rank: usize| {
            let device = &world.devices()[map[rank]];
            let operands = Operands::new(rank as u64, own, outputs, hidden);
            Memory::new(device, &values(rank as u64, inputs * hidden), &operands, skew)
        };
        let memory = (0..ranks).map(memory).collect::<Result<Vec<_>, _>>()?;
        let binding = run.bind(memory.iter().map(|rank| [rank.input.slice(), rank.output.slice()]))?;
        let stream = world.stream()?;
        Ok(Self { binding, run, stream, memory, cpu, rows: own, outputs, hidden, form: form % FORMS })
    }

    /// Writes new operands and inputs, and returns them.
    fn set(&mut self, seed: u64) -> Result<Vec<Case<T>>, Failed> {
        let mut all = Vec::new();
        for (rank, memory) in (0..).zip(&mut self.memory) {
            let input = values(seed + 31 * rank, memory.input.memory.len() - memory.input.skew);
            let operands = Operands::new(seed + 17 * rank, self.rows, self.outputs, self.hidden);
            memory.write(&input, &operands)?;
            all.push((input, operands));
        }
        Ok(all)
    }

    fn operands(&self) -> Vec<RowOperands> {
        self.memory.iter().map(|memory| memory.operands(self.form)).collect()
    }

    fn launch(&mut self) -> Result<(), Error> {
        let operands = self.operands();
        // SAFETY: memory of the ranks' devices, which lives as long as `self`.
        unsafe { self.run.launch_rows(&self.binding, &operands, &self.stream) }
    }

    /// Launches on the CPU, and compares.
    fn compare(&mut self, mut all: Vec<Case<T>>) -> Result<(), Failed> {
        self.run.synchronize(&self.stream)?;
        let (mut norms, mut outputs, mut inputs) = (Vec::new(), Vec::new(), Vec::new());
        for (input, operands) in &mut all {
            let (norm, output) = operands.norm(self.form);
            norms.push(norm);
            outputs.push(output);
            inputs.push(&*input);
        }
        self.cpu.launch_rows(&inputs, &mut outputs, norms)?;
        for (rank, (memory, (_, expected))) in self.memory.iter().zip(&all).enumerate() {
            let place = format_args!("rank {rank}, form {}, {:?}", self.form, self.run.message()).to_string();
            memory.compare(expected).map_err(|failed| at(place, &failed))?;
        }
        Ok(())
    }

    fn check(&mut self, seed: u64) -> Result<(), Failed> {
        let all = self.set(seed)?;
        self.launch()?;
        self.compare(all)
    }
}

/// Compares two launches of a plan with those of the CPU. Returns whether a specialized kernel ran.
fn check<T: Float>(
    world: &Executor,
    map: &[usize],
    plan: &Plan,
    shape: (usize, usize),
    form: usize,
    prepare: PrepareOptions,
) -> Result<bool, Failed> {
    let mut norms = Norms::<T>::new(world, map, plan, shape, form, prepare)?;
    if prepare.specialize {
        norms.run.specialized().map_err(|reason| format!("not specialized: {reason}"))?;
    }
    (1..3).try_for_each(|seed| norms.check(seed))?;
    Ok(norms.run.last_kernel().is_specialized())
}

/// All types and forms. Returns how many launches ran specialized kernels.
fn algorithms_of_every_type(rig: &Rig, prepare: PrepareOptions) -> Result<usize, Failed> {
    let mut specialized = 0;
    for (turn, name) in ALGORITHMS.into_iter().enumerate() {
        for (ranks, blocks) in [(2, 1), (3, 2)] {
            let (plan, world) = (plan_of(name, ranks, blocks)?, Executor::new(&rig.device, ranks));
            for (number, (rows, hidden)) in
                [(0, 8), (1, 8), (3, 24), (6, 136), (9, 40), (4, 1032)].into_iter().enumerate()
            {
                let form = turn + number + rig.seed as usize;
                let (map, shape) = (vec![0; ranks as usize], (rows_of(name, ranks as usize, rows), hidden));
                let run = match (form / 2) % 3 {
                    0 => check::<bf16>,
                    1 => check::<f16>,
                    _ => check::<f32>,
                };
                let ran = run(&world, &map, &plan, shape, form, prepare);
                let ran = ran.map_err(|failed| at(format_args!("{name}, {ranks} ranks"), &failed))?;
                specialized += usize::from(ran);
            }
        }
    }
    Ok(specialized)
}

fn specialized_kernels(rig: &Rig) -> Result<(), Failed> {
    match algorithms_of_every_type(rig, PrepareOptions::default().specialize(true))? {
        0 => Err("no launch ran a specialized kernel".into()),
        _ => Ok(()),
    }
}

/// A row has the same bits among any number of rows: those of the CPU, which does not depend on it.
fn any_number_of_rows(rig: &Rig) -> Result<(), Failed> {
    let world = Executor::new(&rig.device, 2);
    let step = if rig.small && std::env::var_os("MSCCLPP_ALL").is_none() { 9 } else { 1 };
    for (turn, hidden) in [8, 520, 2056].into_iter().enumerate() {
        for rows in (rig.seed as usize % step..=70).step_by(step) {
            let plan = plan_of(ALGORITHMS[(rows + turn) % 4], 2, 1 + rows % 4)?;
            check::<bf16>(&world, &[0; 2], &plan, (rows, hidden), rows, PrepareOptions::default())?;
        }
    }
    Ok(())
}

/// With more ranks in one process than have room for their operands in the kernel parameters.
fn more_operands_than_kernel_parameters(rig: &Rig) -> Result<(), Failed> {
    let world = Executor::new(&rig.device, 9);
    let plan = plan_of("allreduce_norm_one_shot", 9, 1)?;
    check::<bf16>(&world, &[0; 9], &plan, (2, 24), 0, PrepareOptions::default()).map(drop)
}

/// Replays one graph with other inputs and residuals each time.
fn graphs_take_new_operands(rig: &Rig) -> Result<(), Failed> {
    for (form, name) in ALGORITHMS.into_iter().enumerate() {
        let (plan, world) = (plan_of(name, 3, 1)?, Executor::new(&rig.device, 3));
        let mut norms = Norms::<f16>::new(&world, &[0; 3], &plan, (6, 72), form, PrepareOptions::default())?;
        let graph = {
            let operands = norms.operands();
            let (run, binding) = (&mut norms.run, &norms.binding);
            // SAFETY: memory of the ranks' devices, which lives as long as the graph.
            rig.device.stream()?.capture(|stream| unsafe { run.launch_rows(binding, &operands, stream) })?
        };
        for seed in 0..6 {
            let all = norms.set(seed)?;
            // SAFETY: prepared plan and memory live as long as `norms`.
            unsafe { graph.launch(&norms.stream)? };
            norms.compare(all).map_err(|failed| at(name, &failed))?;
        }
    }
    Ok(())
}

fn operands_of_other_lengths_are_rejected(rig: &Rig) -> Result<(), Failed> {
    let (plan, world) = (plan_of("allreduce_norm_one_shot", 2, 1)?, Executor::new(&rig.device, 2));
    let mut norms = Norms::<f32>::new(&world, &[0; 2], &plan, (3, 8), 0, PrepareOptions::default())?;
    let right = norms.operands();
    let shorter = |slice: Option<DeviceSlice>| slice.map(|slice| DeviceSlice { bytes: slice.bytes - 4, ..slice });
    let operand = |operand, expected, found| RowsError::Operand { rank: 1, operand, expected, found };
    let cases = [
        (RowOperands { residual: shorter(right[1].residual), ..right[1] }, operand("the residual", 24, 23)),
        (
            RowOperands { residual_out: shorter(right[1].residual_out), ..right[1] },
            operand("the output of the residual", 24, 23),
        ),
        (RowOperands { gamma: shorter(right[1].gamma), ..right[1] }, operand("gamma", 8, 7)),
        (
            RowOperands { quantized: shorter(right[1].quantized), ..right[1] },
            operand("the output of quantized rows", 24, 20),
        ),
        (RowOperands { scales: shorter(right[1].scales), ..right[1] }, operand("the output of scales", 3, 2)),
        (RowOperands { device_scale: right[1].scales, ..right[1] }, operand("the scale", 1, 3)),
        (RowOperands { scales: None, ..right[1] }, RowsError::Scale { rank: 1, scale: "0".into() }),
    ];
    for (wrong, expected) in cases {
        // SAFETY: memory of the device, which lives as long as `norms`.
        let found = unsafe { norms.run.launch_rows(&norms.binding, &[right[0], wrong], &norms.stream) };
        assert!(matches!(&found, Err(Error::Rows(found)) if *found == expected), "{found:?}, expected {expected:?}");
    }
    // SAFETY: as above.
    let few = unsafe { norms.run.launch_rows(&norms.binding, &right[..1], &norms.stream) };
    assert!(matches!(few, Err(Error::BufferCount { buffer: "row norms", expected: 2, found: 1 })), "{few:?}");
    // SAFETY: as above.
    let none = unsafe { norms.run.launch_bound(&norms.binding, &norms.stream) };
    assert!(matches!(&none, Err(Error::Rows(RowsError::Mode { rows: true, .. }))), "{none:?}");
    norms.check(3)
}
