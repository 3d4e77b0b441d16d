//! Results, bitwise.

use half::{bf16, f16};
use mscclpp_algorithms as algorithms;
use mscclpp_algorithms::{BufferMode, BuiltinAlgorithm};
use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::dsl::Program;
use mscclpp_core::lower::lower;
use mscclpp_core::origin::Origin;
use mscclpp_core::plan::{
    Plan,
    raw::{Op, OpKind},
};
use mscclpp_core::spec::AlgoSpec;
use mscclpp_core::types::ReduceOp;
use mscclpp_exec::cpu;
use mscclpp_exec::process::{Executor, PreparedPlan};
use mscclpp_exec::verify::{Pattern, Verifier};
use mscclpp_exec::{DataType, E4m3, E4m3B15, E5m2, Element, Error, Message};

use super::group::each;

/// Inputs of all ranks, and the outputs that the executor within one process computes from them.
pub struct Reference {
    pub in_place: bool,
    pub inputs: Vec<Vec<u8>>,
    pub outputs: Vec<Vec<u8>>,
    /// Contents of the outputs before a launch; in place, of the one buffer.
    before: Vec<Vec<u8>>,
}

impl Reference {
    /// Runs a plan in one process; its results are checked against f64.
    pub fn new(plan: &Plan, message: Message, seed: u64) -> Self {
        let mut run = cpu::Executor::new(plan.num_ranks()).prepare(plan, message).expect("a run");
        let mut buffers = run.buffers().expect("memory");
        let verifier = Verifier::with_pattern(&run, seed, Pattern::Real);
        verifier.fill(&mut buffers);
        let ranks = 0..plan.num_ranks();
        let inputs = ranks.clone().map(|rank| buffers.input(rank).to_vec()).collect();
        let in_place = run.collective().in_place;
        let whole = |rank| {
            let (input, output) = (buffers.input(rank), buffers.output(rank));
            if in_place && input.len() > output.len() { input.to_vec() } else { output.to_vec() }
        };
        // In place the longer of the two is the one buffer.
        let before = ranks.clone().map(whole).collect();
        run.launch_buffers(&mut buffers).expect("it runs");
        assert_eq!(verifier.check(&buffers).wrong, 0, "{} with {message:?}", plan.name());
        let outputs = ranks.map(|rank| buffers.output(rank).to_vec()).collect();
        Self { in_place, inputs, outputs, before }
    }

    /// Launches on this rank, twice with private slices and twice with shared buffers, and compares.
    pub fn check(&self, executor: &Executor, x: &mut PreparedPlan, what: &str) {
        macro_rules! by_type {
            ($($dtype:ident $type:ty),*) => {
                match x.message().dtype {
                    $(DataType::$dtype => self.check_as::<$type>(executor, x, what),)*
                }
            };
        }
        by_type!(I8 i8, U8 u8, I32 i32, U32 u32, I64 i64, U64 u64, F16 f16, BF16 bf16, F32 f32, F64 f64, F8E4M3 E4m3, F8E5M2 E5m2,
            F8E4M3B15 E4m3B15);
    }

    fn check_as<T: Element>(&self, executor: &Executor, x: &mut PreparedPlan, what: &str) {
        let rank = executor.rank() as usize;
        let (start, after): (&[u8], &[u8]) = (&self.before[rank], &self.outputs[rank]);
        let is_output = |found: &[T], how: &str| {
            assert!(bytemuck::cast_slice::<T, u8>(found) == after, "{what}, rank {rank}, {how}: other bits");
        };
        if self.in_place {
            let mut own: Vec<T> = bytemuck::pod_collect_to_vec(start);
            let mut shared = executor.alloc::<T>(own.len()).expect("memory");
            // Position of the output in the buffer.
            let n = after.len() / size_of::<T>();
            let first = if n < own.len() { rank * n } else { 0 };
            for _ in 0..2 {
                own.copy_from_slice(&bytemuck::pod_collect_to_vec::<u8, T>(start));
                x.launch_in_place(&mut own).unwrap_or_else(|error| panic!("{what}: {error}"));
                is_output(&own[first..first + n], "own buffer");
                shared.copy_from_slice(&bytemuck::pod_collect_to_vec::<u8, T>(start));
                x.launch_in_place(&mut shared).unwrap_or_else(|error| panic!("{what}: {error}"));
                is_output(&shared[first..first + n], "shared buffer");
            }
            return;
        }
        let input: Vec<T> = bytemuck::pod_collect_to_vec(&self.inputs[rank]);
        let start: Vec<T> = bytemuck::pod_collect_to_vec(start);
        let mut output = start.clone();
        let mut shared_input = executor.alloc::<T>(input.len()).expect("memory");
        shared_input.copy_from_slice(&input);
        // Somewhere in the middle, aligned to elements only.
        let mut shared_output = executor.alloc::<T>(output.len() + 5).expect("memory");
        for launch in 0..4 {
            output.copy_from_slice(&start);
            shared_output[3..3 + start.len()].copy_from_slice(&start);
            match launch {
                0 => x.launch(&input, &mut output),
                1 => x.launch(&shared_input, &mut shared_output[3..3 + output.len()]),
                // Not the same on all ranks.
                2 if rank.is_multiple_of(2) => x.launch(&shared_input, &mut output),
                2 => x.launch(&input, &mut shared_output[3..3 + output.len()]),
                _ => x.launch(&shared_input, &mut output),
            }
            .unwrap_or_else(|error| panic!("{what}: {error}"));
            let in_shared = launch == 1 || launch == 2 && rank % 2 == 1;
            is_output(if in_shared { &shared_output[3..3 + output.len()] } else { &output }, "two buffers");
        }
    }
}

