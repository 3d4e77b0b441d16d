//! Results equal those of the CPU executor, for every type, reduction and length.

use libtest_mimic::Failed;
use mscclpp_algorithms as algorithms;
use mscclpp_core::plan::{
    Plan,
    raw::{BufferRef, Op, OpKind, PlanTree},
};
use mscclpp_core::types::{BufferKind, ReduceOp};
use mscclpp_exec::cuda::{self, SwitchPath};
use mscclpp_exec::verify::{Pattern, Verifier};
use mscclpp_exec::{AccumType, DataType, Message, cpu};

use super::{ALGORITHMS, counts, options, switches, taken, uses, world, world_on};
use crate::at;
use crate::bits::{Pair, shipped};

pub(super) fn shipped_algorithms(seed: u64) -> Result<(), Failed> {
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
                let all_members = |switch: &SwitchPath| switch.members.len() == ranks as usize && switch.path.is_ok();
                assert!(switches.len() == 1 && switches.iter().all(all_members), "{place}: {switches:?}");
                pair.check(2).map_err(|failed| at(&place, &failed))?;
                let (loads, stores) = taken(counts);
                let (reduces, stores_all) = uses(name);
                if each != 53 {
                    let expected = (reduces && dtype == DataType::I32, stores_all);
                    assert_eq!((loads > 0, stores > 0), expected, "{place}: {loads} loads, {stores} stores");
                }
            }
        }
    }
    Ok(())
}

/// Returns whether the switch's result of a reduction is bitwise equal to the CPU executor's.
fn is_exact(dtype: DataType, op: ReduceOp) -> bool {
    let integers = [DataType::I32, DataType::U32, DataType::I64, DataType::U64];
    integers.contains(&dtype) && op != ReduceOp::Prod
}

pub(super) fn types_and_operations(seed: u64) -> Result<(), Failed> {
    let counts = counts();
    let (plan, world) = (shipped("allreduce_switch", 3)?, world(seed, 3, counts)?);
    for &dtype in DataType::ALL {
        for accumulate in [AccumType::Native, AccumType::F32, AccumType::F64] {
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

/// Floats that the switch reduces, if that is enabled: sums as close to the true sum as the CPU executor's, minima and maxima with its bits.
pub(super) fn reductions_of_floats(seed: u64) -> Result<(), Failed> {
    let counts = counts();
    let asked = cuda::Options::default().in_switch_floats(true);
    let world = world_on(&[0, 1, 2, 3], options(seed, counts), asked)?;
    let plan = shipped("allreduce_switch", 4)?;
    for (dtype, accumulate, summed) in [
        (DataType::F32, AccumType::Native, true),
        (DataType::F64, AccumType::Native, true),
        (DataType::F16, AccumType::Native, true),
        (DataType::F16, AccumType::F32, true),
        (DataType::BF16, AccumType::Native, true),
        (DataType::BF16, AccumType::F32, true),
        // With a wider accumulator type than the switch has, or a type that it does not support.
        (DataType::F32, AccumType::F64, false),
        (DataType::BF16, AccumType::F64, false),
        (DataType::F8E4M3, AccumType::Native, false),
    ] {
        for op in [ReduceOp::Sum, ReduceOp::Avg, ReduceOp::Min, ReduceOp::Max] {
            for pattern in [Pattern::Exact, Pattern::Real] {
                let message = Message::new(dtype, 4 * 128 + 3).op(op).accumulate(accumulate).any_size();
                let place = format!("{dtype} {op} in {accumulate}, {pattern:?}");
                let mut run = world.prepare(&plan, message)?;
                let cpu = cpu::Executor::new(4).prepare(&plan, message)?;
                let (mut buffers, mut expected, stream) = (run.buffers()?, cpu.buffers()?, world.stream()?);
                let verifier = Verifier::with_pattern(&cpu, seed, pattern);
                verifier.fill(&mut expected);
                for rank in 0..4 {
                    buffers.write_input(rank, expected.input(rank))?;
                }
                run.launch_buffers(&mut buffers, &stream)?;
                run.synchronize(&stream)?;
                let compares = matches!(op, ReduceOp::Min | ReduceOp::Max);
                if compares {
                    cpu::Executor::new(4).prepare(&plan, message)?.launch_buffers(&mut expected)?;
                }
                for rank in 0..4 {
                    let of_cpu = expected.output(rank).to_vec();
                    buffers.read_output(rank, expected.output_mut(rank))?;
                    assert!(!compares || of_cpu == expected.output(rank), "{place}: other bits on rank {rank}");
                }
                let report = verifier.check(&expected);
                assert!(report.is_correct() && !report.is_unverified(), "{place}: {report:?}");
                let by_switch = if compares { dtype.size() == 2 } else { summed };
                assert_eq!(taken(counts).0 > 0, by_switch, "{place}");
            }
        }
    }
    Ok(())
}

/// A partial vector is accessed at the members one by one.
pub(super) fn any_length(seed: u64) -> Result<(), Failed> {
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

/// A plan that reduces into its own memory only, and then stores the result at all members.
fn in_two_steps(ranks: u32) -> Result<PlanTree, Failed> {
    let algorithm = algorithms::find("allreduce_switch").ok_or("no such algorithm")?;
    let mut tree = algorithm.compile_tree(algorithm.spec(ranks, ranks), &algorithm.arguments([])?)?;
    let mut split = 0;
    for block in tree.ranks.iter_mut().flat_map(|rank| &mut rank.blocks) {
        let both = |op: Op| {
            if op.kind != OpKind::SwitchReduceBroadcast {
                return vec![op];
            }
            split += 1;
            let mut local = op.srcs[0];
            local.buffer = BufferRef::Local(BufferKind::Input);
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

pub(super) fn reduced_without_broadcast(seed: u64) -> Result<(), Failed> {
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
