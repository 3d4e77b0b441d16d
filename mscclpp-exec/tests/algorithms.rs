//! The built-in algorithms: they build on every topology that they support, and have the cost that their first lines
//! state.

use std::collections::BTreeMap;

use mscclpp_algorithms as algorithms;
use mscclpp_algorithms::{BufferMode, BuildError, BuiltinAlgorithm};
use mscclpp_core::check::proof_effort;
use mscclpp_core::lower::lower;
use mscclpp_core::plan::{
    Plan,
    raw::{BufferRef, Op, OpKind, PlanTree},
    text,
};
use mscclpp_core::types::ChannelKind;

/// Ranks and ranks per node: small, prime, large; one, two and several nodes.
const MACHINES: [(u32, u32); 16] = [
    (2, 2),
    (3, 3),
    (4, 4),
    (5, 5),
    (8, 8),
    (13, 13),
    (16, 16),
    (31, 31),
    (64, 64),
    (2, 1),
    (4, 2),
    (14, 7),
    (3, 1),
    (12, 4),
    (15, 3),
    (32, 8),
];

/// Returns the values of `in_place` that the algorithm supports.
fn placements(algorithm: &BuiltinAlgorithm) -> &'static [bool] {
    match algorithm.buffer_mode() {
        BufferMode::InPlace => &[true],
        BufferMode::OutOfPlace => &[false],
        BufferMode::Any => &[true, false],
    }
}

fn build(algorithm: &BuiltinAlgorithm, (ranks, ranks_per_node): (u32, u32), in_place: bool) -> PlanTree {
    let mut spec = algorithm.spec(ranks, ranks_per_node);
    spec.instances = 1;
    spec.collective.in_place = in_place;
    let arguments = algorithm.arguments([]).expect("defaults");
    // The checks of many ranks take long without optimization.
    let built = if ranks <= 16 || !cfg!(debug_assertions) {
        algorithm.compile_tree(spec, &arguments)
    } else {
        algorithm.record(spec, &arguments).and_then(|trace| Ok(lower(&trace)?))
    };
    built.unwrap_or_else(|error| panic!("{} on {ranks} ranks: {error}", algorithm.name()))
}

#[test]
fn names_are_unique_and_found() {
    for algorithm in algorithms::all() {
        assert!(std::ptr::eq(algorithms::find(algorithm.name()).expect("a name"), algorithm), "{}", algorithm.name());
        let cost = algorithm.cost();
        assert!(cost.contains(": ") && cost.ends_with('.'), "{}: {cost}", algorithm.name());
    }
    assert!(algorithms::find("allreduce").is_none());
}

#[test]
fn unsupported_specification_is_rejected() {
    let ring = algorithms::find("allreduce_ring").expect("a ring");
    let one = ring.record(ring.spec(1, 1), &[]).expect_err("one rank");
    assert_eq!(one.to_string(), "`allreduce_ring` supports 2 to 1024 ranks on 1 node, found 1, 1 per node");
    assert!(matches!(ring.record(ring.spec(8, 4), &[]), Err(BuildError::Topology { .. })));
    assert!(matches!(ring.record(ring.spec(8, 0), &[]), Err(BuildError::Topology { .. })));
    assert!(matches!(ring.record(ring.spec(u32::MAX, u32::MAX), &[]), Err(BuildError::Topology { .. })));
    assert!(matches!(ring.record(ring.spec(8, 8), &[1]), Err(BuildError::Params { .. })));
    assert_eq!(ring.ranks_per_node(u32::MAX), None);

    let mut halves = ring.spec(8, 8);
    halves.collective.chunk_factor = 2;
    let error = ring.record(halves, &[]).expect_err("two chunks a part");
    assert_eq!(error.to_string(), "`allreduce_ring` expects a chunk factor of 1, found 2");
    let pairs = algorithms::find("allreduce_all_pairs").expect("all pairs");
    let mut blocks = pairs.spec(8, 8);
    blocks.collective.chunk_factor = 2;
    assert_eq!(pairs.compile_tree(blocks, &[]).expect("any number of blocks").ranks[0].blocks.len(), 2);

    let two = algorithms::find("allgather_two_nodes").expect("two nodes");
    assert_eq!(two.ranks_per_node(14), Some(7));
    assert_eq!(two.ranks_per_node(15), None);
    let mut spec = two.spec(14, 7);
    spec.collective.in_place = false;
    let error = two.record(spec, &[]).expect_err("out of place");
    assert_eq!(error.to_string(), "`allgather_two_nodes` supports only in-place collectives; set `in_place` to true");
    assert!(matches!(two.record(ring.spec(14, 7), &[]), Err(BuildError::Kind { .. })));

    let grouped = algorithms::find("allgather_node_ring").expect("a ring of nodes");
    assert_eq!(grouped.arguments([("group", 3)]), Ok(vec![3]));
    let error = grouped.arguments([("blocks", 3)]).expect_err("no such parameter");
    assert_eq!(error.to_string(), "`allgather_node_ring` has no parameter `blocks`; it has group");
    assert!(matches!(grouped.record(grouped.spec(8, 4), &[0]), Err(BuildError::Params { .. })));
    assert!(matches!(grouped.record(grouped.spec(8, 4), &[1 << 40]), Err(BuildError::Params { .. })));
    assert!(matches!(ring.arguments([("group", 3)]), Err(BuildError::UnknownParam { .. })));
}

