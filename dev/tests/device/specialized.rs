//! Specialized kernels: results bitwise equal to those of the CPU executor, alone and alternating with the interpreter.
//!
//! Compiling a plan takes seconds, so the simulator tests a sample of them, which changes every day. `MSCCLPP_ALL=1`
//! selects all; `MSCCLPP_TEST_PLANS=FOLDER` adds the plans of a folder.

use libtest_mimic::Failed;
use mscclpp_algorithms as algorithms;
use mscclpp_core::plan::{
    LoadPlan, Plan,
    raw::{Op, OpKind, PlanTree},
};
use mscclpp_core::types::ReduceOp;
use mscclpp_exec::cuda::{Executor, NotSpecialized, PrepareOptions, specialized_source};
use mscclpp_exec::{AccumType, DataType, Error, Message};

use super::bits::{Pair, anywhere, shipped};
use super::plans::plan_files;
use super::stalls::{short_timeout, without_first_signal};
use super::{Rig, Test, at};

fn specialize() -> PrepareOptions {
    PrepareOptions::default().specialize(true)
}

pub(crate) fn tests() -> Vec<Test> {
    let files = plan_files().into_iter().map(|file| {
        let name = format!("specialized::file::{}", file.file_stem().unwrap_or_default().to_string_lossy());
        Test::new(name, move |rig| of_file(rig, &file))
    });
    let tests = vec![
        Test::new("specialized::shipped_algorithms", shipped_algorithms),
        Test::new("specialized::types_and_operations", types_and_operations),
        Test::new("specialized::any_length", any_length),
        Test::new("specialized::any_address", any_address),
        Test::new("specialized::wide_operations", wide_operations),
        Test::new("specialized::in_turn_with_the_interpreter", in_turn_with_the_interpreter),
        Test::new("specialized::stalls_are_reported_like_interpreted_ones", stalls_are_reported_like_interpreted_ones),
        Test::new("specialized::windows_of_operations", windows_of_operations),
        Test::new("specialized::large_plans_are_interpreted", large_plans_are_interpreted),
    ];
    tests.into_iter().chain(files).map(Test::that_compiles).collect()
}

/// Returns whether case `number` is in the sample.
fn takes(rig: &Rig, number: usize, of: u64) -> bool {
    !rig.small || is_sampled(rig.seed, number, of)
}

fn is_sampled(seed: u64, number: usize, of: u64) -> bool {
    std::env::var_os("MSCCLPP_ALL").is_some() || number as u64 % of == seed % of
}

/// Returns whether a seed samples number `number` of the built-in algorithms.
pub(crate) fn sampled(seed: u64, number: usize) -> bool {
    is_sampled(seed, number, 8)
}

/// Messages that divide into vectors everywhere, and that do not.
fn check(rig: &Rig, plan: &Plan, dtype: DataType, op: Option<ReduceOp>) -> Result<(), Failed> {
    let ranks = plan.num_ranks();
    let world = Executor::new(&rig.device, ranks);
    let counts: &[u64] = if rig.small { &[64, 37, 512] } else { &[64, 37, 4096, 50_001] };
    for &count in counts {
        let mut message = Message::new(dtype, u64::from(ranks) * count).any_size();
        message.op = op;
        if world.prepare(plan, message).is_err() {
            message.op = None;
        }
        let Some(mut pair) = Pair::with(&world, plan, message, specialize())? else { continue };
        pair.run.specialized().map_err(|reason| format!("not specialized: {reason}"))?;
        pair.check(2)?;
    }
    Ok(())
}

/// Returns a plan of every built-in algorithm on a topology that it supports, and a data type that the seed chooses;
/// with the algorithm's number and name.
pub(crate) fn shipped_plans(seed: u64) -> Result<Vec<(usize, &'static str, PlanTree, DataType)>, Failed> {
    const MACHINES: [(u32, u32); 4] = [(4, 4), (4, 2), (3, 3), (2, 1)];
    let mut plans = Vec::new();
    for (number, algorithm) in algorithms::all().iter().enumerate() {
        let Some(&(ranks, node)) = MACHINES.iter().find(|&&(ranks, node)| algorithm.supports(ranks, node)) else {
            continue;
        };
        let plan = algorithm.compile_tree(algorithm.spec(ranks, node), &algorithm.arguments([])?)?;
        let dtype = DataType::ALL[(seed as usize / 8 + number) % DataType::ALL.len()];
        plans.push((number, algorithm.name(), plan, dtype));
    }
    Ok(plans)
}

fn shipped_algorithms(rig: &Rig) -> Result<(), Failed> {
    for (_, name, plan, dtype) in shipped_plans(rig.seed)?.into_iter().filter(|&(number, ..)| takes(rig, number, 8)) {
        check(rig, &Plan::new(&plan), dtype, None).map_err(|failed| at(name, &failed))?;
    }
    Ok(())
}