fn placements(algorithm: &BuiltinAlgorithm) -> &'static [bool] {
    match algorithm.buffer_mode() {
        BufferMode::InPlace => &[true],
        BufferMode::OutOfPlace => &[false],
        BufferMode::Any => &[true, false],
    }
}

fn plan(algorithm: &BuiltinAlgorithm, ranks: u32, in_place: bool, root: u32) -> Plan {
    plan_on(algorithm, (ranks, ranks), in_place, root)
}

/// Returns a plan for a number of ranks, and of ranks per node.
pub fn plan_on(algorithm: &BuiltinAlgorithm, (ranks, per_node): (u32, u32), in_place: bool, root: u32) -> Plan {
    let mut spec = algorithm.spec(ranks, per_node);
    spec.instances = spec.instances.min(2);
    spec.collective.in_place = in_place;
    spec.collective.root = root;
    let arguments = algorithm.arguments([]).expect("defaults");
    Plan::new(&algorithm.compile_tree(spec, &arguments).unwrap_or_else(|error| panic!("{}: {error}", algorithm.name())))
}

/// Prepares and checks a message on this rank.
pub fn check_on(executor: &Executor, plan: &Plan, message: Message, reference: &Reference) {
    let what = format!("{} on {} ranks, {message:?}", plan.name(), plan.num_ranks());
    let mut x = executor.prepare(plan, message).unwrap_or_else(|error| panic!("{what}: {error}"));
    reference.check(executor, &mut x, &what);
}

/// Prepares and checks messages on all ranks.
pub fn check(plan: &Plan, messages: &[Message]) {
    let references: Vec<_> = (0..).zip(messages).map(|(seed, &message)| Reference::new(plan, message, seed)).collect();
    each(plan.num_ranks(), |executor| {
        for (message, reference) in messages.iter().zip(&references) {
            check_on(&executor, plan, *message, reference);
        }
    });
}

#[test]
fn every_algorithm_equals_the_executor_within_one_process() {
    // `MSCCLPP_SOAK`: more ranks than processors, which take much longer.
    let max_ranks = if std::env::var_os("MSCCLPP_SOAK").is_some() { 9 } else { 4 };
    for algorithm in algorithms::all() {
        for ranks in (2..=max_ranks).filter(|&ranks| algorithm.supports(ranks, ranks)) {
            for &in_place in placements(algorithm) {
                let rooted = matches!(algorithm.kind(), CollectiveKind::Broadcast | CollectiveKind::Reduce);
                let plan = plan(algorithm, ranks, in_place, if rooted { ranks - 1 } else { 0 });
                let odd = u64::from(algorithm.kind() == CollectiveKind::AllReduce);
                let sizes = [0, 1, 37, 1500].map(|part| part * u64::from(ranks) + odd);
                check(&plan, &sizes.map(|count| Message::new(DataType::F32, count).any_size()));
            }
        }
    }
}

#[test]
fn every_type_and_operation() {
    for name in ["allreduce_packets", "allreduce_all_pairs", "reducescatter_all_pairs", "reduce_gather"] {
        let algorithm = algorithms::all().iter().find(|algorithm| algorithm.name() == name);
        let algorithm = algorithm.unwrap_or_else(|| panic!("no {name}"));
        let plan = plan(algorithm, 3, algorithm.buffer_mode() != BufferMode::OutOfPlace, 0);
        let messages: Vec<Message> = DataType::ALL
            .iter()
            .flat_map(|&dtype| ReduceOp::ALL.map(|op| Message::new(dtype, 3 * 67).op(op).any_size()))
            .collect();
        check(&plan, &messages);
    }
}