#[test]
fn embedded_plans_are_found() {
    for algorithm in algorithms::all() {
        let arguments = algorithm.arguments([]).expect("defaults");
        assert!(!algorithm.plans().is_empty(), "{}", algorithm.name());
        for plan in algorithm.plans() {
            let spec = algorithm.spec(plan.num_ranks(), plan.ranks_per_node());
            let found = algorithm.plan(spec.clone(), &arguments).expect("it is there");
            assert!(std::ptr::eq(found.image(), plan.image()), "{}", algorithm.name());
            let mut other = spec;
            other.instances += 1;
            let built = algorithm.plan(other, &arguments).expect("it is supported");
            assert!(built.hash() != plan.hash(), "{}", algorithm.name());
        }
    }
}

/// Data of the rank with the most traffic, in messages, and its scratch in chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Cost {
    /// Stored through memory channels.
    pub(crate) sent: f64,
    /// Sent through port channels.
    pub(crate) ported: f64,
    /// Read through memory channels.
    pub(crate) read: f64,
    /// Stored through switch channels.
    pub(crate) multicast: f64,
    /// Read and reduced by the switch.
    pub(crate) reduced: f64,
    /// Chunks of scratch.
    scratch: f64,
}

pub(crate) fn cost_of(plan: &PlanTree) -> Cost {
    let rank = |index: usize| {
        let rank = &plan.ranks[index];
        let mut cost = Cost { scratch: f64::from(rank.scratch_chunks), ..Cost::default() };
        let ops = rank.blocks.iter().flat_map(|block| &block.ops);
        for op in ops.flat_map(|op| op.body.as_ref().map_or(std::slice::from_ref(op), |body| body.ops.as_slice())) {
            add(&mut cost, op);
        }
        let message = f64::from(rank.input_chunks.max(rank.output_chunks));
        for part in [&mut cost.sent, &mut cost.ported, &mut cost.read, &mut cost.multicast, &mut cost.reduced] {
            *part /= message;
        }
        cost
    };
    let most = |a: Cost, b: Cost| Cost {
        sent: a.sent.max(b.sent),
        ported: a.ported.max(b.ported),
        read: a.read.max(b.read),
        multicast: a.multicast.max(b.multicast),
        reduced: a.reduced.max(b.reduced),
        scratch: a.scratch.max(b.scratch),
    };
    (0..plan.ranks.len()).map(rank).fold(Cost::default(), most)
}

impl Cost {
    /// Returns what the rank's operations move over its links.
    pub(crate) fn moved(&self) -> f64 {
        self.sent + self.ported + self.read + self.multicast + self.reduced
    }
}

