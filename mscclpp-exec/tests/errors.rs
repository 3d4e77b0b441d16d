//! Every error of running a plan, and its message.

use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::diag::Code;
use mscclpp_core::dsl::Program;
use mscclpp_core::lower::lower;
use mscclpp_core::plan::Plan;
use mscclpp_core::plan::raw::PlanTree;
use mscclpp_core::spec::AlgoSpec;
use mscclpp_core::types::ReduceOp;
use mscclpp_exec::cpu::{Executor, Options};
use mscclpp_exec::{AccumType, Error, Message};

/// Returns an unchecked plan, as lowered.
fn tree(spec: AlgoSpec, body: impl FnOnce(&Program)) -> PlanTree {
    let program = Program::new(spec);
    body(&program);
    lower(&program.finish().expect("a program that can be recorded")).expect("a program that can be lowered")
}

fn all_reduce() -> AlgoSpec {
    AlgoSpec::new("plan", CollectiveKind::AllReduce, 2)
}

/// Copies each rank's input to its output.
fn copy(p: &Program) {
    for rank in p.ranks() {
        rank.copy(rank.output().chunk(..), rank.input().chunk(..), 0);
    }
}

fn plan(spec: AlgoSpec, body: impl FnOnce(&Program)) -> Plan {
    Plan::new(&tree(spec, body))
}

/// Returns an error's code and its message with rule and help, after checks that apply to all errors.
#[track_caller]
fn told(error: &Error, code: Code, parts: &[&str]) {
    let text = error.diagnostic().to_string();
    assert_eq!(error.code(), code, "{text}");
    let entry = code.entry();
    assert!(text.contains(&format!("[{} {}]", entry.number, entry.slug)), "{text}");
    assert!(
        !error.to_string().ends_with('.') && (code == Code::Stalled || !error.to_string().contains('\n')),
        "{error}"
    );
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in: {text}");
    }
}

fn prepare(world: &Executor, plan: &Plan, message: Message) -> Error {
    world.prepare(plan, message).map(|_| ()).expect_err("a message that cannot be")
}

#[test]
fn stalled_plan_is_an_error() {
    let waits = plan(all_reduce(), |p| _ = p.rank(1).memory_channel(0).wait(0));
    let error = Executor::new(2).run(&waits, &[[0_i32; 2]; 2], &mut [[0; 2]; 2]).expect_err("nobody signals");
    told(&error, Code::Stalled, &["rank 1", "wait", "errors.rs"]);
}

#[test]
fn plan_for_another_rank_count_is_an_error() {
    let error = prepare(&Executor::new(3), &plan(all_reduce(), copy), Message::of::<f32>(6));
    told(&error, Code::WrongNumberOfRanks, &["`plan` is for 2 ranks", "found an executor of 3 ranks", "help"]);
}

#[test]
fn invalid_index_in_plan_is_an_error() {
    let mut damaged = tree(all_reduce(), |p| _ = p.rank(0).memory_channel(1).signal(0));
    damaged.ranks[0].blocks[0].channels[0].1[0] = 7;
    let error = prepare(&Executor::new(2), &Plan::new(&damaged), Message::of::<f32>(6));
    told(&error, Code::MalformedPlan, &["rank 0 / thread block 0", "7"]);
}

#[test]
fn message_size_out_of_range_is_an_error() {
    let spec = AlgoSpec { min_message_size: 64, max_message_size: 128, ..all_reduce() };
    let (world, plan) = (Executor::new(2), plan(spec, copy));
    told(&prepare(&world, &plan, Message::of::<f32>(8)), Code::MessageOutOfRange, &["32 bytes", "64 to 128 bytes"]);
    told(&prepare(&world, &plan, Message::of::<f32>(40)), Code::MessageOutOfRange, &["160 bytes", "any_size"]);
    assert!(world.prepare(&plan, Message::of::<f32>(40).any_size()).is_ok());
}

#[test]
fn range_of_sizes_counts_the_larger_buffer() {
    // 64 bytes of the larger buffer are 16 of the smaller one.
    for (input, output) in [(1, 4), (4, 1)] {
        let spec = AlgoSpec {
            min_message_size: 64,
            max_message_size: 128,
            ..AlgoSpec::new("plan", CollectiveKind::Custom { input, output }, 2)
        };
        let plan = plan(spec, |p| p.rank(0).copy(p.rank(0).output().chunk(0), p.rank(0).input().chunk(0), 0));
        let world = Executor::new(2);
        for (count, fits) in [(15, false), (16, true), (32, true), (33, false)] {
            let prepared = world.prepare(&plan, Message::of::<f32>(count));
            assert_eq!(prepared.is_ok(), fits, "{count} elements of {input} and {output} chunks");
        }
    }
}

#[test]
fn unequal_parts_are_an_error() {
    let spec = AlgoSpec::new("plan", CollectiveKind::AllGather, 2);
    let plan = plan(spec, |p| p.rank(0).copy(p.rank(0).output().chunk(0), p.rank(0).input().chunk(0), 0));
    let error = prepare(&Executor::new(2), &plan, Message::of::<i8>(7));
    told(&error, Code::IndivisibleCount, &["a multiple of 2 elements for allgather", "found 7", "use 8 elements"]);
}

#[test]
fn message_beyond_address_space_is_an_error() {
    let error = prepare(&Executor::new(2), &plan(all_reduce(), copy), Message::of::<f64>(usize::MAX));
    told(&error, Code::MessageTooLarge, &["18446744073709551615 elements of f64"]);
}