fn types_and_operations(rig: &Rig) -> Result<(), Failed> {
    let mut number = 0;
    for name in ["allreduce_all_pairs", "allreduce_packets"] {
        let plan = shipped(name, 3)?;
        let world = Executor::new(&rig.device, 3);
        for &dtype in DataType::ALL {
            for accumulate in [AccumType::Native, AccumType::F32, AccumType::F64] {
                for op in ReduceOp::ALL.into_iter().filter(|_| accumulate.supports(dtype)) {
                    number += 1;
                    if !takes(rig, number, 40) {
                        continue;
                    }
                    for count in [3 * 128, 97] {
                        let message = Message::new(dtype, count).op(op).accumulate(accumulate).any_size();
                        let mut pair =
                            Pair::with(&world, &plan, message, specialize())?.ok_or("too many thread blocks")?;
                        pair.run.specialized().map_err(|reason| format!("not specialized: {reason}"))?;
                        pair.check(2)
                            .map_err(|failed| at(format_args!("{name}, {dtype} {op} in {accumulate}"), &failed))?;
                    }
                }
            }
        }
    }
    Ok(())
}

fn any_length(rig: &Rig) -> Result<(), Failed> {
    for name in ["allreduce_all_pairs", "allreduce_packets", "allgather_ring", "reducescatter_packets"] {
        let plan = shipped(name, 3)?;
        let world = Executor::new(&rig.device, 3);
        for count in (0..24).chain([64, 128, 192, 1023, 1024]) {
            let message = Message::new(DataType::F32, 3 * count).any_size();
            let mut pair = Pair::with(&world, &plan, message, specialize())?.ok_or("too many thread blocks")?;
            pair.run.specialized().map_err(|reason| format!("not specialized: {reason}"))?;
            pair.check(1).map_err(|failed| at(format_args!("{name}, {count} elements each"), &failed))?;
        }
    }
    Ok(())
}

/// Buffers that begin at any address, of a message that divides into vectors.
fn any_address(rig: &Rig) -> Result<(), Failed> {
    for name in ["allreduce_all_pairs", "allreduce_packets", "reducescatter_packets"] {
        let plan = shipped(name, 3)?;
        let world = Executor::new(&rig.device, 3);
        for turn in 0..8 {
            let message = Message::new(DataType::F32, 3 * 64).any_size();
            anywhere(&world, &plan, message, specialize(), turn)
                .map_err(|failed| at(format_args!("{name}, turn {turn}"), &failed))?;
        }
    }
    Ok(())
}

/// Operations of more operands than are processed together, and of more than kernels support.
fn wide_operations(rig: &Rig) -> Result<(), Failed> {
    for (name, ranks) in [("allreduce_one_shot_packets", 11), ("allreduce_all_pairs", 18), ("allgather_packets", 18)] {
        let plan = shipped(name, ranks)?;
        let message = Message::new(DataType::F32, u64::from(ranks) * 16).any_size();
        let world = Executor::new(&rig.device, ranks);
        let Some(mut pair) = Pair::with(&world, &plan, message, specialize())? else { continue };
        pair.run.specialized().map_err(|reason| format!("not specialized: {reason}"))?;
        pair.check(1).map_err(|failed| at(format_args!("{name}, {ranks} ranks"), &failed))?;
    }
    match specialized_source(&shipped("allreduce_one_shot_packets", 66)?, Message::new(DataType::F32, 66 * 4)) {
        Err(NotSpecialized::TooWide { sources, destinations, most }) if sources.max(destinations) > most => Ok(()),
        other => Err(format!("{:?}", other.map(drop)).into()),
    }
}

/// Both leave counters, flags and scratch as the other one expects them, eagerly and in graphs.
fn in_turn_with_the_interpreter(rig: &Rig) -> Result<(), Failed> {
    for name in ["allreduce_packets", "allreduce_ring", "alltoall_packets"] {
        let plan = shipped(name, 4)?;
        let world = Executor::new(&rig.device, 4);
        let message = Message::new(DataType::F32, 4 * 64).any_size();
        let mut specialized = Pair::with(&world, &plan, message, specialize())?.ok_or("too many thread blocks")?;
        let mut interpreted = Pair::new(&world, &plan, message)?.ok_or("too many thread blocks")?;
        specialized.run.specialized().map_err(|reason| format!("not specialized: {reason}"))?;
        if interpreted.run.specialized() != Err(&NotSpecialized::NotRequested) {
            return Err("specialized without being asked".into());
        }
        let Pair { run, buffers, .. } = &mut specialized;
        let graph = rig.device.stream()?.capture(|stream| run.launch_buffers(buffers, stream))?;
        for round in 0..6 {
            if round % 2 == 1 {
                interpreted.check(1).map_err(|failed| at(format_args!("{name}, interpreted"), &failed))?;
            }
            specialized.refill()?;
            if round % 3 == 0 {
                // SAFETY: prepared plan and buffers live as long as the pair.
                unsafe { graph.launch(specialized.stream())? };
            } else {
                specialized.launch()?;
            }
            specialized.compare().map_err(|failed| at(format_args!("{name}, round {round}"), &failed))?;
        }
    }
    Ok(())
}