/// Executors divide whole outputs, and those of a custom collective may be copies.
#[test]
fn average_of_a_custom_collective_is_an_error() {
    let program = Program::new(AlgoSpec::new("sums", CollectiveKind::Custom { input: 2, output: 2 }, 2));
    for rank in program.ranks() {
        rank.copy(rank.output().chunk(..), rank.input().chunk(..), 0);
        rank.reduce(rank.output().chunk(0), rank.input().chunk(1), 0);
    }
    let plan = Plan::new(&lower(&program.finish().expect("a recorded program")).expect("a plan"));
    each(2, |executor| {
        let prepare = |op| executor.prepare(&plan, Message::of::<f32>(8).op(op));
        let error = prepare(ReduceOp::Avg).map(drop).expect_err("copies would be divided");
        assert!(matches!(error, Error::FixedReduction { requested: ReduceOp::Avg, .. }), "{error}");
        prepare(ReduceOp::Max).expect("copies stay as they are");
    });
}

/// Block syncs at the ends of blocks are elided where they have no effect, but not the ends of loops with which blocks
/// end.
#[test]
fn loops_that_end_with_a_nop() {
    let algorithm = algorithms::find("allreduce_switch_pipeline").expect("it is in the library");
    let mut tree = algorithm.compile_tree(algorithm.spec(2, 2), &[]).expect("it compiles");
    let blocks = tree.ranks.iter_mut().flat_map(|rank| &mut rank.blocks);
    for body in blocks.flat_map(|block| &mut block.ops).filter_map(|op| op.body.as_mut()) {
        body.unit = 1024;
        body.ops.push(Op::new(OpKind::Nop, Origin::UNKNOWN));
    }
    let messages = [1, 511, 512, 10_001].map(|count| Message::of::<f32>(count).any_size());
    check(&Plan::new(&tree), &messages);
}

/// The memory for a plan grows with its operations, not with its chunks.
#[test]
fn plans_of_very_many_chunks() {
    for name in ["allreduce_ring", "allreduce_all_pairs"] {
        let algorithm = algorithms::find(name).expect("it is in the library");
        let mut tree = algorithm.compile_tree(algorithm.spec(2, 2), &[]).expect("it compiles");
        for rank in &mut tree.ranks {
            (rank.input_chunks, rank.output_chunks) = (4_000_000_000, 4_000_000_000);
        }
        let plan = Plan::new(&tree);
        each(2, |executor| {
            // All elements are in the first two chunks.
            let x = executor.prepare(&plan, Message::of::<f32>(2).any_size());
            let mut x = x.unwrap_or_else(|error| panic!("{name}: {error}"));
            let mut buffer = [1.0_f32 + executor.rank() as f32; 2];
            if x.collective().in_place {
                x.launch_in_place(&mut buffer)
            } else {
                x.launch(&buffer.clone(), &mut buffer)
            }
            .unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(buffer, [3.0; 2], "{name}");
        });
    }
}

#[test]
fn each_rank_verifies_its_output() {
    for (name, in_place) in [
        ("allgather_all_pairs", true),
        ("reducescatter_all_pairs", true),
        ("allreduce_ring", true),
        ("alltoall_direct", false),
    ] {
        let algorithm = algorithms::find(name).expect("a built-in algorithm");
        let plan = plan(algorithm, 3, in_place, 0);
        each(3, |executor| {
            let rank = executor.rank();
            let mut x = executor.prepare(&plan, Message::of::<i32>(999)).expect("it fits");
            let verifier = Verifier::new(&x, 11);
            let (mut input, mut output) = (vec![0; x.input_len()], vec![0; x.output_len()]);
            let report = if in_place {
                let mut buffer = vec![0; input.len().max(output.len())];
                verifier.fill_rank_in_place(rank, &mut buffer).expect("its buffer");
                assert!(!verifier.check_rank_in_place(rank, &buffer).expect("its buffer").is_correct(), "{name}");
                x.launch_in_place(&mut buffer).expect("it runs");
                verifier.check_rank_in_place(rank, &buffer)
            } else {
                verifier.fill_rank(rank, &mut input, &mut output).expect("its buffers");
                x.launch(&input, &mut output).expect("it runs");
                assert!(verifier.check_rank(rank, &output).expect("its output").is_correct(), "{name}");
                output[7] += 1;
                assert_eq!(
                    verifier.check_rank(rank, &output).expect("its output").first_mismatch.map(|first| first.element),
                    Some(7)
                );
                output[7] -= 1;
                verifier.check_rank(rank, &output)
            };
            let report = report.expect("its output");
            assert!(report.is_correct() && report.checked == output.len() as u64, "{name}, rank {rank}: {report}");
            let error = |report: Result<_, Error>| report.expect_err("not its output");
            assert!(matches!(error(verifier.check_rank(rank, &[0.0_f32])), Error::ElementType { .. }));
            assert!(matches!(
                error(verifier.check_rank(rank, &output[1..])),
                Error::BufferSize { buffer: "output", .. }
            ));
            assert_eq!(error(verifier.check_rank(3, &output)), Error::NotLocalRank { rank: 3 });
        });
    }
}