#[test]
fn reduction_other_than_the_plans_is_an_error() {
    let plan = plan(all_reduce(), |p| {
        let rank = p.rank(0);
        rank.reduce(rank.output().chunk(0), rank.input().chunk(0), 0).op(ReduceOp::Max);
    });
    let error = prepare(&Executor::new(2), &plan, Message::of::<f32>(2).op(ReduceOp::Min));
    told(&error, Code::FixedReduction, &["reduces with max", "requests min", "help"]);
}

#[test]
fn unsupported_accumulator_is_an_error() {
    let plan = plan(all_reduce(), copy);
    let error = prepare(&Executor::new(2), &plan, Message::of::<i32>(2).accumulate(AccumType::F64));
    told(&error, Code::NoSuchReduction, &["i32", "`Native`"]);
    let error = prepare(&Executor::new(2), &plan, Message::of::<f64>(2).accumulate(AccumType::F32));
    told(&error, Code::NoSuchReduction, &["f64", "`F64`"]);
}

#[test]
fn buffers_of_other_size_are_an_error() {
    let world = Executor::new(2);
    let plan = plan(all_reduce(), copy);
    let mut run = world.prepare(&plan, Message::of::<i32>(4)).expect("a right message");
    let error = run.launch(&[[0_i32; 4], [0; 4]], &mut [[0; 4]]).expect_err("an output is missing");
    told(&error, Code::WrongBuffers, &["expected 2 output buffers, one per rank, found 1"]);
    let error = run.launch(&[vec![0_i32; 4], vec![0; 3]], &mut [[0; 4]; 2]).expect_err("an input is short");
    told(&error, Code::WrongBuffers, &["input of rank 1", "12 bytes", "16 bytes"]);
    let error = run.launch(&[[0.0_f32; 4]; 2], &mut [[0.0; 4]; 2]).expect_err("another type");
    told(&error, Code::WrongBuffers, &["f32", "i32"]);
}

#[test]
fn buffer_mode_mismatch_is_an_error() {
    let mut spec = all_reduce();
    let world = Executor::new(2);
    let apart = plan(spec.clone(), copy);
    let error = world.run_in_place(&apart, &mut [[0_i32; 4]; 2]).expect_err("an out-of-place plan");
    told(&error, Code::InPlaceMismatch, &["out of place", "launch with inputs and outputs"]);
    spec.collective.in_place = true;
    let together = plan(spec, |p| _ = p.rank(0).reduce(p.rank(0).input().chunk(0), p.rank(0).input().chunk(1), 0));
    let error = world.run(&together, &[[0_i32; 4]; 2], &mut [[0; 4]; 2]).expect_err("an in-place plan");
    told(&error, Code::InPlaceMismatch, &["in place", "`launch_in_place`"]);
}

#[test]
fn read_only_inputs_are_an_error() {
    let overwrites = plan(all_reduce(), |p| p.rank(0).copy(p.rank(0).input().chunk(0), p.rank(0).output().chunk(0), 0));
    let error =
        Executor::new(2).run(&overwrites, &[[0_i32; 4]; 2], &mut [[0; 4]; 2]).expect_err("inputs are overwritten");
    told(&error, Code::ReadOnlyInput, &["overwrites its inputs", "`Buffers`"]);
}

#[test]
fn scratch_above_limit_is_an_error() {
    let options = Options::default().scratch_limit(1 << 10);
    let greedy = plan(all_reduce(), |p| {
        let rank = p.rank(0);
        rank.copy(rank.scratch(1000).chunk(0), rank.input().chunk(0), 0);
    });
    let error = prepare(&Executor::with_options(2, options), &greedy, Message::of::<i32>(4096));
    told(&error, Code::OutOfResources, &["bytes of scratch", "limit is 1024 bytes", "`Options::scratch_limit`"]);
}

/// No input triggers this error; it reports a bug of the library.
#[test]
fn internal_error_is_reported_as_bug() {
    told(&Error::Internal("agents went missing".into()), Code::ExecutorFault, &["internal error", "please report it"]);
}

#[test]
fn padding_costs_no_time() {
    let mut spec = all_reduce();
    spec.buffer_alignment = 1 << 31;
    let plan = plan(spec, |p| {
        for rank in p.ranks() {
            let peer = p.rank(1 - rank.id());
            let channel = rank.memory_channel(peer);
            channel.reduce(rank.input().chunk(..), peer.input().chunk(..), 0).to(rank.output().chunk(..));
        }
    });
    let started = std::time::Instant::now();
    let mut outputs = [[0_i32; 3]; 2];
    Executor::new(2).run(&plan, &[[1; 3], [2; 3]], &mut outputs).expect("a plan that runs");
    assert_eq!(outputs, [[3; 3]; 2]);
    // Adding 4 GiB of zeros per rank takes a minute on an otherwise idle machine.
    assert!(started.elapsed().as_secs() < 30, "{:?}", started.elapsed());
}

#[test]
fn buffers_beyond_memory_are_an_error() {
    let world = Executor::new(2);
    let run =
        world.prepare(&plan(all_reduce(), copy), Message::of::<f64>(1 << 40)).expect("sizes alone take no memory");
    let error = run.buffers().map(|_| ()).expect_err("32 TiB");
    told(&error, Code::OutOfResources, &["bytes of buffers are required", "help"]);
}
