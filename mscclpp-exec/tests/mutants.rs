//! Running any plan terminates with a correct result, a wrong one or an error, but never with a panic, a hang or
//! undefined behavior of the executor.

use mscclpp_algorithms as algorithms;
use mscclpp_core::lower::lower;
use mscclpp_core::plan::{
    Plan,
    raw::{BufferRef, Op, OpKind, PlanTree, Slice},
};
use mscclpp_core::types::{BufferKind, ChannelKind, ReduceOp};
use mscclpp_exec::cpu::{Executor, Options, Schedule};
use mscclpp_exec::{DataType, Error, Message};
use proptest::prelude::*;
use proptest::sample::Index;

/// Initial plans: every kind of channel, packets, loops, several blocks.
fn seeds() -> Vec<PlanTree> {
    let names = [
        "allreduce_all_pairs",
        "allreduce_packets",
        "allreduce_ring",
        "allreduce_switch",
        "allreduce_switch_pipeline",
        "allgather_two_nodes",
        "allgather_switch_packets",
        "allgather_hierarchical_packets",
        "alltoall_rotated",
        "reducescatter_hierarchical_packets",
        "send_recv",
    ];
    names
        .into_iter()
        .map(|name| {
            let algorithm = algorithms::find(name).unwrap_or_else(|| panic!("{name}"));
            let mut spec = algorithm.spec(4, algorithm.ranks_per_node(4).expect("four ranks make nodes"));
            spec.instances = 1;
            let trace = algorithm.record(spec, &algorithm.arguments([]).expect("defaults")).expect(name);
            lower(&trace).expect(name)
        })
        .collect()
}

/// One change: its position, its kind, and the new value.
type Change = (Index, Index, Index, u8, u32);

fn change(tree: &mut PlanTree, (rank, block, op, what, value): &Change) {
    let value = *value;
    match what {
        0 => tree.buffer_alignment = value,
        1 => tree.double_scratch ^= true,
        2 => tree.reuse_resources ^= true,
        3 => tree.collective.in_place ^= true,
        4 => tree.collective.root = value,
        _ => {}
    }
    let rank = rank.index(tree.ranks.len());
    let rank = &mut tree.ranks[rank];
    match what {
        5 => rank.input_chunks = value,
        6 => rank.output_chunks = value,
        7 => rank.scratch_chunks = value,
        8 => rank.semaphores.push(i64::from(value as i32)),
        9 if !rank.remote_buffers.is_empty() => {
            let at = block.index(rank.remote_buffers.len());
            rank.remote_buffers[at].rank = value;
        }
        10 if !rank.channels.is_empty() => {
            rank.channels.remove(block.index(rank.channels.len()));
        }
        _ => {}
    }
    if rank.blocks.is_empty() {
        return;
    }
    let block = block.index(rank.blocks.len());
    let ops = &mut rank.blocks[block].ops;
    if ops.is_empty() {
        return;
    }
    let at = op.index(ops.len());
    match what {
        11 => {
            ops.remove(at);
            return;
        }
        12 => ops.insert(at, ops[at].clone()),
        13 => {
            let other = value as usize % ops.len();
            ops.swap(at, other);
        }
        14 => {
            let other = ops[value as usize % ops.len()].clone();
            ops.insert(at, other);
        }
        _ => {}
    }
    change_op(&mut ops[at], *what, value);
}

fn change_op(op: &mut Op, what: u8, value: u32) {
    let sides = op.srcs.len() + op.dsts.len();
    let mut refs: Vec<_> = op.srcs.iter_mut().chain(&mut op.dsts).collect();
    let reference = refs.get_mut(value as usize % sides.max(1));
    match (what, reference) {
        (15, Some(reference)) => reference.index = value >> 4,
        (16, Some(reference)) => reference.size = value >> 4,
        (17, Some(reference)) => reference.buffer = BufferRef::Local(BufferKind::ALL[value as usize / 16 % 3]),
        (18, Some(reference)) => reference.buffer = BufferRef::Remote(value >> 4),
        (19, Some(reference)) => reference.buffer = BufferRef::Switch(value >> 4),
        (20, _) => op.kind = OpKind::ALL[value as usize % OpKind::ALL.len()],
        (21, _) => op.channel = [None, Some(ChannelKind::Memory), Some(ChannelKind::Port)][value as usize % 3],
        (22, _) => op.ids.iter_mut().for_each(|id| *id = value),
        (23, _) => op.ids.push(value),
        (24, _) => op.slice = Some(Slice { index: value & 3, count: value >> 2 & 7 }),
        (25, _) => op.reduce = Some(ReduceOp::ALL[value as usize % 5]),
        (26, _) => op.num_blocks = value,
        (27, _) => op.srcs.truncate(value as usize % 3),
        (28, _) => op.dsts.truncate(value as usize % 3),
        _ => {}
    }
    if let Some(body) = &mut op.body {
        match what {
            29 => body.unit = u64::from(value),
            30 => body.num_chunks = value,
            31 => body.ops.truncate(value as usize % 4),
            _ => {
                let count = body.ops.len().max(1);
                if let Some(op) = body.ops.get_mut(value as usize % count) {
                    change_op(op, what, value >> 3);
                }
            }
        }
    }
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let value = prop_oneof![6 => 0..64_u32, 2 => 0..5000_u32, 1 => any::<u32>()];
    let index = || any::<Index>();
    proptest::collection::vec((index(), index(), index(), 0..32_u8, value), 1..5)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(debug_assertions) { 1500 } else { 20_000 }, ..ProptestConfig::default() })]
    #[test]
    fn mutants_terminate(
        seed in 0..11_usize, changes in changes(), count in 0..500_u64, dtype in prop::sample::select(DataType::ALL),
        schedule in any::<u64>(),
    ) {
        thread_local! { static SEEDS: Vec<PlanTree> = seeds(); }
        let mut tree = SEEDS.with(|seeds| seeds[seed].clone());
        changes.iter().for_each(|one| change(&mut tree, one));
        let plan = Plan::new(&tree);
        let message = Message::new(dtype, count * 4).any_size();
        for schedule in [Schedule::Seeded(schedule), Schedule::RoundRobin] {
            let options = Options::default().schedule(schedule).workers(Some(2)).parallel_from(0).scratch_limit(1 << 24);
            let world = Executor::with_options(plan.num_ranks(), options);
            let mut run = match world.prepare(&plan, message) {
                Ok(run) => run,
                Err(Error::Internal(text)) => panic!("{text}"),
                Err(_) => continue,
            };
            // A mutated alignment can make any buffer long.
            let Ok(mut buffers) = run.buffers() else { continue };
            for _ in 0..2 {
                if let Err(Error::Internal(text)) = run.launch_buffers(&mut buffers) {
                    panic!("{text}");
                }
            }
        }
    }
}