fn add(cost: &mut Cost, op: &Op) {
    let share = op.slice.map_or(1.0, |slice| 1.0 / f64::from(slice.count));
    // Packets contain a flag for every datum.
    let packets = match op.kind {
        OpKind::PutPackets | OpKind::ReadPutPackets | OpKind::ReduceSendPackets | OpKind::ReduceCopySendPackets => 2.0,
        OpKind::SwitchBroadcastPackets => 2.0,
        _ => 1.0,
    };
    for dst in &op.dsts {
        let moved = share * packets * f64::from(dst.size);
        match dst.buffer {
            BufferRef::Local(_) => {}
            BufferRef::Remote(_) if op.channel == Some(ChannelKind::Port) => cost.ported += moved,
            BufferRef::Remote(_) => cost.sent += moved,
            BufferRef::Switch(_) => cost.multicast += moved,
        }
    }
    for src in &op.srcs {
        match src.buffer {
            BufferRef::Local(_) => {}
            BufferRef::Remote(_) => cost.read += share * f64::from(src.size),
            BufferRef::Switch(_) => cost.reduced += share * f64::from(src.size),
        }
    }
}

/// Returns the costs that the first lines of the algorithms state, for P ranks, N nodes of G ranks.
pub(crate) fn promised(name: &str, p: f64, n: f64, g: f64) -> Option<Cost> {
    let none = Cost::default();
    let others = (p - 1.0) / p;
    Some(match name {
        "allgather_pull" => Cost { read: others, ..none },
        "allgather_pairwise" | "allgather_all_pairs" | "allgather_ring" | "alltoall_direct" => {
            Cost { sent: others, ..none }
        }
        "allgather_switch" => Cost { multicast: 1.0 / p, ..none },
        "allgather_switch_packets" => Cost { multicast: 2.0 / p, scratch: p, ..none },
        "allgather_packets" => Cost { sent: 2.0 * others, scratch: p, ..none },
        "allgather_packed_once" => Cost { sent: 2.0 * others, scratch: 2.0 * p, ..none },
        "allgather_two_nodes" => Cost { sent: (g - 1.0) / g, ported: 1.0 / p, ..none },
        "allgather_node_ring" => Cost { sent: (g - 1.0) / g, ported: (n - 1.0) / p, scratch: p, ..none },
        "allgather_hierarchical_packets" => {
            Cost { sent: 2.0 * (g - 1.0) / g, ported: 2.0 * (n - 1.0) / p, scratch: p + n - 2.0, ..none }
        }
        "allgather_staged" => Cost { sent: others, scratch: p, ..none },
        "allreduce_all_pairs" => Cost { sent: others, read: others, ..none },
        "allreduce_staged" => Cost { sent: others, read: others, scratch: 8.0 * p, ..none },
        "allreduce_staged_pipeline" => Cost { sent: 2.0 * others, scratch: 2.0 * p, ..none },
        "allreduce_packets" => Cost { sent: 4.0 * others, scratch: 2.0 * p, ..none },
        "allreduce_one_shot_packets" => Cost { sent: 2.0 * (p - 1.0), scratch: p * p, ..none },
        "allreduce_rank_order" => Cost { sent: 2.0 * others, scratch: 8.0 * p, ..none },
        "allreduce_switch_packets" => Cost { multicast: 2.0, scratch: p * p, ..none },
        "allreduce_ring" => Cost { sent: 2.0 * others, scratch: p - 1.0, ..none },
        "allreduce_switch" => Cost { multicast: 1.0 / p, reduced: 1.0 / p, ..none },
        "allreduce_switch_pipeline" | "allreduce_switch_windows" => {
            Cost { multicast: 1.0 / p, reduced: 1.0 / p, scratch: p, ..none }
        }
        "allreduce_hierarchical_packets" => {
            Cost { sent: 4.0 * (g - 1.0) / g, ported: 2.0 * (n - 1.0) / g, scratch: 2.0 * p + n * n, ..none }
        }
        "reducescatter_all_pairs" => Cost { read: others, ..none },
        "reducescatter_ring" => Cost { sent: others, scratch: p - 1.0, ..none },
        "reducescatter_hierarchical_packets" => {
            Cost { sent: 2.0 * (g - 1.0) / g, ported: 2.0 * (n - 1.0) / p, scratch: p + n - 2.0, ..none }
        }
        "alltoall_in_place" | "alltoall_rotated" | "alltoall_rotated_in_place" => {
            Cost { sent: others, scratch: p - 1.0, ..none }
        }
        "alltoall_packets" => Cost { sent: 2.0 * others, scratch: p - 1.0, ..none },
        "broadcast_scatter" => Cost { sent: 2.0 * others, ..none },
        "reduce_gather" => Cost { sent: 1.0 / p, read: others, scratch: 1.0, ..none },
        "allgather_ring_ports" | "alltoall_ports" => Cost { ported: others, ..none },
        "reducescatter_ring_ports" => Cost { ported: others, scratch: p - 1.0, ..none },
        "allreduce_ring_ports" => Cost { ported: 2.0 * others, scratch: p - 1.0, ..none },
        "broadcast_chain" => Cost { ported: 1.0, ..none },
        "reduce_chain" => Cost { ported: 1.0, scratch: p, ..none },
        "send_recv" => Cost { ported: 1.0, ..none },
        "allgather_hierarchical" | "allgather_hierarchical_pipeline" => {
            Cost { sent: (g - 1.0) / g, ported: (n - 1.0) / p, ..none }
        }
        "allreduce_hierarchical" | "allreduce_hierarchical_pipeline" => {
            let within = (g - 1.0) / g;
            Cost { sent: within, read: within, ported: 2.0 * (n - 1.0) / p, scratch: n - 1.0, ..none }
        }
        "allreduce_hierarchical_switch" => {
            Cost { multicast: 1.0 / g, reduced: 1.0 / g, ported: 2.0 * (n - 1.0) / p, scratch: n - 1.0, ..none }
        }
        "reducescatter_packets" => Cost { sent: 2.0 * others, scratch: p - 1.0, ..none },
        "allreduce_ring_order" => Cost { sent: others, read: others, scratch: 2.0, ..none },
        "allreduce_one_shot_ports" => Cost { sent: g - 1.0, ported: p - g, scratch: p * p, ..none },
        "allreduce_rank_order_ports" => {
            Cost { sent: 2.0 * (g - 1.0) / p, ported: 2.0 * (p - g) / p, scratch: p, ..none }
        }
        "reducescatter_rank_order_ports" => Cost { sent: (g - 1.0) / p, ported: (p - g) / p, scratch: p, ..none },
        "reduce_rank_order" => {
            // A rank near the root and one far from it.
            let sent = if g > 1.0 { g / p } else { 0.0 };
            let ported = if n > 1.0 { (p - g + 1.0) / p } else { 0.0 };
            Cost { sent, ported, scratch: p, ..none }
        }
        "reducescatter_rank_order" => Cost { sent: others, scratch: p, ..none },
        "reducescatter_switch" => Cost { reduced: 1.0 / p, ..none },
        "reducescatter_hierarchical" => {
            Cost { read: (g - 1.0) / g, ported: (n - 1.0) / p, scratch: 2.0 * n - 2.0, ..none }
        }
        "alltoall_ports_in_place" => Cost { ported: others, scratch: p - 1.0, ..none },
        "allreduce_one_shot" => Cost { read: p - 1.0, ..none },
        "alltoall_pull" => Cost { read: others, ..none },
        "broadcast_pull" => Cost { read: 1.0, ..none },
        "broadcast_packets" => Cost { sent: 2.0 * (p - 1.0), scratch: p, ..none },
        "broadcast_tree_ports" => Cost { ported: p.log2().ceil(), ..none },
        "reduce_packets" => Cost { sent: 2.0, scratch: p * (p - 1.0), ..none },
        "reduce_tree_ports" => Cost { ported: 1.0, scratch: p * p.log2().ceil(), ..none },
        "send_recv_direct" => Cost { sent: 1.0, ..none },
        "send_recv_packets" => Cost { sent: 2.0, scratch: 1.0, ..none },
        "send_recv_in_place" => Cost { ported: 1.0, scratch: 1.0, ..none },
        _ => return None,
    })
}