fn stalls_are_reported_like_interpreted_ones(rig: &Rig) -> Result<(), Failed> {
    let plan = Plan::new(&without_first_signal("allreduce_ring", 3)?);
    let world = Executor::with_options(&rig.device, 3, short_timeout(rig));
    let message = Message::new(DataType::F32, 3 * 64).any_size();
    let mut reports = Vec::new();
    for prepare in [specialize(), PrepareOptions::default()] {
        let mut run = world.prepare_with_options(&plan, message, prepare)?;
        if prepare.specialize {
            run.specialized().map_err(|reason| format!("not specialized: {reason}"))?;
        }
        let (mut buffers, stream) = (run.buffers()?, rig.device.stream()?);
        run.launch_buffers(&mut buffers, &stream)?;
        let Err(Error::Stalled(stall)) = run.synchronize(&stream) else {
            return Err("a launch that cannot finish did".into());
        };
        let mut blocked = stall.blocked;
        blocked.sort_by_key(|blocked| (blocked.rank, blocked.block));
        reports.push((stall.launch, blocked));
    }
    if reports[0] == reports[1] { Ok(()) } else { Err(format!("{:?} and {:?}", reports[0], reports[1]).into()) }
}

/// Pipelines of several iterations, and operations that need more operands than shared memory holds at once: outside of
/// pipelines, and inside of one.
fn windows_of_operations(rig: &Rig) -> Result<(), Failed> {
    let cases: [(&str, &[OpKind], usize); 4] = [
        ("allreduce_switch_pipeline", &[], 0),
        ("allreduce_switch_pipeline", &[OpKind::SwitchBroadcast], 70),
        ("allreduce_switch_pipeline", &[OpKind::Nop], 40),
        ("allgather_all_pairs", &[OpKind::Put], 150),
    ];
    for (name, repeated, times) in cases {
        let algorithm = algorithms::find(name).ok_or("no such algorithm")?;
        let mut tree = algorithm.compile_tree(algorithm.spec(3, 3), &algorithm.arguments([])?)?;
        let repeat = |ops: &mut Vec<Op>| {
            let copies = |op: Op| {
                let more = if repeated.contains(&op.kind) { times } else { 0 };
                std::iter::repeat_n(op, 1 + more)
            };
            *ops = std::mem::take(ops).into_iter().flat_map(copies).collect();
        };
        for block in tree.ranks.iter_mut().flat_map(|rank| &mut rank.blocks) {
            let mut pipelined = false;
            for body in block.ops.iter_mut().filter_map(|op| op.body.as_mut()) {
                body.unit = 64;
                repeat(&mut body.ops);
                pipelined = true;
            }
            if !pipelined {
                repeat(&mut block.ops);
            }
        }
        let plan = Plan::new(&tree);
        let world = Executor::new(&rig.device, 3);
        for count in [3 * 128, 300] {
            let message = Message::new(DataType::F32, count).any_size();
            let mut pair = Pair::with(&world, &plan, message, specialize())?.ok_or("too many thread blocks")?;
            pair.run.specialized().map_err(|reason| format!("not specialized: {reason}"))?;
            pair.check(2).map_err(|failed| at(format_args!("{name}, {repeated:?} {times} times"), &failed))?;
        }
    }
    Ok(())
}

/// Plans whose thread blocks have nothing in common cost more than they gain.
fn large_plans_are_interpreted(rig: &Rig) -> Result<(), Failed> {
    let algorithm = algorithms::find("allreduce_ring").ok_or("no such algorithm")?;
    let mut tree = algorithm.compile_tree(algorithm.spec(2, 2), &algorithm.arguments([])?)?;
    for rank in &mut tree.ranks {
        let origin = rank.blocks[0].ops[0].origin;
        let sync = Op::new(OpKind::Nop, origin);
        rank.blocks[0].ops.extend(std::iter::repeat_n(sync, 3000));
    }
    let world = Executor::new(&rig.device, 2);
    let message = Message::new(DataType::F32, 128).any_size();
    let mut pair = Pair::with(&world, &Plan::new(&tree), message, specialize())?.ok_or("too many thread blocks")?;
    match pair.run.specialized() {
        Err(NotSpecialized::TooLarge { operations, most, .. }) if operations > most && *operations > 3000 => {}
        other => return Err(format!("{other:?}").into()),
    }
    pair.check(2)
}

fn of_file(rig: &Rig, file: &std::path::Path) -> Result<(), Failed> {
    // Rejected plans have separate tests.
    let Ok(plan) = Plan::load(&std::fs::read(file)?) else { return Ok(()) };
    let number =
        file.as_os_str().as_encoded_bytes().iter().fold(0_usize, |sum, &byte| sum * 31 % 9973 + usize::from(byte));
    if takes(rig, number, 16) { check(rig, &plan, DataType::F32, None) } else { Ok(()) }
}
