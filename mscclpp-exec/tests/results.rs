//! All types, reductions, accumulators, packet kinds, sizes, numbers of workers and schedules against the oracle.

use mscclpp_algorithms as algorithms;
use mscclpp_algorithms::{BufferMode, BuiltinAlgorithm};
use mscclpp_core::check::Checks;
use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::compile_tree;
use mscclpp_core::dsl::Program;
use mscclpp_core::lower::lower;
use mscclpp_core::plan::Plan;
use mscclpp_core::plan::raw::PlanTree;
use mscclpp_core::spec::AlgoSpec;
use mscclpp_core::types::{BlockSync, ReduceOp};
use mscclpp_exec::cpu::{Executor, Options, Schedule};
use mscclpp_exec::verify::{Pattern, Verifier};
use mscclpp_exec::{AccumType, DataType, Error, Message, PacketType};
use proptest::prelude::*;
use proptest::sample::{Index, select};

fn build(algorithm: &BuiltinAlgorithm, ranks: u32, in_place: bool) -> Option<Plan> {
    let mut spec = algorithm.spec(ranks, algorithm.ranks_per_node(ranks)?);
    spec.instances = spec.instances.min(2);
    spec.collective.in_place = match algorithm.buffer_mode() {
        BufferMode::InPlace => true,
        BufferMode::OutOfPlace => false,
        BufferMode::Any => in_place,
    };
    let trace = algorithm.record(spec, &algorithm.arguments([]).expect("defaults")).ok()?;
    Some(Plan::new(&lower(&trace).expect("it can be lowered")))
}

/// Two ranks: rank 0's outputs combine several chunks of inputs, rank 1's are copies.
fn custom() -> PlanTree {
    let program = Program::new(AlgoSpec::new("mixing", CollectiveKind::Custom { input: 3, output: 2 }, 2));
    let (r0, r1) = (program.rank(0), program.rank(1));
    for (rank, peer) in [(r0, r1), (r1, r0)] {
        let channel = rank.memory_channel(peer);
        channel.signal(0).relaxed();
        channel.wait(0).relaxed().sync(BlockSync::After);
        if rank.id() == 0 {
            rank.copy(rank.output().chunk(0), rank.input().chunk(0), 0);
            rank.reduce(rank.output().chunk(0), rank.input().chunk(2), 0);
            for chunk in 0..3 {
                channel.reduce(rank.output().chunk(0), peer.input().chunk(chunk), 0);
            }
            rank.copy(rank.output().chunk(1), rank.input().chunk(2), 0);
        } else {
            channel.get(rank.output().chunk(0..2), peer.input().chunk(1..3), 0);
        }
        channel.signal(0).sync(BlockSync::Before);
        channel.wait(0).sync(BlockSync::After);
    }
    program.expect(
        r0.output().chunk(0),
        (0..3)
            .map(|chunk| r1.input().chunk(chunk))
            .chain([r0.input().chunk(0), r0.input().chunk(2)])
            .collect::<Vec<_>>(),
    );
    program.expect(r0.output().chunk(1), r0.input().chunk(2));
    program.expect(r1.output().chunk(0..2), r0.input().chunk(1..3));
    compile_tree(program, &Checks::default()).expect("a right program")
}

#[test]
fn custom_collectives_fulfill_their_expectations() {
    let tree = custom();
    let plan = Plan::new(&tree);
    let average =
        Executor::new(2).prepare(&plan, Message::of::<f32>(6).op(ReduceOp::Avg)).expect_err("copies in outputs");
    assert!(matches!(average, Error::FixedReduction { requested: ReduceOp::Avg, .. }), "{average}");
    for &dtype in DataType::ALL {
        for op in ReduceOp::ALL.into_iter().filter(|op| *op != ReduceOp::Avg) {
            for (count, pattern) in
                [(0, Pattern::Exact), (1, Pattern::Exact), (7, Pattern::Real), (1001, Pattern::Exact)]
            {
                let message = Message::new(dtype, count).op(op);
                let mut run = Executor::new(2).prepare(&plan, message).expect("a message that fits");
                let mut buffers = run.buffers().expect("little memory");
                let verifier = Verifier::with_pattern(&run, count, pattern);
                verifier.fill(&mut buffers);
                let report = verifier.check(&buffers);
                assert!(!report.is_correct(), "{dtype} {op} {count}: nothing was launched: {report}");
                run.launch_buffers(&mut buffers).expect("it ends");
                let report = verifier.check(&buffers);
                assert_eq!((report.wrong, report.is_correct()), (0, count > 0), "{dtype} {op} {count}: {report}");
                assert_eq!(report.is_unverified(), count == 0, "{dtype} {op} {count}");
                // Without expectations nothing is compared, which shows nothing.
                let report = verifier.clone().with_expectations(&[]).check(&buffers);
                assert!(report.is_unverified() && !report.is_correct(), "{report}");
                // Another expectation is detected as violated.
                let mut other = tree.expectations.clone();
                other.iter_mut().flat_map(|one| &mut one.inputs).for_each(|input| input.1 = (input.1 + 1) % 2);
                if count == 1001 {
                    assert!(verifier.with_expectations(&other).check(&buffers).wrong > 0, "{dtype} {op}");
                }
            }
        }
    }
}

