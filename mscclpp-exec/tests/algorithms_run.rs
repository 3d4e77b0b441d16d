//! The built-in algorithms run on the CPU and compute the results of their collectives, in random orders of execution.

use mscclpp_algorithms as algorithms;
use mscclpp_algorithms::{BufferMode, BuiltinAlgorithm};
use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::lower::lower;
use mscclpp_core::plan::Plan;
use mscclpp_core::plan::raw::PlanTree;
use mscclpp_exec::cpu::{Executor, Options, Schedule};
use mscclpp_exec::{DataType, Message};

/// Ranks and ranks per node.
const MACHINES: [(u32, u32); 14] =
    [(2, 2), (3, 3), (4, 4), (5, 5), (7, 7), (8, 8), (13, 13), (2, 1), (4, 2), (6, 2), (6, 3), (5, 1), (9, 3), (12, 4)];

/// Elements per part of the message: none, one, fewer than in a vector, odd, and some more.
const SIZES: [u64; 5] = [0, 1, 3, 101, 1500];

fn placements(algorithm: &BuiltinAlgorithm) -> &'static [bool] {
    match algorithm.buffer_mode() {
        BufferMode::InPlace => &[true],
        BufferMode::OutOfPlace => &[false],
        BufferMode::Any => &[true, false],
    }
}

fn build(algorithm: &BuiltinAlgorithm, (ranks, ranks_per_node): (u32, u32), in_place: bool, root: u32) -> PlanTree {
    let mut spec = algorithm.spec(ranks, ranks_per_node);
    spec.instances = spec.instances.min(2);
    spec.collective.in_place = in_place;
    spec.collective.root = root;
    let arguments = algorithm.arguments([]).expect("defaults");
    algorithm
        .compile_tree(spec, &arguments)
        .unwrap_or_else(|error| panic!("{} on {ranks} ranks: {error}", algorithm.name()))
}

