//! Plans with numbers changed, most of which the checks reject: the fuzzer runs or refuses each, and never panics.
//!
//! `MSCCLPP_MALFORMED` is the number of plans.

use std::panic::{AssertUnwindSafe, catch_unwind};

use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::dsl::Program;
use mscclpp_core::lower::lower;
use mscclpp_core::plan::raw::{BufferRef, ChannelTable, Expectation, Op, OpKind, PlanTree, Slice};
use mscclpp_core::spec::AlgoSpec;
use mscclpp_core::types::{BufferKind, ChannelKind};
use mscclpp_fuzz::ScheduleFuzzer;

use super::runs::number;
use crate::corpus::{Named, shipped};
use crate::filetests::common::tests;
use crate::mutation::Random;

/// Steps of a run: a wrong plan fails within these, or never.
const STEPS: u64 = 10_000;

#[test]
fn plans_with_changed_numbers_are_run_or_refused() {
    let mut plans = shipped(&[(2, 2), (4, 2)], 1);
    plans.extend(
        tests("check").into_iter().filter_map(|test| Some(Named { plan: test.parse().ok()?, name: test.name })),
    );
    let (mut ran, mut refused, mut panicked) = (0, 0, Vec::new());
    for seed in 0..number("MSCCLPP_MALFORMED", 1500) {
        let mut random = Random(seed);
        let Named { name, plan } = &plans[random.below(plans.len() as u64) as usize];
        let mut plan = plan.clone();
        (0..1 + random.below(3)).for_each(|_| change(&mut plan, &mut random));
        let fuzzer = || ScheduleFuzzer::new(&plan).launches(2).max_steps(STEPS).run(seed);
        match catch_unwind(AssertUnwindSafe(fuzzer)) {
            Ok(Ok(_)) => ran += 1,
            Ok(Err(_)) => refused += 1,
            Err(_) => panicked.push(format!("{name}, seed {seed}: {plan:?}")),
        }
    }
    println!("{ran} plans were run, {refused} refused");
    assert!(panicked.is_empty(), "{} panicked; the first one: {}", panicked.len(), panicked[0]);
    assert!(ran > 100 && refused > 100, "{ran} {refused}");
}

#[test]
fn expectation_of_a_chunk_that_does_not_exist_is_refused() {
    let program = Program::new(AlgoSpec::new("copy", CollectiveKind::Custom { input: 2, output: 2 }, 1));
    let rank = program.rank(0);
    rank.copy(rank.output().chunk(..), rank.input().chunk(..), 0);
    program.expect(rank.output().chunk(..), rank.input().chunk(..));
    let plan = lower(&program.finish().expect("a recorded program")).expect("a plan");
    let is_refused = |change: fn(&mut Expectation)| {
        let mut plan = plan.clone();
        change(&mut plan.expectations[0]);
        ScheduleFuzzer::new(&plan).run(1).is_err()
    };
    assert!(!is_refused(|_| {}));
    assert!(is_refused(|expected| expected.inputs[0].1 = u32::MAX));
    assert!(is_refused(|expected| expected.inputs[0].0 = 1));
    assert!(is_refused(|expected| expected.chunk = 1));
}

/// Changes one number or name of a plan.
fn change(plan: &mut PlanTree, random: &mut Random) {
    let value = [0, 1, 2, 3, 9, 16, u32::MAX][random.below(7) as usize];
    let kinds = [
        CollectiveKind::AllReduce,
        CollectiveKind::AllGather,
        CollectiveKind::ReduceScatter,
        CollectiveKind::AllToAll,
        CollectiveKind::SendRecv,
        CollectiveKind::Broadcast,
        CollectiveKind::Reduce,
    ];
    let count = plan.ranks.len() as u64;
    if random.below(4) == 0 {
        match random.below(8) {
            0 => plan.collective.root = value,
            1 => plan.collective.in_place = !plan.collective.in_place,
            2 => plan.collective.kind = kinds[random.below(kinds.len() as u64) as usize],
            3 => plan.threads_per_block = value,
            4 => plan.buffer_alignment = value,
            5 => plan.double_scratch = !plan.double_scratch,
            6 => plan.ranks_per_node = value,
            _ => drop(plan.ranks.pop()),
        }
        return;
    }
    if count == 0 {
        return;
    }
    let rank = &mut plan.ranks[random.below(count) as usize];
    if random.below(4) == 0 {
        match random.below(6) {
            0 => rank.input_chunks = value,
            1 => rank.output_chunks = value,
            2 => rank.scratch_chunks = value,
            3 => rank.remote_buffers.iter_mut().for_each(|buffer| buffer.rank = value),
            4 => rank.semaphores.iter_mut().for_each(|initial| *initial = i64::from(value as i32)),
            _ => rank.channels.iter_mut().for_each(|table| match table {
                ChannelTable::Memory(peers) | ChannelTable::Port(peers) => {
                    peers.iter_mut().for_each(|peer| *peer = value)
                }
                ChannelTable::Switch { groups, .. } => groups.iter_mut().flatten().for_each(|rank| *rank = value),
            }),
        }
        return;
    }
    let mut blocks: Vec<_> = rank.blocks.iter_mut().filter(|block| !block.ops.is_empty()).collect();
    let Some(last) = blocks.len().checked_sub(1) else { return };
    let block = &mut *blocks[random.below(last as u64 + 1) as usize];
    if random.below(8) == 0 {
        let tables = block.channels.iter_mut().chain(&mut block.remote_buffers);
        return tables.flat_map(|(_, ids)| ids).for_each(|id| *id = value);
    }
    let place = random.below(block.ops.len() as u64) as usize;
    let op = &mut block.ops[place];
    match &mut op.body {
        Some(body) if random.below(2) == 0 => match random.below(4) {
            0 => body.unit = u64::from(value),
            1 => body.num_chunks = value,
            _ if body.ops.is_empty() => {}
            _ => {
                let inner = random.below(body.ops.len() as u64) as usize;
                change_op(&mut body.ops[inner], value, random);
            }
        },
        _ => change_op(op, value, random),
    }
}

fn change_op(op: &mut Op, value: u32, random: &mut Random) {
    match random.below(9) {
        0 => op.kind = OpKind::ALL[random.below(OpKind::ALL.len() as u64) as usize],
        1 => op.channel = [None, Some(ChannelKind::Memory), Some(ChannelKind::Port)][random.below(3) as usize],
        2 => op.ids.iter_mut().for_each(|id| *id = value),
        3 => op.num_blocks = value,
        4 => op.slice = Some(Slice { index: value, count: [0, 1, 2, u32::MAX][random.below(4) as usize] }),
        5 if random.below(2) == 0 => drop(op.srcs.pop()),
        5 => drop(op.dsts.pop()),
        number => {
            let mut operands: Vec<_> = op.srcs.iter_mut().chain(&mut op.dsts).collect();
            let Some(last) = operands.len().checked_sub(1) else { return };
            let operand = &mut *operands[random.below(last as u64 + 1) as usize];
            match number {
                6 => operand.index = value,
                7 => operand.size = value,
                _ => {
                    let places = [
                        BufferRef::Local(BufferKind::Input),
                        BufferRef::Local(BufferKind::Scratch),
                        BufferRef::Remote(value),
                        BufferRef::Switch(value),
                    ];
                    operand.buffer = places[random.below(4) as usize];
                }
            }
        }
    }
}