/// A plan that sends over two ranks: by reads of the receiver, or through the rank between.
fn over_two_ranks(relayed: bool) -> Plan {
    let program = Program::new(AlgoSpec::new("far", CollectiveKind::SendRecv, 5));
    let scratch: Vec<_> = program.ranks().map(|rank| rank.scratch(1)).collect();
    for rank in program.ranks() {
        let at = |distance| program.rank((rank.id() + distance) % 5);
        if relayed {
            let (next, previous) = (rank.memory_channel(at(1)), rank.memory_channel(at(4)));
            for (from, to) in [
                (rank.input().chunk(0).to_any(), scratch[at(1).id()].chunk(0).to_any()),
                (scratch[rank.id()].chunk(0).to_any(), at(1).output().chunk(0).to_any()),
            ] {
                previous.signal(0).relaxed();
                next.wait(0).relaxed().sync(BlockSync::After);
                next.put(to, from, 0);
                next.signal(0);
                previous.wait(0);
            }
        } else {
            let (from, to) = (rank.memory_channel(at(3)), rank.memory_channel(at(2)));
            to.signal(0).relaxed();
            from.wait(0).relaxed().sync(BlockSync::After);
            from.get(rank.output().chunk(0), at(3).input().chunk(0), 0);
            from.signal(0);
            to.wait(0);
        }
    }
    Plan::new(&compile_tree(program, &Checks::default()).expect("a right program"))
}

#[test]
fn results_of_send_receives_are_those_of_the_plans_distance() {
    for relayed in [false, true] {
        let mut run = Executor::new(5).prepare(&over_two_ranks(relayed), Message::of::<i32>(9)).expect("it fits");
        let mut buffers = run.buffers().expect("little memory");
        let verifier = Verifier::new(&run, 1);
        verifier.fill(&mut buffers);
        run.launch_buffers(&mut buffers).expect("it ends");
        let report = verifier.check(&buffers);
        assert!(report.is_correct(), "relayed {relayed}: {report}");
    }
}

fn schedules() -> impl Strategy<Value = (Schedule, usize, u64)> {
    prop_oneof![
        2 => any::<u64>().prop_map(|seed| (Schedule::Seeded(seed), 1, 0)),
        2 => (1..5_usize).prop_map(|workers| (Schedule::RoundRobin, workers, 0)),
        1 => Just((Schedule::RoundRobin, 2, 1 << 20)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(debug_assertions) { 300 } else { 3000 }, ..ProptestConfig::default() })]
    #[test]
    fn results_equal_the_oracle(
        algorithm in any::<Index>(), ranks in 2..9_u32, in_place: bool, part in prop_oneof![0..40_u64, 0..3000_u64],
        odd in 0..5_u64, dtype in select(DataType::ALL), op in select(ReduceOp::ALL.to_vec()),
        accumulate in select(vec![AccumType::Native, AccumType::F32, AccumType::F64]),
        packet in select(vec![PacketType::LL16, PacketType::LL8]), pattern in select(vec![Pattern::Exact, Pattern::Real]),
        (schedule, workers, parallel_from) in schedules(), seed: u64,
    ) {
        let algorithm = algorithm.get(algorithms::all());
        let Some(plan) = build(algorithm, ranks, in_place) else { return Ok(()) };
        // Where parts need not be equal, any count is allowed.
        let free = matches!(algorithm.kind(), CollectiveKind::AllReduce | CollectiveKind::SendRecv);
        let count = part * u64::from(ranks) + if free { odd } else { 0 };
        let accumulate = if accumulate.supports(dtype) { accumulate } else { AccumType::Native };
        let message = Message { packet, accumulate, ..Message::new(dtype, count).op(op).any_size() };
        let options = Options::default().schedule(schedule).workers(Some(workers)).parallel_from(parallel_from);
        let mut run = Executor::with_options(ranks, options).prepare(&plan, message).expect("a message that fits");
        let mut buffers = run.buffers().expect("little memory");
        for launch in 0..2 {
            let verifier = Verifier::with_pattern(&run, seed.wrapping_add(launch), pattern);
            verifier.fill(&mut buffers);
            run.launch_buffers(&mut buffers).unwrap_or_else(|error| panic!("{}: {error}", algorithm.name()));
            let report = verifier.check(&buffers);
            prop_assert!(report.wrong == 0, "{} on {} ranks, {:?}: {}", algorithm.name(), ranks, message, report);
            prop_assert_eq!(report.is_correct(), count > 0);
        }
    }
}

#[test]
fn oracle_detects_wrong_element() {
    let algorithm = algorithms::find("allreduce_ring").expect("a ring");
    let plan = build(algorithm, 4, true).expect("four ranks");
    for &dtype in DataType::ALL {
        let mut run = Executor::new(4).prepare(&plan, Message::new(dtype, 1001).any_size()).expect("a plan");
        let mut buffers = run.buffers().expect("memory");
        let verifier = Verifier::new(&run, 5);
        verifier.fill(&mut buffers);
        assert!(!verifier.check(&buffers).is_correct(), "{dtype}: nothing was done yet");
        run.launch_buffers(&mut buffers).expect("it runs");
        assert!(verifier.check(&buffers).is_correct(), "{dtype}");
        let size = dtype.size();
        buffers.output_mut(2)[777 * size..778 * size].iter_mut().for_each(|byte| *byte ^= 0x41);
        let report = verifier.check(&buffers);
        let first = report.first_mismatch.expect("one is wrong");
        assert_eq!((report.wrong, first.rank, first.element), (1, 2, 777), "{dtype}");
    }
}