/// Returns element `index` of `rank`'s input in a launch: small, so that sums are exact, and rarely equal to the
/// previous value.
fn element(launch: u64, rank: u32, index: usize) -> i32 {
    let place = (u64::from(rank) << 40) + (launch << 36) + index as u64 + 1;
    (place.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as i32 % 100_000
}

/// Returns element `index` of `rank`'s output; `None` where the collective leaves it unspecified.
fn expected(
    kind: CollectiveKind,
    ranks: u32,
    root: u32,
    len: usize,
    rank: u32,
    index: usize,
    launch: u64,
) -> Option<i32> {
    let sum = |index| (0..ranks).map(|rank| element(launch, rank, index)).fold(0, i32::wrapping_add);
    // Elements of one rank's part, for collectives with parts.
    let part = len / ranks as usize;
    Some(match kind {
        CollectiveKind::AllReduce => sum(index),
        CollectiveKind::AllGather => element(launch, (index / part) as u32, index % part),
        CollectiveKind::ReduceScatter => sum(rank as usize * len + index),
        CollectiveKind::AllToAll => element(launch, (index / part) as u32, rank as usize * part + index % part),
        CollectiveKind::SendRecv => element(launch, (rank + ranks - 1) % ranks, index),
        CollectiveKind::Broadcast => element(launch, root, index),
        CollectiveKind::Reduce if rank == root => sum(index),
        _ => return None,
    })
}

/// Launches a plan three times in sequence on changing inputs, and compares every output.
fn verify(name: &str, plan: &PlanTree, count: u64, schedule: Schedule) {
    let (ranks, collective) = (plan.ranks.len() as u32, plan.collective);
    let what = format!("{name} on {ranks} ranks, {count} elements, {collective:?}, {schedule:?}");
    let world = Executor::with_options(ranks, Options::default().schedule(schedule));
    let message = Message::new(DataType::I32, count).any_size();
    let mut run = world.prepare(&Plan::new(plan), message).unwrap_or_else(|error| panic!("{what}: {error}"));
    let mut buffers = run.buffers().expect("little memory");
    for launch in 0..3 {
        for rank in 0..ranks {
            let input: &mut [i32] = bytemuck::cast_slice_mut(buffers.input_mut(rank));
            input.iter_mut().enumerate().for_each(|(index, value)| *value = element(launch, rank, index));
        }
        run.launch_buffers(&mut buffers).unwrap_or_else(|error| panic!("{what}, launch {launch}: {error}"));
        for rank in 0..ranks {
            let output: &[i32] = bytemuck::cast_slice(buffers.output(rank));
            for (index, &found) in output.iter().enumerate() {
                let expected = expected(collective.kind, ranks, collective.root, output.len(), rank, index, launch);
                assert!(
                    expected.is_none_or(|expected| expected == found),
                    "{what}, launch {launch}, rank {rank}, element {index}: expected {expected:?}, found {found}"
                );
            }
        }
    }
}

#[test]
fn every_algorithm_computes_its_collective() {
    let mut seed = 0;
    for algorithm in algorithms::all() {
        for machine in MACHINES.into_iter().filter(|&(ranks, node)| algorithm.supports(ranks, node)) {
            for &in_place in placements(algorithm) {
                let rooted = matches!(algorithm.kind(), CollectiveKind::Broadcast | CollectiveKind::Reduce);
                for root in if rooted { vec![0, machine.0 / 2, machine.0 - 1] } else { vec![0] } {
                    let plan = build(algorithm, machine, in_place, root);
                    let sizes = if machine.0 <= 4 { &SIZES[..] } else { &SIZES[1..4] };
                    for &part in sizes {
                        // All-reduces support any count: here one that divides evenly by no chunk count.
                        let odd = u64::from(algorithm.kind() == CollectiveKind::AllReduce);
                        seed += 1;
                        verify(algorithm.name(), &plan, part * u64::from(machine.0) + odd, Schedule::Seeded(seed));
                    }
                }
            }
        }
    }
}

#[test]
fn every_single_node_algorithm_runs_on_many_ranks() {
    for algorithm in algorithms::all() {
        for machine in [(31, 31), (64, 64)].into_iter().filter(|&(ranks, node)| algorithm.supports(ranks, node)) {
            let mut spec = algorithm.spec(machine.0, machine.1);
            spec.instances = 1;
            spec.collective.root = if algorithm.kind() == CollectiveKind::Broadcast { 17 } else { 0 };
            let trace = algorithm.record(spec, &algorithm.arguments([]).expect("defaults")).expect("it is supported");
            let plan = lower(&trace).expect("it can be lowered");
            verify(algorithm.name(), &plan, 5 * u64::from(machine.0), Schedule::RoundRobin);
        }
    }
}

#[test]
fn every_algorithm_runs_on_several_workers() {
    for algorithm in algorithms::all() {
        let machine = (4, algorithm.ranks_per_node(4).expect("four ranks make nodes"));
        let plan = build(algorithm, machine, placements(algorithm)[0], 0);
        // The executor uses one worker for smaller messages.
        verify(algorithm.name(), &plan, 1 << 16, Schedule::RoundRobin);
    }
}

#[test]
fn loops_run_over_several_windows() {
    let algorithm = algorithms::find("allreduce_switch_pipeline").expect("a pipelined algorithm");
    for ranks in [2, 3] {
        for &in_place in placements(algorithm) {
            let plan = build(algorithm, (ranks, ranks), in_place, 0);
            // Three windows of 1 MiB per chunk, the last one short.
            verify(algorithm.name(), &plan, 600_001 * u64::from(ranks), Schedule::RoundRobin);
        }
    }
}

#[test]
fn groups_split_the_work() {
    for algorithm in algorithms::all().iter().filter(|algorithm| !algorithm.params().is_empty()) {
        for group in [2, 3, 8] {
            let ranks_per_node = algorithm.ranks_per_node(6).expect("six ranks make nodes");
            let arguments = algorithm.arguments([("group", group)]).expect("it has a group");
            let plan = algorithm.compile_tree(algorithm.spec(6, ranks_per_node), &arguments).expect("it is supported");
            for count in [6, 66, 6 * 1001] {
                verify(algorithm.name(), &plan, count, Schedule::Seeded(group as u64));
            }
        }
    }
}