#[test]
fn every_algorithm_builds_on_supported_topologies_at_its_stated_cost() {
    let max_ranks = if std::env::var_os("MSCCLPP_SOAK").is_some() { u32::MAX } else { 16 };
    let (mut wrong, mut loops) = (BTreeMap::new(), 0);
    for algorithm in algorithms::all() {
        let is_built = |ranks, node| ranks <= max_ranks && algorithm.supports(ranks, node);
        let machines: Vec<_> = MACHINES.into_iter().filter(|&(ranks, node)| is_built(ranks, node)).collect();
        assert!(machines.len() >= 3, "{} runs on {}", algorithm.name(), algorithm.requirement());
        for machine in machines {
            let (p, g) = (f64::from(machine.0), f64::from(machine.1));
            let promised = promised(algorithm.name(), p, p / g, g).expect("a cost in numbers");
            for &in_place in placements(algorithm) {
                let plan = build(algorithm, machine, in_place);
                assert_eq!(plan.ranks.len(), machine.0 as usize);
                let printed = text::print(&plan);
                assert_eq!(text::parse(&printed).as_ref(), Ok(&plan), "{printed}");
                assert_eq!(Plan::new(&plan).to_text(), printed);
                assert!(plan.ranks.iter().all(|rank| rank.blocks.iter().any(|block| !block.ops.is_empty())));
                loops += u64::from(proof(algorithm.name(), &plan) > 0);
                let found = cost_of(&plan);
                let pairs = [
                    (found.sent, promised.sent),
                    (found.ported, promised.ported),
                    (found.read, promised.read),
                    (found.multicast, promised.multicast),
                    (found.reduced, promised.reduced),
                    (found.scratch, promised.scratch),
                ];
                if pairs.iter().any(|(found, promised)| (found - promised).abs() > 1e-6) {
                    wrong.insert((algorithm.name(), machine, in_place), (found, promised));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(loops > 0, "no algorithm has loops that wait");
}

/// Returns the number of runs by which the checks prove that a plan's loops end at every size, which must be few and
/// short.
fn proof(name: &str, plan: &PlanTree) -> u64 {
    let (runs, steps) = proof_effort(plan).unwrap_or_else(|| panic!("{name} is not proved"));
    // Each channel of an operation is a step.
    let each = |op: &Op| op.ids.len().max(1) as u64;
    let ops = plan.ranks.iter().flat_map(|rank| &rank.blocks).flat_map(|block| &block.ops);
    let ops: u64 = ops.map(|op| each(op) + op.body.as_ref().map_or(0, |body| body.ops.iter().map(each).sum())).sum();
    assert!(runs <= 6 && steps <= 20 * ops, "{name}: {runs} runs of {steps} steps for {ops} operations");
    runs
}

/// Returns the kinds of the operations of a rank's first block that move data, with the numbers of their operands.
fn transfers(name: &str, in_place: bool) -> Vec<(OpKind, usize, usize)> {
    let plan = build(algorithms::find(name).expect("it is in the library"), (8, 8), in_place);
    let ops = plan.ranks[3].blocks[0].ops.iter().filter(|op| op.kind.is_data());
    ops.map(|op| (op.kind, op.srcs.len(), op.dsts.len())).collect()
}

#[test]
fn sums_are_stored_once() {
    for in_place in [false, true] {
        assert_eq!(transfers("allreduce_all_pairs", in_place), [(OpKind::ReadReduceSend, 8, 8)]);
        assert_eq!(transfers("reducescatter_all_pairs", in_place), [(OpKind::ReadReduce, 8, 1)]);
    }
}

#[test]
fn all_gather_puts_its_input_in_one_operation() {
    assert_eq!(transfers("allgather_all_pairs", true), [(OpKind::Put, 7, 7)]);
    assert_eq!(transfers("allgather_all_pairs", false), [(OpKind::Put, 7, 7), (OpKind::Copy, 1, 1)]);
}
