//! Selection covers every request, and the selected plan is correct: over collectives, topologies, sizes, types and
//! buffer modes.

use std::collections::BTreeMap;

use mscclpp_algorithms::OrderScope;
use mscclpp_core::check::reduction_order;
use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::types::ReduceOp;
use mscclpp_exec::DataType;
use mscclpp_exec::cpu::Executor;
use mscclpp_exec::select::{CALLS, Config, Decision, Registry, Request};
use mscclpp_exec::verify::Verifier;
use proptest::prelude::*;
use proptest::sample::select;

/// Returns every request for a number of ranks: all node sizes, and sizes around the limits of the rules.
fn requests(ranks: u32) -> impl Iterator<Item = Request> {
    let nodes = (1..=ranks).filter(move |per_node| ranks.is_multiple_of(*per_node));
    let sizes = (0..31).flat_map(|power| [(1_u64 << power) - 1, 1 << power, (1 << power) + 1]).chain([1 << 40]);
    let sizes: Vec<_> = sizes.collect();
    nodes.flat_map(move |ranks_per_node| {
        let sizes = sizes.clone();
        CALLS.into_iter().flat_map(move |(_, kind)| {
            let sizes = sizes.clone();
            [DataType::F32, DataType::I8].into_iter().flat_map(move |dtype| {
                let sizes = sizes.clone();
                [false, true].into_iter().flat_map(move |in_place| {
                    let request = Request { in_place, ranks_per_node, ..Request::new(kind, ranks, dtype, 0) };
                    sizes.clone().into_iter().map(move |bytes| Request { bytes, ..request })
                })
            })
        })
    })
}

fn select_one(registry: &Registry, request: &Request) -> Decision {
    registry.select(request).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn every_request_selects_the_same_on_all_ranks() {
    // Two ranks that do not communicate.
    let registries = [Registry::builtin(), Registry::builtin()];
    for ranks in 1..=64 {
        for request in requests(ranks) {
            let [one, other] = registries.each_ref().map(|registry| select_one(registry, &request));
            assert_eq!((one.algorithm.name(), one.config), (other.algorithm.name(), other.config), "{request}");
        }
    }
}

#[test]
fn all_types_and_reductions_are_supported() {
    let registry = Registry::builtin();
    for (_, kind) in CALLS {
        for &dtype in DataType::ALL {
            for op in ReduceOp::ALL {
                for (ranks, ranks_per_node) in [(1, 1), (2, 2), (2, 1), (3, 3), (7, 1), (12, 4), (48, 8), (64, 64)] {
                    for bytes in [0, 8, 1 << 13, 1 << 20] {
                        let request = Request::new(kind, ranks, dtype, bytes);
                        let op = request.op.map(|_| op);
                        select_one(&registry, &Request { op, ranks_per_node, ..request });
                    }
                }
            }
        }
    }
}

/// Returns the decisions for all requests, once for every plan.
fn selected(ranks: u32) -> Vec<(Request, Decision)> {
    let registry = Registry::builtin();
    let mut found = BTreeMap::new();
    for request in requests(ranks) {
        let decision = select_one(&registry, &request);
        let key = (decision.algorithm.name().to_owned(), request.ranks_per_node, request.in_place);
        found.entry(key).or_insert((request, decision));
    }
    found.into_values().collect()
}

/// Builds and checks every plan that is selected for a number of ranks.
fn build_all(ranks: u32) {
    let registry = Registry::builtin();
    for (request, decision) in selected(ranks) {
        if decision.algorithm.is_native() {
            continue;
        }
        let plan = registry.plan(&request, &decision).unwrap_or_else(|error| panic!("{request}: {error}"));
        assert_eq!((plan.num_ranks(), plan.ranks_per_node()), (ranks, request.ranks_per_node));
        assert_eq!((plan.collective().kind, plan.collective().in_place), (request.collective, request.in_place));
        // The CPU has few cores, so one block per rank is the default.
        let name = decision.algorithm.name();
        if request.collective == CollectiveKind::AllReduce && ranks <= 16 {
            let own_order = decision.algorithm.constraints().order_varies_across;
            let order = reduction_order(&plan.tree()).expect("it reduces");
            assert!(own_order.is_some() || order.is_same_on_all_ranks(), "{name} for {request}: {order:?}");
            if own_order == Some(OrderScope::FirstTwo) {
                assert!(
                    order.differing_ranks.is_empty() || order.differing_ranks == [1],
                    "{name} for {request}: {order:?}"
                );
                assert!(order.num_orders <= 2, "{name} for {request}: {order:?}");
            }
        }
    }
}

#[test]
fn selected_plans_are_proved() {
    for ranks in [2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16] {
        build_all(ranks);
    }
}

#[test]
fn selected_plans_of_many_ranks_are_proved() {
    // The checks of many ranks take long without optimization.
    for ranks in if cfg!(debug_assertions) { vec![17, 24] } else { (17..=64).collect() } {
        build_all(ranks);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(debug_assertions) { 200 } else { 2000 }, ..ProptestConfig::default() })]
    #[test]
    fn selected_plans_compute_their_collectives(
        kind in select(CALLS.map(|(_, kind)| kind).to_vec()), ranks in 2..10_u32, node in any::<proptest::sample::Index>(),
        dtype in select(DataType::ALL), op in select(ReduceOp::ALL.to_vec()), root in 0..10_u32, in_place: bool,
        part in prop_oneof![0..300_u64, 0..20_000_u64], odd in 0..7_u64, blocks in 1..4_u32, seed: u64,
    ) {
        let divisors: Vec<_> = (1..=ranks).filter(|per_node| ranks.is_multiple_of(*per_node)).collect();
        let free = !matches!(kind, CollectiveKind::AllGather | CollectiveKind::ReduceScatter | CollectiveKind::AllToAll);
        let count = part * u64::from(ranks) + if free { odd } else { 0 };
        let request = Request::new(kind, ranks, dtype, count * dtype.size() as u64);
        let rooted = matches!(kind, CollectiveKind::Broadcast | CollectiveKind::Reduce);
        let request = Request {
            op: request.op.map(|_| op),
            root: if rooted { root % ranks } else { 0 },
            ranks_per_node: *node.get(&divisors),
            in_place,
            ..request
        };
        let registry = Registry::builtin();
        let mut decision = select_one(&registry, &request);
        decision.config = Config { blocks: Some(blocks), threads: None };
        let plan = registry.plan(&request, &decision).unwrap_or_else(|error| panic!("{request}: {error}"));
        let mut run = Executor::new(ranks).prepare(&plan, request.message()).unwrap_or_else(|error| panic!("{error}"));
        let mut buffers = run.buffers().expect("little memory");
        for launch in 0..2 {
            let verifier = Verifier::new(&run, seed.wrapping_add(launch));
            verifier.fill(&mut buffers);
            run.launch_buffers(&mut buffers).unwrap_or_else(|error| panic!("{request}: {error}"));
            let report = verifier.check(&buffers);
            prop_assert!(report.is_correct(), "{} for {request}: {report}", decision.algorithm.name());
        }
    }
}
